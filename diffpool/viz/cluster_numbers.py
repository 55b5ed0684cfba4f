"""A figure for section 4.4: accuracy and used clusters against the maximum number of clusters C."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

from matplotlib.axes import Axes

from diffpool.errors import DataError
from diffpool.experiments.reproduce.rules import Data
from diffpool.viz.figure import new_figure
from diffpool.viz.palette import LINES, PALE, series_style

OBJECTIVES = {"link 1": "with link loss", "link 0": "without link loss"}
PERCENT = " %"  # ends the names of variants with C in percent of the nodes; others are left out


def draw_cluster_numbers(data: Sequence[Data], path: str | Path) -> None:
    """Two panels for each data set: test accuracy, and clusters used of those allowed; mean ± sd over seeds."""
    data = [dataset for dataset in data if len(_variants(dataset)) > 1]
    if not data:
        raise DataError("expected measurements with several numbers of clusters, got none")
    with new_figure(3.3 * len(data), 5.2, path) as figure:
        axes = figure.subplots(2, len(data), squeeze=False, sharex="col")
        for number, dataset in enumerate(data):
            _panel(axes[0, number], dataset, "test", False)
            _panel(axes[1, number], dataset, "used", number == 0)
            axes[0, number].set_title(dataset.name, loc="left")
            axes[1, number].set_xlabel("C, % of the nodes")
        axes[0, 0].set_ylabel("test accuracy, %: mean ± sd")
        axes[1, 0].set_ylabel("used clusters per graph")


def _variants(data: Data) -> dict[float, str]:
    """The variants with C in percent of the nodes, by C."""
    return {
        float(name.removesuffix(PERCENT)): name
        for name in data.row["variants"]
        if name.endswith(PERCENT) and data.models(name, "link 1")
    }


def _panel(axes: Axes, data: Data, measure: str, legend: bool) -> None:
    variants = _variants(data)
    for number, (objective, label) in enumerate(OBJECTIVES.items()):
        found = {c: data.values(measure, objective, name) for c, name in variants.items()}
        found = {c: values for c, values in found.items() if values}
        axes.errorbar(
            [c * (0.98, 1.02)[number] for c in found],  # error bars side by side
            [fmean(values) for values in found.values()],
            yerr=[stdev(values) if len(values) > 1 else 0.0 for values in found.values()],
            **series_style(number),
            linestyle=LINES[number],
            linewidth=1.2,
            markersize=5,
            capsize=2.5,
            label=label,
        )
    if measure == "used":
        allowed = {c: data.values("clusters", "link 1", name) for c, name in variants.items()}
        values = [fmean(counts) for counts in allowed.values() if counts]
        axes.plot(
            list(allowed)[: len(values)], values, color="black", linewidth=0.8, label="allowed"
        )
    axes.set_xscale("log")
    axes.set_xticks(list(variants), [f"{c:g}" for c in variants])
    axes.minorticks_off()
    axes.grid(axis="y", color=PALE, linewidth=0.5)
    if legend:
        axes.legend()
