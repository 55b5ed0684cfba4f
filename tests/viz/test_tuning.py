"""The picture of a search: the means by value, their order, and the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diffpool.experiments import Trial

pytest.importorskip("matplotlib")

from diffpool.viz import draw_tuning
from diffpool.viz.tuning import marginal_means


def trial(
    accuracy: float | None, loss: float | None = 1.0, stopped: bool = False, **settings: Any
) -> Trial:
    return Trial(0, settings, loss, accuracy, 5, 1.0, 0, stopped)


TRIALS = [
    trial(0.9, hidden=64, head=(64, 32), dropout=0.0, concat=True),
    trial(0.7, hidden=8, head=(), dropout=0.5, concat=True, stopped=True),
    trial(0.8, hidden=64, head=(), dropout=0.5, concat=True),
    trial(0.4, hidden=8, head=(64, 32), dropout=0.0, concat=True),
    trial(None, None, hidden=8, head=(), dropout=0.0, concat=True),  # failed
]


def test_the_means_of_each_value_and_the_setting_that_matters_most_first() -> None:
    means = marginal_means(TRIALS)
    assert list(means) == ["hidden", "head", "dropout"]  # concat has one value
    assert means["hidden"] == pytest.approx({"8": 0.55, "64": 0.85})
    assert list(means["hidden"]) == ["8", "64"]  # in the order of the numbers
    assert means["head"] == pytest.approx({"64,32": 0.65, "empty": 0.75})
    assert means["dropout"] == pytest.approx({"0": 0.65, "0.5": 0.75})


def test_targets_are_compared_by_their_loss() -> None:
    trials = [trial(None, loss, hidden=n) for n, loss in ((4, 0.5), (8, 0.25), (8, 0.75))]
    assert marginal_means(trials) == {"hidden": {"4": 0.5, "8": 0.5}}


@pytest.mark.parametrize(
    "trials", [TRIALS, [trial(None, 0.1, hidden=4), trial(None, 9.0, hidden=8)]]
)
def test_the_picture_is_written_in_the_format_of_its_name(
    trials: list[Trial], tmp_path: Path
) -> None:
    assert draw_tuning(trials, tmp_path / "tuning.png")
    assert (tmp_path / "tuning.png").read_bytes().startswith(b"\x89PNG")
    for name in ("a.svg", "b.svg"):
        assert draw_tuning(trials, tmp_path / name)
    text = (tmp_path / "a.svg").read_text()
    assert "<!-- hidden: " in text
    assert text == (tmp_path / "b.svg").read_text()


def test_without_anything_to_compare_there_is_no_picture(tmp_path: Path) -> None:
    for trials in ([], TRIALS[4:], [trial(0.5, hidden=4)]):
        assert not draw_tuning(trials, tmp_path / "tuning.png")
    assert not list(tmp_path.iterdir())
