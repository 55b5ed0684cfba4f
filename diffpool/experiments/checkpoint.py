"""The progress of a run as one safetensors file: tensors, and everything else as JSON in its header."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from diffpool.checksums import Arrays, DamagedFileError, load_arrays, save_arrays
from diffpool.errors import SettingError
from diffpool.experiments.plan import HeldOut, Trained
from diffpool.files import file_lock, remove_unfinished
from diffpool.training import Epoch


@dataclass(frozen=True)
class InTraining:
    """Models that are trained side by side."""

    tasks: tuple[str, ...]  # their names
    state: Mapping[str, Tensor]  # their `Cohort.state()`


@dataclass
class Checkpoint:
    """Finished models by name, and the cohorts in training, if any."""

    done: dict[str, Trained] = field(default_factory=dict)
    cohorts: tuple[InTraining, ...] = ()
    peak_memory: int | None = None
    max_models: int | None = None  # side by side; set when there was not enough memory for more
    epochs: tuple[Epoch, ...] = ()  # of `single_run.fit`: the lines of metrics.jsonl


def checkpoint_path(results: str | Path, key: str) -> Path:
    """The checkpoint of a run: in a folder next to the results file."""
    results = Path(results)
    return results.with_name(results.name + ".checkpoints") / f"{key}.safetensors"


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the file atomically: readers see either the old or the new checkpoint."""
    done = {name: asdict(result) for name, result in checkpoint.done.items()}
    arrays = {
        f"done.{name}": np.array(values.pop("curve"), np.float64) for name, values in done.items()
    }
    for name, values in done.items():
        for part, array in (values.pop("held_out") or {}).items():
            arrays[f"held_out.{part}.{name}"] = array
        for part, array in (values.pop("state") or {}).items():
            arrays[f"state.{name}.{part}"] = array
    for number, cohort in enumerate(checkpoint.cohorts):
        for name, tensor in cohort.state.items():
            arrays[f"cohort.{number}.{name}"] = tensor.detach().cpu().numpy()
    about = {
        "done": done,
        "cohorts": [cohort.tasks for cohort in checkpoint.cohorts],
        "peak_memory": checkpoint.peak_memory,
        "max_models": checkpoint.max_models,
        "epochs": [asdict(row) for row in checkpoint.epochs],
    }
    save_arrays(path, arrays, about)


def load_checkpoint(path: Path, notify: Callable[[str], None] = warnings.warn) -> Checkpoint:
    """Load a checkpoint; returns an empty one if the file is missing or damaged, so that the run starts over.

    `notify` is called with a message if the file is damaged.
    """
    try:
        return read_checkpoint(path)
    except DamagedFileError as error:
        notify(f"{error}: training the unfinished models again")
        return Checkpoint()


def read_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in this file, an empty one if the file is missing; raises `DamagedFileError`."""
    try:
        found = load_arrays(path)
        return Checkpoint() if found is None else _decoded(*found)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedFileError(f"{path} is damaged") from error


def _decoded(arrays: Arrays, about: Any) -> Checkpoint:
    done = {
        name: Trained(
            **values,
            curve=tuple(arrays[f"done.{name}"].tolist()),
            held_out=_held_out(arrays, name),
            state=_with_prefix(arrays, f"state.{name}.") or None,
        )
        for name, values in about["done"].items()
    }
    cohorts = []
    for number, tasks in enumerate(about["cohorts"]):
        found = _with_prefix(arrays, f"cohort.{number}.")
        state = {name: torch.from_numpy(array) for name, array in found.items()}
        cohorts.append(InTraining(tuple(tasks), state))
    return Checkpoint(
        done=done,
        cohorts=tuple(cohorts),
        peak_memory=about["peak_memory"],
        max_models=about["max_models"],
        epochs=tuple(Epoch(**row) for row in about["epochs"]),
    )


def _with_prefix(arrays: Arrays, prefix: str) -> dict[str, np.ndarray]:
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def _held_out(arrays: Arrays, name: str) -> HeldOut | None:
    if f"held_out.y.{name}" not in arrays:
        return None
    return HeldOut(arrays[f"held_out.y.{name}"], arrays[f"held_out.outputs.{name}"])


def remove_checkpoint(path: Path) -> None:
    """Remove the checkpoint, incomplete copies left by killed processes, and the folder if it is then empty."""
    path.unlink(missing_ok=True)
    remove_unfinished(path)
    _remove_if_empty(path.parent)


def remove_leftovers(path: Path) -> None:
    """Remove files left by a process that was killed after its last record, unless another process uses them."""
    if path.parent.exists():
        with contextlib.suppress(SettingError), only_process(path):
            remove_checkpoint(path)


@contextlib.contextmanager
def only_process(path: Path) -> Iterator[None]:
    """Lock the run with this checkpoint; raises an error if another process has locked it."""
    lock = path.with_suffix(".lock")
    with contextlib.ExitStack() as stack:
        stack.callback(_remove_if_empty, lock.parent)
        try:
            stack.enter_context(file_lock(lock, wait=False))
        except BlockingIOError as error:
            raise SettingError(
                "another process is working on this run: "
                "wait until it has finished, then run the command again to get the result"
            ) from error
        except OSError as error:
            raise SettingError(f"cannot write {lock} ({error.strerror})") from error
        yield


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()
