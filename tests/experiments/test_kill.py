"""A run that is killed repeatedly ends with the records of an uninterrupted run."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from diffpool import load_model
from diffpool.data import read_graphs
from diffpool.experiments import read_records

ROOT = Path(__file__).parents[2]


def kill(folder: Path, protocol: str, kills: int) -> None:
    """Run killed_runs.py."""
    done = subprocess.run(
        [sys.executable, Path(__file__).parent / "killed_runs.py", folder, protocol, str(kills)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(kills)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("protocol", ["paper", "tenfold", "nested"])
def test_a_run_killed_at_random_times_ends_with_the_same_records(
    protocol: str, tmp_path: Path, soak: bool
) -> None:
    kill(tmp_path, protocol, 30 if soak else 3)
    alone = [r.comparable for r in read_records(tmp_path / "alone.jsonl")]
    assert len(alone) == 10
    killed = sorted(tmp_path.glob("killed-*.jsonl"))
    assert killed
    for path in killed:
        assert [r.comparable for r in read_records(path)] == alone
    assert not list(tmp_path.glob("*.checkpoints"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("data", ["embedded", "own"])
def test_a_search_killed_at_random_times_ends_with_the_same_model(
    data: str, tmp_path: Path, soak: bool
) -> None:
    if data == "embedded" and not soak:
        pytest.skip("the other data set is enough, except in make soak")
    own = tmp_path / "own.jsonl"
    own.write_text("".join(ring_or_star(number) for number in range(40)))
    kill(tmp_path, f"tune-{data}", 30 if soak else 2)
    alone = load_model(tmp_path / "alone")
    killed = sorted(tmp_path.glob("killed-*"))
    assert killed
    for folder in killed:
        assert trials(folder) == trials(tmp_path / "alone")
        model = load_model(folder)
        assert model.card == alone.card
        expected, found = alone.model.state_dict(), model.model.state_dict()
        assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
        assert not list(folder.glob("*.checkpoints"))
        if data == "own":
            graphs = read_graphs(own)
            assert (model.predict_proba(graphs) == alone.predict_proba(graphs)).all()


def ring_or_star(number: int) -> str:
    n = 4 + number % 7
    edges = [[i, (i + 1) % n] if number % 2 else [0, i] for i in range(number % 2 == 0, n)]
    return json.dumps({"nodes": n, "edges": edges, "label": ["star", "ring"][number % 2]}) + "\n"


def trials(folder: Path) -> list[dict[str, str]]:
    """The rows of trials.csv without times."""
    with (folder / "trials.csv").open() as file:
        return [{**row, "seconds": ""} for row in csv.DictReader(file)]
