"""The progress of a run as one safetensors file: tensors, and everything else as JSON in its header."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from diffpool.errors import SettingError
from diffpool.experiments.plan import Trained
from diffpool.files import atomic_write, file_lock, remove_unfinished


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
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            temporary.write_bytes(save(tensors, {"about": json.dumps(about)}))
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
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, RecursionError):
        return Checkpoint()


def remove_checkpoint(path: Path) -> None:
    """Remove the checkpoint, incomplete copies left by killed processes, and the folder if it is empty then."""
    path.unlink(missing_ok=True)
    remove_unfinished(path)
    _remove_if_empty(path.parent)


def remove_leftovers(path: Path) -> None:
    """Remove what a process left that was killed after its last record, unless another process uses it."""
    if path.parent.exists():
        with contextlib.suppress(SettingError), only_process(path):
            remove_checkpoint(path)


@contextlib.contextmanager
def only_process(path: Path) -> Iterator[None]:
    """Lock the run with this checkpoint; an error if another process has locked it."""
    lock = path.with_suffix(".lock")
    with contextlib.ExitStack() as stack:
        stack.callback(_remove_if_empty, lock.parent)
        try:
            stack.enter_context(file_lock(lock, wait=False))
        except BlockingIOError as error:
            raise SettingError(
                "another process is working on this run: "
                "wait until it has finished, then repeat the command to get the result"
            ) from error
        except OSError as error:
            raise SettingError(f"cannot write {lock} ({error.strerror})") from error
        yield


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()
