"""A process that is killed while it saves a model leaves the old model, the new one, or a directory that is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from diffpool.errors import ModelError
from diffpool.training import save_model
from diffpool.training.model_directory import read_model
from tests.training.killed_saves import CARDS, MODELS, same

ROOT = Path(__file__).parents[2]
# Operations of the operating system that Python announces to audit hooks, and `os.fsync`.
STEPS = {
    *("open", "os.mkdir", "os.rename", "os.remove", "os.scandir", "os.listdir"),
    *("fcntl.flock", "fsync"),
}


class Killed(BaseException):
    """Raised instead of every operation from the kill on, so that nothing is cleaned up."""


class Killer:
    """Counts operations; raises `Killed` at a certain one and at every later one."""

    def __init__(self) -> None:
        self.left: int | None = None  # operations until the kill; None: not armed

    def __call__(self, event: str, arguments: Any) -> None:
        if self.left is not None and event in STEPS:
            self.left -= 1
            if self.left < 0:
                raise Killed


KILLER = Killer()


@pytest.fixture(scope="module", autouse=True)
def _audit() -> None:
    sys.addaudithook(KILLER)  # cannot be removed; does nothing unless armed


@pytest.fixture(autouse=True)
def _fsync(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (sys.audit("fsync"), fsync(file)))
    yield
    KILLER.left = None


def killed_save(directory: Path, step: int) -> bool:
    """Save the second model, and be killed at this operation; False if it ends before."""
    KILLER.left = step
    try:
        save_model(directory, MODELS[1], CARDS[1])
        return False
    except Killed:
        return True
    finally:
        KILLER.left = None


def found(directory: Path) -> str:
    """Which model the directory holds."""
    try:
        read = read_model(directory)
    except ModelError as error:
        return "refused" if "the file config.json is missing" in str(error) else str(error)
    for name, number in (("old", 0), ("new", 1)):
        if same(read, number):
            return name
    return "a mixture"


@pytest.mark.parametrize(
    ("before", "after"),
    [("a model", {"old", "new"}), ("nothing", {"refused", "new"})],
)
def test_a_kill_at_any_operation_leaves_the_old_or_the_new_model(
    before: str, after: set[str], tmp_path: Path
) -> None:
    directory, states, step = tmp_path / "model", [], 0
    while True:
        shutil.rmtree(directory, ignore_errors=True)
        if before != "nothing":
            save_model(directory, MODELS[0], CARDS[0])
        if not killed_save(directory, step):
            break
        states.append(found(directory))
        save_model(directory, MODELS[1], CARDS[1])  # nothing that was left is in the way
        assert found(directory) == "new"
        assert len(list(directory.iterdir())) == 2
        step += 1
    assert step > 12
    assert set(states) == after
    assert states == sorted(
        states, reverse=True
    )  # the old one (or none) up to a moment, then the new one


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_killed_at_random_times_leaves_a_whole_model(tmp_path: Path, soak: bool) -> None:
    if not soak:
        pytest.skip("with --soak: starts a process and kills its children")
    done = subprocess.run(
        [sys.executable, Path(__file__).parent / "killed_saves.py", tmp_path / "model", "300"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    counts = [int(word) for word in done.stdout.split()]
    assert sum(counts) == 300
    assert min(counts) > 30  # both models were found
