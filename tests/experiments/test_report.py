"""The report of a trained model."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from diffpool import load_model
from diffpool.cli.display import print_outcome
from diffpool.data import GraphDataset, as_raw, embedded
from diffpool.data.convert import with_y
from diffpool.experiments import settings_for, train_once
from diffpool.experiments.checkpoint import load_checkpoint, save_checkpoint
from diffpool.experiments.report import as_markdown
from diffpool.training import Epoch

ADJACENCY = np.ones((3, 3)) - np.eye(3)


@pytest.fixture(scope="module")
def raw() -> GraphDataset:
    return embedded(40, rungs=2)


def test_the_report_has_scores_split_settings_versions_and_time(
    raw: GraphDataset, tmp_path: Path
) -> None:
    y = torch.tensor([0] * 30 + [1] * 10)
    dataset = replace(raw, y=y, class_names=(3, 7))
    method = settings_for("diffpool", "embedded", epochs=2, hidden=4, seed=5)
    outcome = train_once(method, dataset, tmp_path)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["task"] == "classification"
    assert report["classes"] == report["test"]["classes"] == [3, 7]
    assert report["class_counts"]["train"] == {"3": 24, "7": 8}
    assert report["seed"] == report["settings"]["training"]["seed"] == 5
    split = report["split"]
    assert [split[part] for part in ("train", "validation", "test")] == [32, 4, 4]
    assert split["test_graphs"] == outcome.fold.test.tolist()
    assert report["test"]["accuracy"] == outcome.test.accuracy
    assert np.sum(report["test"]["confusion"]) == report["test"]["graphs"] == 4
    assert {"python", "torch", "diffpool"} <= report["versions"].keys()
    assert report["seconds"] > 0
    page = (tmp_path / "report.md").read_text()
    assert page == as_markdown(report)
    for heading in ("Scores", "Graphs per class", "Confusion matrix", "Settings"):
        assert f"## {heading}" in page
    for table in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        assert len({line.count("|") for line in table.splitlines()}) == 1


def test_the_metrics_of_a_regression_are_in_the_units_of_the_targets(tmp_path: Path) -> None:
    sizes = np.random.default_rng(0).integers(2, 9, 40)
    raw = as_raw([np.ones((n, n)) - np.eye(n) for n in sizes], (100.0 + sizes).tolist())
    dataset = GraphDataset.from_raw(raw, features="constant")
    method = settings_for("diffpool", "graphs", epochs=2, hidden=4)
    outcome = train_once(method, dataset, tmp_path)
    found = json.loads((tmp_path / "report.json").read_text())
    test = outcome.fold.test
    predicted = load_model(tmp_path).predict(raw[test])
    errors = np.abs(predicted - (100.0 + sizes[test]))
    assert found["test"]["mae"] == pytest.approx(errors.mean(), rel=1e-4)
    assert found["test"].keys() == {"graphs", "mae", "rmse", "r2"}
    assert "| test | 4 |" in (tmp_path / "report.md").read_text()


def test_weights_do_not_change_the_scores_on_the_test_graphs(raw: GraphDataset) -> None:
    method = settings_for("diffpool", "embedded", epochs=1, hidden=4)
    weighted = train_once(method, replace(raw, weights=torch.linspace(0, 2, 40)))
    assert weighted.metrics("test")["accuracy"] == weighted.test.accuracy
    assert weighted.metrics("test")["graphs"] == 4


def test_names_cannot_break_a_table(tmp_path: Path) -> None:
    y = ["a|b", "two\nlines", "\x1b[2J", "\u202e"] * 10
    dataset = GraphDataset.from_raw(with_y(as_raw([ADJACENCY] * 40, name="x"), y))
    train_once(settings_for("diffpool", "x", epochs=1, hidden=4), dataset, tmp_path)
    page = (tmp_path / "report.md").read_text()
    assert "a\\|b |" in page
    assert "| two lines |" in page
    assert "\\x1b[2J" in page
    assert not set(page) & set("\x1b\u202e")


def test_a_report_without_a_confusion_matrix(
    raw: GraphDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diffpool.training.metrics.MAX_CONFUSION", 1)
    outcome = train_once(settings_for("diffpool", "embedded", epochs=1, hidden=4), raw, tmp_path)
    assert json.loads((tmp_path / "report.json").read_text())["test"]["confusion"] is None
    assert "Confusion" not in (tmp_path / "report.md").read_text()
    print_outcome(outcome)


def test_the_report_says_that_the_training_was_interrupted_and_counts_the_time_of_all_parts(
    raw: GraphDataset, tmp_path: Path
) -> None:
    def stop(row: Epoch) -> None:
        if row.epoch == 2:
            raise KeyboardInterrupt

    method = settings_for("diffpool", "embedded", epochs=4, hidden=4)
    train_once(method, raw, tmp_path, [stop])
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["interrupted"], report["stopped_early"]) == (True, False)
    assert "Interrupted after epoch 2 of 4" in (tmp_path / "report.md").read_text()
    path = tmp_path / "checkpoint.safetensors"
    checkpoint = load_checkpoint(path)
    checkpoint.epochs = tuple(replace(row, seconds=1000.0) for row in checkpoint.epochs)
    save_checkpoint(path, checkpoint)
    assert train_once(method, raw, tmp_path, resume=True).seconds > 2000
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["seconds"] > 2000
    assert not report["interrupted"]
    assert "Interrupted" not in (tmp_path / "report.md").read_text()


def test_the_report_says_that_the_training_stopped_early(raw: GraphDataset, tmp_path: Path) -> None:
    method = settings_for("diffpool", "embedded", epochs=99, patience=1, hidden=4)
    outcome = train_once(method, raw, tmp_path)
    epochs = len(outcome.epochs)
    assert epochs < 99
    assert outcome.stopped_early
    message = f"topped after epoch {epochs}: no lower validation loss for 1 epoch"
    assert message in (tmp_path / "report.md").read_text()
    assert json.loads((tmp_path / "report.json").read_text())["stopped_early"]


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({}, "ratio 0.1,"),
        ({"poolings": 2}, "ratio 0.25,"),
        ({"ratio": 0.5}, "ratio 0.5,"),
        ({"clusters": (3,)}, "ratio not used,"),
        ({"poolings": 0}, "ratio not used,"),
    ],
)
def test_the_report_shows_the_ratio_that_was_used(
    changes: dict, shown: str, raw: GraphDataset, tmp_path: Path
) -> None:
    method = settings_for("diffpool", "embedded", epochs=1, hidden=4, **changes)
    train_once(method, raw, tmp_path)
    assert shown in (tmp_path / "report.md").read_text()
