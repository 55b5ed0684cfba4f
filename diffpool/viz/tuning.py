"""Draw which settings mattered in a search: the validation score by the value of each setting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes

from diffpool.settings import show_value
from diffpool.viz.figure import new_figure
from diffpool.viz.palette import COLORS, GRAY

COLUMNS = 4
TRIAL, MEAN = COLORS[0], COLORS[5]


class TrialLike(Protocol):
    """The part of a `diffpool.experiments.Trial` that is drawn."""

    @property
    def settings(self) -> Mapping[str, Any]: ...
    @property
    def validation_loss(self) -> float | None: ...
    @property
    def validation_accuracy(self) -> float | None: ...
    @property
    def stopped(self) -> bool: ...


def marginal_means(trials: Sequence[TrialLike]) -> dict[str, dict[str, float]]:
    """The mean score of the trials with each value of each setting: the accuracy, for regression the loss.

    Settings with a single value are left out, and failed trials too. The setting that matters most comes first: the one
    with the largest difference between the means.
    """
    found = [(trial, _score(trial)) for trial in trials if trial.validation_loss is not None]
    means: dict[str, dict[str, float]] = {}
    for name in found[0][0].settings if found else ():
        scores: dict[str, list[float]] = {}
        for trial, score in sorted(found, key=lambda pair: _order(pair[0].settings[name])):
            scores.setdefault(show_value(trial.settings[name]), []).append(score)
        if len(scores) > 1:
            means[name] = {value: fmean(values) for value, values in scores.items()}
    return dict(sorted(means.items(), key=lambda item: -_range(item[1])))


def draw_tuning(trials: Sequence[TrialLike], path: str | Path) -> bool:
    """Draw a panel for each setting: every trial, and the mean of each value; save it as PNG, SVG or PDF.

    Trials that were stopped early are hollow. Returns False, without a picture, if no setting has several values.
    """
    means = marginal_means(trials)
    if not means:
        return False
    columns = min(len(means), COLUMNS)
    rows = math.ceil(len(means) / columns)
    known = [trial for trial in trials if trial.validation_loss is not None]
    regression = known[0].validation_accuracy is None
    with new_figure(2.9 * columns, 2.6 * rows, path) as figure:
        axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
        for panel, (name, values) in zip(axes.flat, means.items(), strict=False):
            _draw_setting(panel, known, name, values)
        for unused in axes.flat[len(means) :]:
            unused.set_axis_off()
        for first in axes[:, 0]:
            first.set_ylabel("validation loss" if regression else "validation accuracy")
            if regression and all(_score(trial) > 0 for trial in known):
                first.set_yscale("log")  # a bad learning rate would hide everything else
        figure.suptitle(
            f"{len(known)} trials; line: mean of each value; hollow: stopped early", fontsize=9
        )
    return True


def _draw_setting(
    axes: Axes, trials: Sequence[TrialLike], name: str, means: Mapping[str, float]
) -> None:
    positions = {value: position for position, value in enumerate(means)}
    jitter = np.random.default_rng(0).uniform(-0.18, 0.18, len(trials))
    x = np.array([positions[show_value(trial.settings[name])] for trial in trials]) + jitter
    y = np.array([_score(trial) for trial in trials])
    stopped = np.array([trial.stopped for trial in trials])
    axes.scatter(x[~stopped], y[~stopped], s=16, color=TRIAL, zorder=2)
    axes.scatter(x[stopped], y[stopped], s=14, facecolors="none", edgecolors=GRAY, zorder=1)
    axes.plot(
        range(len(means)), list(means.values()), color=MEAN, marker="_", markersize=16, zorder=3
    )
    axes.set_xticks(range(len(means)), list(means))
    axes.set_xlim(-0.5, len(means) - 0.5)
    axes.set_title(f"{name}: {_range(means):.2g}")


def _score(trial: TrialLike) -> float:
    score = trial.validation_accuracy
    if score is None:
        score = trial.validation_loss
    assert score is not None
    return score


def _range(means: Mapping[str, float]) -> float:
    return max(means.values()) - min(means.values())


def _order(value: Any) -> tuple[bool, Any]:
    """A sort key: numbers in their order, then everything else by its text."""
    is_number = isinstance(value, int | float)
    return not is_number, value if is_number else show_value(value)
