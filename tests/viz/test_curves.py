"""Training curves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from diffpool.errors import DataError
from diffpool.viz import draw_curves, read_curves
from diffpool.viz.curves import spread


def training(folder: Path, losses: list[float], accuracy: float | None = 0.5) -> Path:
    """A model directory with these validation losses."""
    folder.mkdir()
    lines = [
        {
            "epoch": epoch,
            "train_class_loss": loss / 2,
            "validation_loss": loss,
            "train_accuracy": accuracy,
            "validation_accuracy": accuracy,
            "best": loss == min(losses),
        }
        for epoch, loss in enumerate(losses, 1)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_the_spread_ends_with_the_shortest_training(tmp_path: Path) -> None:
    folders = [training(tmp_path / "a", [3.0, 2.0, 1.0]), training(tmp_path / "b", [5.0, 2.0])]
    curves = [read_curves(folder) for folder in folders]
    mean, sd = spread(curves, "validation_loss")
    np.testing.assert_allclose(mean, [4.0, 2.0])
    np.testing.assert_allclose(sd, [np.sqrt(2), 0.0])
    assert [own.best_epoch for own in curves] == [3, 2]
    draw_curves(curves, tmp_path / "c.svg")
    assert (tmp_path / "c.svg").read_text().startswith("<?xml")


def test_one_training_and_a_regression_are_drawn(tmp_path: Path) -> None:
    curves = read_curves(training(tmp_path / "a", [2.0, 1.0, 3.0], None) / "metrics.jsonl")
    assert curves.name == "a"
    assert np.isnan(curves.column("validation_accuracy")).all()
    draw_curves([curves], tmp_path / "c.png")
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_without_a_finite_loss_there_is_nothing_to_draw(tmp_path: Path) -> None:
    curves = read_curves(training(tmp_path / "a", [float("nan")], None))
    with pytest.raises(DataError, match="expected a finite loss or accuracy"):
        draw_curves([curves], tmp_path / "c.png")
    assert not (tmp_path / "c.png").exists()


def test_an_epoch_that_is_being_written_is_skipped(tmp_path: Path) -> None:
    file = training(tmp_path / "a", [2.0, 1.0]) / "metrics.jsonl"
    file.write_bytes(file.read_bytes()[:-10])
    assert len(read_curves(file).rows) == 1


def test_results_of_evaluate_have_no_curves(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text('{"key": "a", "fold": 0, "accuracy": 50.0}\n')
    with pytest.raises(DataError, match="which contain no training curves: give the model"):
        read_curves(tmp_path / "r.jsonl")
    words = training(tmp_path / "words", [1.0]) / "metrics.jsonl"
    for content in (
        *("", "nonsense\n", "3\n", '{"epoch": 1}\n'),
        words.read_text().replace("1.0", '"low"'),
    ):
        (tmp_path / "r.jsonl").write_text(content)
        with pytest.raises(DataError, match="expected the metrics of an epoch"):
            read_curves(tmp_path / "r.jsonl")
    with pytest.raises(DataError, match=r"has no metrics\.jsonl"):
        read_curves(tmp_path)
    with pytest.raises(DataError, match="does not exist"):
        read_curves(tmp_path / "none")
