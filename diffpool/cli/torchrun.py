"""`torchrun … -m diffpool train`: the processes find each other, and only one of them speaks.

Environment variables tell a process about the others: WORLD_SIZE, RANK, LOCAL_RANK, MASTER_ADDR and MASTER_PORT.
Modules that import torch are imported inside the functions, because every command asks whether it is one of several.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from diffpool.errors import SettingError

if TYPE_CHECKING:
    from diffpool.training import Processes

EXAMPLE = "torchrun --nproc-per-node 2 -m diffpool train DATA"
NEEDED = ("RANK", "MASTER_ADDR", "MASTER_PORT")
_complaints: list[Any] = []  # the store in which the processes count their error messages


@dataclass(frozen=True)
class Launch:
    """What the environment says about this process."""

    rank: int
    size: int
    local_rank: int  # among the processes on this machine

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> Launch | None:
        """None if this process is the only one."""
        if environment.get("WORLD_SIZE", "1").strip() in ("", "1"):
            return None
        if missing := [name for name in NEEDED if not environment.get(name)]:
            raise SettingError(
                f"WORLD_SIZE is {environment['WORLD_SIZE']}, but {' and '.join(missing)} "
                f"{'is' if len(missing) == 1 else 'are'} not set: start with `{EXAMPLE}`, or unset WORLD_SIZE"
            )

        def number(name: str, default: str = "") -> int:
            text = environment.get(name, default)
            if not text.isdecimal():
                raise SettingError(
                    f"expected the environment variable {name} to be an integer, got {text!r}: "
                    f"start with `{EXAMPLE}`"
                )
            return int(text)

        rank, size = number("RANK"), number("WORLD_SIZE")
        if rank >= size:
            raise SettingError(
                f"expected the environment variable RANK to be below WORLD_SIZE ({size}), got {rank}: "
                f"start with `{EXAMPLE}`"
            )
        return cls(rank, size, number("LOCAL_RANK", str(rank)))


def check_command(words: Sequence[str]) -> None:
    """Raise an error if several processes were started for a command that trains its models in one."""
    command = next((word for word in words if not word.startswith("-")), "train")
    if command == "train" or not by_torchrun():
        return
    launch = Launch.read()
    if launch is not None:
        instead = "run it without torchrun"
        if command in ("evaluate", "tune", "reproduce"):
            instead += ", with --devices or --cluster"
        raise SettingError(
            f"torchrun started {launch.size} processes, but diffpool {command} works in one: {instead}; "
            "see docs/scale.md"
        )


def by_torchrun() -> bool:
    """Whether torchrun started this process, be it the only one."""
    return "RANK" in os.environ


def leads() -> bool:
    """Whether this is the only process or the first of several."""
    return os.environ.get("RANK", "0") == "0" or os.environ.get("WORLD_SIZE", "1") == "1"


def may_complain() -> bool:
    """Whether this is the first process with an error. The same error often occurs in all of them."""
    if not _complaints:
        return leads()
    try:
        return bool(_complaints[0].add("complaints", 1) == 1)
    except RuntimeError:  # the machine with the store is gone
        return leads()


@contextmanager
def joined(device: str) -> Iterator[tuple[Processes | None, str]]:
    """Join the other processes that torchrun started. Yields all of them and the device of this one.

    None and the given device if there is only this process. On GPUs, each process of a machine has its own.
    """
    launch = Launch.read()
    if launch is None:
        yield None, device
        return
    import torch
    import torch.distributed as dist

    from diffpool.training import Processes

    if not dist.is_available():
        raise SettingError("this build of PyTorch has no torch.distributed: run without torchrun")
    device = _own_device(device, launch)
    gpu = device.startswith("cuda")
    if gpu:
        torch.cuda.set_device(device)
    try:
        store = next(iter(dist.rendezvous("env://")))[0]
        _complaints.append(dist.PrefixStore("diffpool", store))
        backend = "cpu:gloo,cuda:nccl" if gpu else "gloo"
        dist.init_process_group(backend, store=store, rank=launch.rank, world_size=launch.size)
    except RuntimeError as error:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        reason = str(error).splitlines()[0]
        raise SettingError(
            f"the {launch.size} processes could not connect at {where} ({reason})"
        ) from error
    if launch.rank:
        warnings.simplefilter("ignore")  # the first process warns
    else:
        signal.signal(signal.SIGINT, _interrupt_once)
    yield Processes.current(), device
    dist.destroy_process_group()
    _complaints.clear()


def _own_device(device: str, launch: Launch) -> str:
    if not device.startswith("cuda"):
        return device
    import torch

    count = torch.cuda.device_count()
    if ":" in device:
        raise SettingError(
            f"expected --device cuda or cpu, because torchrun gives every process its own GPU, got {device!r}"
        )
    if launch.local_rank >= count:
        raise SettingError(
            f"expected a GPU for each process of this machine, got {count}: use --nproc-per-node {count}, "
            "or --device cpu"
        )
    return f"cuda:{launch.local_rank}"


def _interrupt_once(number: int, frame: Any) -> None:
    """Ctrl-C reaches every process twice: from the terminal and from torchrun. The second must not end saving."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt
