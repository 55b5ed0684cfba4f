"""Training curves: loss and accuracy by epoch, for one run or with the spread over several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from diffpool.errors import DataError
from diffpool.files import json_lines
from diffpool.viz.figure import new_figure
from diffpool.viz.palette import COLORS, GRAY, PALE

METRICS = "metrics.jsonl"  # in a model directory
# Title, column of the training graphs, column of the validation graphs, factor.
PANELS = (
    ("loss", "train_class_loss", "validation_loss", 1.0),
    ("accuracy, %", "train_accuracy", "validation_accuracy", 100.0),
)


@dataclass(frozen=True, eq=False)
class Curves:
    """The metrics of one training run, by epoch."""

    name: str
    rows: list[dict[str, Any]]

    @property
    def best_epoch(self) -> int | None:
        """The epoch that was kept."""
        best = [row["epoch"] for row in self.rows if row.get("best")]
        return best[-1] if best else None

    def column(self, name: str) -> np.ndarray:
        """A metric after every epoch, NaN where it is missing: [epochs]."""
        return np.array([np.nan if row[name] is None else row[name] for row in self.rows], float)


def read_curves(path: str | Path) -> Curves:
    """The curves of a model directory, or of its metrics.jsonl."""
    path = Path(path)
    file = path / METRICS if path.is_dir() else path
    try:
        rows = [row for row, _ in json_lines(file.read_bytes(), file, "the metrics of an epoch")]
    except FileNotFoundError as error:
        hint = f"{path} has no {METRICS}" if path.is_dir() else f"{path} does not exist"
        raise DataError(
            f"expected a model directory of `diffpool train`, but {hint}: choose another path"
        ) from error
    if rows and all("fold" in row and "key" in row for row in rows):
        raise DataError(
            f"{file} has results of `diffpool evaluate`, which contain no training curves: give the model directories "
            "of `diffpool train` (several, for example with different --seed, show the spread), or draw the results "
            "with `diffpool plot accuracy`"
        )
    if not rows or not all(map(_is_epoch, rows)):
        raise DataError(
            f"{file}: expected the metrics of an epoch in each line, as in {METRICS} of `diffpool train`: "
            "choose another file"
        )
    return Curves(path.name if path.is_dir() else path.parent.name, rows)


def _is_epoch(row: dict[str, Any]) -> bool:
    """Whether a row has an epoch, and numbers or None in all columns that are drawn."""
    columns = [name for _, *names, _ in PANELS for name in names]
    return {"epoch", *columns} <= row.keys() and all(
        row[name] is None or type(row[name]) in (int, float) for name in columns
    )


def draw_curves(curves: Sequence[Curves], path: str | Path) -> None:
    """Loss and accuracy of the training and validation graphs by epoch.

    Several training runs, for example of several folds or seeds, are thin lines. Thick lines are their means and
    bands their standard deviations, up to the last epoch that all of them reached.
    """
    panels = [
        panel for panel in PANELS if any(np.isfinite(c.column(panel[2])).any() for c in curves)
    ]
    if not panels:
        raise DataError(
            "expected a finite loss or accuracy of the validation graphs in some epoch, got none: train again with a "
            "lower learning rate, or choose another file"
        )
    with new_figure(3.6 * len(panels) + 0.2, 3.0, path) as figure:
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for panel, (title, *columns, factor) in zip(axes, panels, strict=True):
            _panel(panel, curves, columns, factor)
            panel.set(xlabel="epoch", ylabel=title)
        heading = f"mean ± sd of {len(curves)} training runs" if len(curves) > 1 else curves[0].name
        figure.suptitle(heading, fontsize=9)


def spread(curves: Sequence[Curves], column: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation over the runs, up to the last epoch that all of them reached: [epochs] each."""
    shortest = min(len(curve.rows) for curve in curves)
    table = np.stack([curve.column(column)[:shortest] for curve in curves])
    sd = table.std(0, ddof=1) if len(curves) > 1 else np.zeros(shortest)
    return table.mean(0), sd


def _panel(axes: Axes, curves: Sequence[Curves], columns: Sequence[str], factor: float) -> None:
    styles = (("training", COLORS[0], "-"), ("validation", COLORS[5], "--"))
    for (label, color, line), column in zip(styles, columns, strict=True):
        mean, sd = spread(curves, column)
        epochs = np.arange(1, len(mean) + 1)
        if len(curves) > 1:
            for curve in curves:
                y = factor * curve.column(column)
                x = np.arange(1, len(y) + 1)
                axes.plot(x, y, color=color, linestyle=line, linewidth=0.5, alpha=0.5)
            # neither a loss nor an accuracy is negative, and an accuracy is at most 1
            top = 1.0 if "accuracy" in column else np.inf
            low, high = (factor * (mean + way * sd).clip(0, top) for way in (-1, 1))
            axes.fill_between(epochs, low, high, color=color, alpha=0.18, linewidth=0)
        axes.plot(epochs, factor * mean, color=color, linestyle=line, linewidth=1.6, label=label)
    if len(curves) == 1 and (best := curves[0].best_epoch) is not None:
        axes.axvline(best, color=GRAY, linestyle=":", linewidth=1, label=f"epoch {best}, kept")
    axes.grid(axis="y", color=PALE, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.legend()
