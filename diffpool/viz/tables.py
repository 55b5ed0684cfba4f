"""A table of the paper as a figure: accuracy of every row with error bars, next to the published number."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes

from diffpool.errors import DataError
from diffpool.experiments.reproduce.tables import Entry, Table
from diffpool.viz.figure import new_figure
from diffpool.viz.palette import COLORS, PALE

MAX_COLUMNS = 3
PANEL, TITLE_WIDTH, LINE_HEIGHT = 2.4, 2.4, 0.21  # inches


def draw_table(table: Table, path: str | Path) -> None:
    """A panel for each data set and a line for each row with numbers, in the order of the table."""
    shown = [name for name in table.datasets if any(row.entries[name].run for row in table.rows)]
    rows = [row for row in table.rows if any(row.entries[name].run for name in shown)]
    if not rows:
        raise DataError(f"expected records for {table.name}, protocol {table.protocol}, got none")
    columns = min(MAX_COLUMNS, len(shown))
    lines = -(-len(shown) // columns)
    size = TITLE_WIDTH + PANEL * columns, lines * (0.9 + LINE_HEIGHT * len(rows)) + 0.4
    with new_figure(*size, path) as figure:
        axes = figure.subplots(lines, columns, squeeze=False, sharey=True)
        for panel in axes.flat[len(shown) :]:
            panel.set_axis_off()
        for name, panel in zip(shown, axes.flat, strict=False):
            _panel(panel, table, name, [row.entries[name] for row in rows])
        for panel in axes[:, 0]:
            panel.set_yticks(range(len(rows)), [row.title for row in rows])
            panel.set_ylim(len(rows) - 0.4, -0.6)
        figure.supxlabel(
            "dots and bars: mean ± standard deviation over folds; diamonds: published", fontsize=8
        )


def _panel(axes: Axes, table: Table, dataset: str, entries: list[Entry]) -> None:
    published = [(e.published.mean, i) for i, e in enumerate(entries) if e.published is not None]
    axes.plot(
        [mean for mean, _ in published],
        [index for _, index in published],
        linestyle="",
        marker="D",
        markersize=5,
        markerfacecolor="none",
        markeredgecolor=COLORS[5],
    )
    for index, run in ((i, e.run) for i, e in enumerate(entries) if e.run is not None):
        axes.errorbar(
            run.mean, index, xerr=run.sd, fmt="o", color="black", markersize=4, capsize=2.5
        )
    axes.set_title(dataset, loc="left")
    axes.set_xlabel(f"accuracy, %, protocol {table.protocol}")
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="both", color=PALE, linewidth=0.5)
    axes.set_axisbelow(True)
