"""Figures of accuracy: by method with error bars, and against the number of clusters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from diffpool.errors import DataError
from diffpool.viz.figure import new_figure
from diffpool.viz.palette import LINES, PALE, series_style
from diffpool.viz.runs import CLUSTERS, Run, labels, panels

MAX_PANELS, MAX_COLUMNS = 24, 3
COLUMN, LINE_HEIGHT, LETTER, MAX_WIDTH = 2.9, 0.21, 0.065, 12.0  # inches


def draw_accuracy(runs: Sequence[Run], path: str | Path) -> None:
    """Mean and standard deviation of every run, and a dot for each fold; a panel for each data set and protocol.

    The best method is on top. Regression shows the mean absolute error, the smallest on top.
    """
    found = list(panels(runs).items())
    _check_panels(len(found))
    longest = max(len(label) for _, group in found for label in labels(group))
    column = COLUMN + LETTER * longest
    columns = max(1, min(MAX_COLUMNS, len(found), int(MAX_WIDTH / column)))
    rows = [found[start : start + columns] for start in range(0, len(found), columns)]
    heights = [0.85 + LINE_HEIGHT * max(len(group) for _, group in row) for row in rows]
    with new_figure(column * columns, sum(heights) + 0.3, path) as figure:
        ratios = {"height_ratios": heights}
        axes = figure.subplots(len(rows), columns, squeeze=False, gridspec_kw=ratios)
        for panel in axes.flat:
            panel.set_axis_off()
        for line, row in zip(axes, rows, strict=True):
            for panel, (heading, group) in zip(line, row, strict=False):
                panel.set_axis_on()
                _accuracy_panel(panel, heading, group)
        figure.supxlabel(
            "dots and bars: mean ± standard deviation over folds; |: a fold", fontsize=8
        )


def _check_panels(count: int) -> None:
    if count > MAX_PANELS:
        raise DataError(
            f"expected at most {MAX_PANELS} data sets and protocols in a figure, got {count}: choose one with "
            "--dataset or --protocol"
        )


def _accuracy_panel(axes: Axes, heading: tuple[str, str, str], runs: list[Run]) -> None:
    dataset, protocol, metric = heading
    error = metric.startswith("mean")
    named = sorted(
        zip(runs, labels(runs), strict=True), key=lambda pair: pair[0].mean, reverse=not error
    )
    for position, (run, _) in enumerate(named):
        height = len(named) - 1 - position
        axes.plot(run.values, [height] * len(run.values), "|", color="#8b949c", markersize=5)
        axes.errorbar(
            run.mean, height, xerr=run.sd, fmt="o", color="black", markersize=4, capsize=2.5
        )
    axes.set_yticks(range(len(named)), [label for _, label in reversed(named)])
    axes.set_ylim(-0.6, len(named) - 0.4)
    axes.set_title(f"{dataset}, protocol {protocol}", loc="left")
    axes.set_xlabel(metric)
    axes.grid(axis="x", color=PALE, linewidth=0.5)
    axes.set_axisbelow(True)


def draw_cluster_counts(runs: Sequence[Run], path: str | Path) -> None:
    """Accuracy against the number of clusters of the first pooling, with the standard deviation over the folds."""
    found: dict[tuple[str, str, str, str], list[Run]] = {}
    for run in runs:
        if run.clusters is not None:
            heading = (run.dataset, run.protocol, run.metric, run.clusters[0])
            found.setdefault(heading, []).append(run)
    found = {heading: group for heading, group in found.items() if _vary(group)}
    if not found:
        raise DataError(
            "expected records with different numbers of clusters, got none: evaluate with several values of --ratio "
            "or --clusters, such as `diffpool evaluate ENZYMES --ratio 0.1` and `--ratio 0.25`"
        )
    _check_panels(len(found))
    columns = min(MAX_COLUMNS, len(found))
    rows = -(-len(found) // columns)
    with new_figure(3.6 * columns, 3.1 * rows, path) as figure:
        axes = figure.subplots(rows, columns, squeeze=False).flat
        for (heading, group), panel in zip(found.items(), axes, strict=False):
            _counts_panel(panel, heading, group)
        for panel in axes:  # those that are left
            panel.set_axis_off()


def _counts_panel(axes: Axes, heading: tuple[str, str, str, str], runs: list[Run]) -> None:
    dataset, protocol, metric, kind = heading
    series: dict[str, list[Run]] = {}
    for run, label in zip(runs, _series_names(runs), strict=True):
        series.setdefault(label, []).append(run)
    for number, (label, group) in enumerate(series.items()):
        group.sort(key=_position)
        x = [_position(run) for run in group]
        shift = 1 + 0.02 * (number - (len(series) - 1) / 2)  # error bars side by side
        axes.errorbar(
            [value * shift for value in x],
            [run.mean for run in group],
            yerr=[run.sd for run in group],
            **series_style(number),
            linestyle=LINES[number % len(LINES)],
            linewidth=1.2,
            markersize=5,
            capsize=2.5,
            label=label,
        )
    ticks = sorted({_position(run) for run in runs})
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_title(f"{dataset}, protocol {protocol}", loc="left")
    axes.set_xlabel(kind)
    axes.set_ylabel(f"{metric}: mean ± sd")
    axes.grid(axis="y", color=PALE, linewidth=0.5)
    if len(series) > 1:
        axes.legend()


def _vary(runs: list[Run]) -> bool:
    """Whether some of the runs differ in the number of clusters only."""
    numbers: dict[str, set[float]] = {}
    for run, name in zip(runs, _series_names(runs), strict=True):
        numbers.setdefault(name, set()).add(_position(run))
    return any(len(values) > 1 for values in numbers.values())


def _position(run: Run) -> float:
    assert run.clusters is not None
    return run.clusters[1]


def _series_names(runs: list[Run]) -> list[str]:
    """The same name for runs that differ in the number of clusters only."""
    groups: dict[str, list[int]] = {}
    for number, run in enumerate(runs):
        rest = {name: value for name, value in run.chosen.items() if name not in CLUSTERS}
        groups.setdefault(f"{run.method} {rest!r}", []).append(number)
    names = labels([runs[numbers[0]] for numbers in groups.values()], CLUSTERS, True)
    found = [""] * len(runs)
    for name, numbers in zip(names, groups.values(), strict=True):
        for number in numbers:
            found[number] = name
    return found
