"""The progress of a run as one safetensors file: tensors, and everything else as JSON in its header."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from diffpool.errors import SettingError
from diffpool.experiments.plan import Trained
from diffpool.experiments.records import fcntl


@dataclass
class Checkpoint:
    """Finished models by name, and the models in training, if any."""

    done: dict[str, Trained] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()  # names of the models in training, side by side
    cohort: Mapping[str, Tensor] = field(default_factory=dict)  # their `Cohort.state()`
    peak_memory: int | None = None
    max_models: int | None = None  # side by side; set when memory did not suffice for more


def checkpoint_path(results: str | Path, key: str) -> Path:
    """The checkpoint of a run: in a folder next to the results file."""
    results = Path(results)
    return results.with_name(results.name + ".checkpoints") / f"{key}.safetensors"


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the file atomically: a reader finds either the old or the new checkpoint."""
    done = {name: asdict(result) for name, result in checkpoint.done.items()}
    tensors = {
        f"done.{name}": torch.tensor(values.pop("curve"), dtype=torch.float64)
        for name, values in done.items()
    }
    for name, tensor in checkpoint.cohort.items():
        # A clone, because safetensors refuses tensors that share memory.
        tensors[f"cohort.{name}"] = tensor.detach().cpu().clone().contiguous()
    about = {
        "done": done,
        "tasks": checkpoint.tasks,
        "peak_memory": checkpoint.peak_memory,
        "max_models": checkpoint.max_models,
    }
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(save(tensors, {"about": json.dumps(about)}))
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise SettingError(f"cannot write {path} ({error.strerror})") from error


def load_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in this file; an empty one if the file is missing or damaged, so that the run starts over."""
    try:
        with safe_open(path, "pt") as file:
            about = json.loads(file.metadata()["about"])
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        done = {
            name: Trained(**values, curve=tuple(tensors[f"done.{name}"].tolist()))
            for name, values in about["done"].items()
        }
        prefix = "cohort."
        return Checkpoint(
            done=done,
            tasks=tuple(about["tasks"]),
            cohort={k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)},
            peak_memory=about["peak_memory"],
            max_models=about["max_models"],
        )
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        return Checkpoint()


def remove_checkpoint(path: Path) -> None:
    """Remove the checkpoint, incomplete copies left by killed processes, and the folder if it is empty then."""
    for other in (path, *path.parent.glob(f".{path.name}.*.part")):
        other.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        path.parent.rmdir()


def remove_leftovers(path: Path) -> None:
    """Remove what a process left that was killed after its last record, unless another process uses it."""
    if path.parent.exists():
        with contextlib.suppress(SettingError), only_process(path):
            remove_checkpoint(path)


@contextlib.contextmanager
def only_process(path: Path) -> Iterator[None]:
    """Lock the run with this checkpoint; an error if another process has locked it."""
    if fcntl is None:
        yield
        return
    lock = path.with_suffix(".lock")
    while True:
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # another process has just removed the folder
            continue
        except OSError as error:
            raise SettingError(f"cannot write {lock} ({error.strerror})") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(file)
            raise SettingError(
                "another process is working on this run: "
                "wait until it has finished, then repeat the command to get the result"
            ) from error
        except OSError:  # the file system has no locks
            break
        try:
            same = os.fstat(file).st_ino == lock.stat().st_ino
        except FileNotFoundError:
            same = False
        if same:
            break
        os.close(file)  # another process removed the file before we locked it
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            lock.parent.rmdir()
        os.close(file)
