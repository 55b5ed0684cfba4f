"""The progress of `diffpool tune`."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from diffpool.cli.tune_display import draw_trials, line, tuning_display
from diffpool.experiments.status import Leader, Search, Status

STATUS = Status(
    models=34,
    finished=4,
    folds=1,
    records=(),
    tasks=("repeat 0, fold 0, point 4",),
    active=3,
    epoch=7,
    max_epochs=40,
    accuracies=[0.5, 0.625],
    graphs=3000,
    seconds=1.5,
    seconds_left=30.0,
    search=Search(
        tried=4,
        trials=24,
        leaders=(
            Leader(2, 0.875, 0.31, {"hidden": "64"}),
            Leader(0, 0.75, 0.5, {"hidden": "8"}),
        ),
    ),
)


def test_a_line_says_what_is_tried_and_what_is_best() -> None:
    assert line(STATUS) == (
        "trials 4/24, 3 in training, epoch 7/40, validation 62.5 %, 2,000 graphs/s, at most 30 s left; "
        "best so far 87.5 %: hidden 64"
    )
    assert STATUS.search is not None
    chosen = replace(STATUS, search=replace(STATUS.search, tried=24))
    assert line(chosen).startswith("settings chosen, training 3 members, epoch 7/40")
    assert line(replace(STATUS, search_seconds=12.0)).startswith(
        "4 trials, 3 in training, 12 s for trials, epoch"
    )
    target = Leader(0, None, 0.0312, {"hidden": "8"})
    regression = replace(STATUS, search=replace(STATUS.search, leaders=(target,)))
    assert line(regression).endswith("best so far loss 0.031: hidden 8")
    assert "best" not in line(replace(STATUS, search=Search(0, 24, ())))


def test_a_terminal_shows_a_table_of_the_best_trials() -> None:
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, width=100, height=40)
    with tuning_display(console, "tuning diffpool on [own]") as watch:
        watch(STATUS)
    shown = screen.getvalue()
    assert "tuning diffpool on [own]" in shown
    assert "best trials so far" in shown
    first, second = (shown.index(score) for score in ("87.5 %", "75.0 %"))
    assert first < second


def test_without_matplotlib_the_command_says_how_to_get_the_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tuning.png").touch()  # of an earlier search
    monkeypatch.setitem(__import__("sys").modules, "diffpool.viz", None)
    screen = StringIO()
    draw_trials(None, tmp_path, Console(file=screen, width=100))  # type: ignore[arg-type]
    assert "pip install 'diffpool[plot]'" in screen.getvalue()
    assert not (tmp_path / "tuning.png").exists()
