"""Flipped bits in every kind of file that is kept and trusted later: none goes unnoticed.

`--soak` flips ten times as many.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from model_files import weights_file

import diffpool.baselines.cache
from diffpool.data import cache, embedded
from diffpool.errors import ModelError
from diffpool.experiments import settings_for, train_once
from diffpool.experiments.checkpoint import (
    Checkpoint,
    InTraining,
    load_checkpoint,
    save_checkpoint,
)
from diffpool.experiments.plan import Trained
from diffpool.training import load_model

FLIPS, SOAK = 40, 400  # in each kind of file
HEADER = 500  # half of the flips are in the first bytes, which say what the rest is

Use = Callable[[], bool]  # use the file; whether the damage was noticed, and led to nothing wrong


def flips(path: Path, count: int, seed: int) -> Iterator[str]:
    """Flip one bit of the file after the other; the file is written as it was before each."""
    content = path.read_bytes()
    rng = random.Random(seed)
    for number in range(count):
        position = rng.randrange(min(HEADER, len(content)) if number % 2 else len(content))
        bit = rng.randrange(8)
        changed = bytearray(content)
        changed[position] ^= 1 << bit
        path.write_bytes(changed)
        yield f"bit {bit} of byte {position}"
    path.write_bytes(content)


def warned(action: Callable[[], object]) -> bool:
    """Whether the action warns about a damaged file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    return any("is damaged" in str(warning.message) for warning in caught)


def model(folder: Path) -> Path:
    """A model directory."""
    method = settings_for("diffpool", "embedded", epochs=1, hidden=4)
    train_once(method, embedded(20, rungs=2), folder / "model")
    return folder / "model"


def refused(directory: Path) -> Use:
    """A damaged model directory is an error."""

    def use() -> bool:
        try:
            load_model(directory)
        except ModelError:
            return True
        return False

    assert not use()
    return use


def config(folder: Path) -> tuple[Path, Use]:
    directory = model(folder)
    return directory / "config.json", refused(directory)


def weights(folder: Path) -> tuple[Path, Use]:
    directory = model(folder)
    return weights_file(directory), refused(directory)


def checkpoint(folder: Path) -> tuple[Path, Use]:
    """A damaged checkpoint is reported, and the run starts over."""
    done = Trained(3, 0.1, 0.9, (0.5, 0.25), 0.8, 100, 10, 1.5)
    path = folder / "run.safetensors"
    save_checkpoint(path, Checkpoint({"a": done}, (InTraining(("b",), {"w": torch.arange(9.0)}),)))
    assert asdict(load_checkpoint(path).done["a"]) == asdict(done)

    def use() -> bool:
        messages: list[str] = []
        return load_checkpoint(path, messages.append) == Checkpoint() and len(messages) == 1

    assert not use()
    return path, use


def structures(folder: Path) -> tuple[Path, Use]:
    """Damaged structures are computed again."""
    graphs = embedded(20, rungs=2).graphs
    made = {"clusters": np.random.default_rng(0).integers(0, 9, (300, 2)), "w": np.arange(5.0)}

    def read() -> dict[str, np.ndarray]:
        return diffpool.baselines.cache.cached(graphs, {"kind": "test"}, lambda: made)

    read()
    assert not warned(read)
    (path,) = (folder / "prepared").iterdir()

    def use() -> bool:
        noticed = warned(lambda: np.testing.assert_equal(read(), made))
        return noticed and not warned(read)  # the file was replaced

    return path, use


def graphs(folder: Path) -> tuple[Path, Use]:
    """A damaged entry of the cache of data sets is read again."""
    source = folder / "TOY.zip"
    source.write_bytes(b"content")
    raw = diffpool.RawGraphs.from_edges(
        "TOY", [3, 200], np.arange(3, 150), np.arange(4, 151), node_attributes=np.ones((203, 2))
    )

    def read() -> diffpool.RawGraphs:
        return cache.cached(source, "TOY", lambda: raw)

    read()
    assert not warned(read)
    (path,) = (folder / "graphs").iterdir()

    def use() -> bool:
        noticed = warned(lambda: np.testing.assert_equal(read().source, raw.source))
        return noticed and not warned(read)

    return path, use


KINDS = {
    "the settings of a model": config,
    "the parameters of a model": weights,
    "a checkpoint": checkpoint,
    "precomputed structures": structures,
    "a cached data set": graphs,
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_flipped_bit_goes_unnoticed(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, soak: bool
) -> None:
    monkeypatch.setenv("DIFFPOOL_CACHE", str(tmp_path))
    path, noticed = KINDS[kind](tmp_path)
    for number, flip in enumerate(flips(path, SOAK if soak else FLIPS, len(kind))):
        assert noticed(), f"flip {number} in {path.name}: {flip}"
