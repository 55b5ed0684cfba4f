"""What a run has done so far, as one safetensors file: tensors, and the rest as JSON in its header."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from diffpool.errors import SettingError
from diffpool.experiments.records import fcntl
from diffpool.experiments.tasks import Trained


@dataclass
class Progress:
    """The models in training: names of their tasks, and what the cohort and its curves need to go on."""

    tasks: tuple[str, ...]
    state: Mapping[str, Tensor]
    curves: list[
        list[tuple[float, float]]
    ]  # of each model: validation loss and accuracy of every epoch
    seconds: float


@dataclass
class Checkpoint:
    """Finished models by name, and those in training."""

    done: dict[str, Trained] = field(default_factory=dict)
    progress: Progress | None = None
    peak_memory: int | None = None
    most: int | None = None  # models side by side, after more did not find memory


def checkpoint_path(out: str | Path, key: str) -> Path:
    """Beside the results, so that it moves with them."""
    out = Path(out)
    return out.with_name(out.name + ".checkpoints") / f"{key}.safetensors"


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """The file is replaced at once: whoever reads it finds the old one or the new one."""
    done = {name: asdict(result) for name, result in checkpoint.done.items()}
    tensors = {f"done.{name}": _tensor(values.pop("curve")) for name, values in done.items()}
    about: dict[str, object] = {"done": done}
    about |= {"peak_memory": checkpoint.peak_memory, "most": checkpoint.most}
    if (now := checkpoint.progress) is not None:
        # A clone, because views of one matrix are not stored apart.
        for name, tensor in now.state.items():
            tensors[f"state.{name}"] = tensor.detach().cpu().clone().contiguous()
        for number, curve in enumerate(now.curves):
            tensors[f"curve.{number}"] = _tensor(curve).reshape(-1, 2)
        about |= {"tasks": now.tasks, "seconds": now.seconds}
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(save(tensors, {"about": json.dumps(about)}))
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise SettingError(f"expected to write {path}, got an error ({error.strerror})") from error


def _tensor(values: Sequence[object]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def load_checkpoint(path: Path) -> Checkpoint:
    """What was saved; an empty one if there is none, or if it is damaged: the run then starts anew."""
    try:
        with safe_open(path, "pt") as file:
            about = json.loads(file.metadata()["about"])
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        done = {
            name: Trained(**values, curve=tuple(tensors[f"done.{name}"].tolist()))
            for name, values in about["done"].items()
        }
        progress = None
        if "tasks" in about:
            names = tuple(about["tasks"])
            state = {k.removeprefix("state."): t for k, t in tensors.items() if k[:6] == "state."}
            curves = [
                [(loss, accuracy) for loss, accuracy in tensors[f"curve.{number}"].tolist()]
                for number in range(len(names))
            ]
            progress = Progress(names, state, curves, about["seconds"])
        return Checkpoint(done, progress, about["peak_memory"], about.get("most"))
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        return Checkpoint()


def remove_checkpoint(path: Path) -> None:
    """Remove it with what killed processes left of it, and the folder if nothing else is in it."""
    for other in (path, *path.parent.glob(f".{path.name}.*.part")):
        other.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        path.parent.rmdir()


def remove_leftovers(path: Path) -> None:
    """What a process killed after its last record left beside the results; nothing if another one is at it."""
    if path.parent.exists():
        with contextlib.suppress(SettingError), only_process(path):
            remove_checkpoint(path)


@contextlib.contextmanager
def only_process(path: Path) -> Iterator[None]:
    """Keep other processes from the run with this checkpoint; an error if one is at it."""
    if fcntl is None:
        yield
        return
    lock = path.with_suffix(".lock")
    while True:
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # another process removed the folder just now
            continue
        except OSError as error:
            raise SettingError(
                f"expected to write {lock}, got an error ({error.strerror})"
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(file)
            raise SettingError(
                "expected to be the only process at this run, got another one: "
                "wait for it and ask again, the result will be there"
            ) from error
        except OSError:  # a file system without locks
            break
        try:
            same = os.fstat(file).st_ino == lock.stat().st_ino
        except FileNotFoundError:
            same = False
        if same:
            break
        os.close(file)  # it was removed before we had it
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            lock.parent.rmdir()
        os.close(file)
