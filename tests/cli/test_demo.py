"""The command `diffpool demo`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from diffpool.cli.commands import app
from diffpool.data import embedded
from diffpool.experiments import settings_for, train_once

SMALL = ["--graphs", "60", "--epochs", "1", "--device", "cpu"]


def run(*words: str) -> str:
    result = CliRunner().invoke(app, ["demo", *SMALL, *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_demo_prints_both_accuracies_and_draws_the_clusters(tmp_path: Path) -> None:
    for _ in range(2):  # the second demo replaces the models of the first
        output = run("--out", str(tmp_path / "demo"))
        assert "test accuracy on 6 graphs\n  DiffPool  " in output
        assert "\n  flat GraphSAGE  " in output
        picture = tmp_path / "demo" / "diffpool" / "clusters.png"
        assert f"the clusters that DiffPool found: {picture}" in output
        assert picture.read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "demo" / "graphsage" / "config.json").exists()


def test_without_matplotlib_the_demo_says_that_there_is_no_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[:2] == ["diffpool", "viz"]]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("diffpool.viz", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # `import matplotlib` fails
    output = run("--out", str(tmp_path / "demo"))
    assert "no picture: to get clusters.png, run `pip install 'diffpool[plot]'`" in output
    assert "clusters that DiffPool found" not in output
    assert "flat GraphSAGE" in output
    assert not (tmp_path / "demo" / "diffpool" / "clusters.png").exists()


def test_the_demo_trains_the_networks_that_train_trains(tmp_path: Path) -> None:
    """The same settings, data, seed and split."""
    facts = json.loads(run("--out", str(tmp_path / "demo"), "--seed", "3", "--json", "--quiet"))
    method = settings_for("graphsage", "embedded", epochs=1, seed=3)
    outcome = train_once(method, embedded(60, seed=3), tmp_path / "alone")
    assert facts["graphsage"]["validation_loss"] == outcome.best_epoch.validation_loss
    assert facts["diffpool"]["test_graphs"] == len(outcome.fold.test) == 6
