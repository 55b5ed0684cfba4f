"""Fixtures for tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

import diffpool.cli.inputs
from diffpool.data import embedded


@pytest.fixture
def small_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The generated data set with few graphs."""
    monkeypatch.setattr(diffpool.cli.inputs, "embedded", lambda seed: embedded(60, seed=seed))


@pytest.fixture
def molecules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table with an id, a class, a number and a column with a single value."""
    pytest.importorskip("rdkit")
    monkeypatch.chdir(tmp_path)
    rows = [f"M{n},{'C' * (n % 9 + 1)}O,{n % 2},{n / 7:.3f},x" for n in range(60)]
    file = tmp_path / "m.csv"
    file.write_text("\n".join(["id,smiles,active,logp,batch", *rows]) + "\n")
    return file
