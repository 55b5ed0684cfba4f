"""Draw docs/reliability.png from the records of ensembles in results/: accuracy by confidence, members and ensemble."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks import tables
from diffpool.training.metrics import expected_calibration_error, sum_reliability

PICTURE = tables.ROOT / "docs" / "reliability.png"
STYLES = (
    ("member_reliability", "single models", "#d1701f", "s"),
    ("reliability", "ensemble", "#2f6fab", "o"),
)

Counts = dict[str, list[Any]]  # see diffpool.training.metrics.reliability


def counts(runs: list[list[dict[str, Any]]]) -> dict[str, dict[str, dict[str, Counts]]]:
    """The counts of all folds together: by method, data set and kind. The last run of a method on a data set counts."""
    found: dict[str, dict[str, dict[str, Counts]]] = {}
    for run in runs:
        details = [record["details"] for record in run]
        if run[0]["protocol"] == "nested" and all("reliability" in own for own in details):
            kinds = {kind: sum_reliability([own[kind] for own in details]) for kind, *_ in STYLES}
            found.setdefault(run[0]["method"], {})[run[0]["dataset"]] = kinds
    return found


def draw(found: dict[str, dict[str, dict[str, Counts]]], path: Path) -> None:
    """A row of panels for each method, a column for each data set."""
    names = sorted({name for panels in found.values() for name in panels})
    size = (3.1 * len(names), 3.3 * len(found))
    figure = Figure(figsize=size, dpi=110, layout="constrained")
    axes = figure.subplots(len(found), len(names), squeeze=False)
    for row, (method, panels) in zip(axes, found.items(), strict=True):
        for own, name in zip(row, names, strict=True):
            if name in panels:
                own.set_title(f"{name}\n{method}", fontsize=9)
                _panel(own, panels[name])
            else:
                own.set_axis_off()
    figure.savefig(path)


def _panel(axes: Axes, kinds: dict[str, Counts]) -> None:
    axes.plot([0, 1], [0, 1], color="#b8bfc6", linewidth=1, zorder=1)
    for kind, label, color, marker in STYLES:
        graphs, correct, confidence = (
            np.array(kinds[kind][name]) for name in ("graphs", "correct", "confidence")
        )
        used = graphs > 0
        x, y = confidence[used] / graphs[used], correct[used] / graphs[used]
        error = expected_calibration_error(kinds[kind])
        share = graphs[used] / graphs.sum()
        axes.plot(x, y, color=color, linewidth=1, label=f"{label}: ECE {error:.3f}", zorder=2)
        axes.scatter(x, y, s=8 + 250 * share, color=color, marker=marker, alpha=0.8, zorder=3)
    axes.set(xlim=(0, 1.02), ylim=(0, 1.02), xlabel="confidence", ylabel="accuracy", aspect="equal")
    axes.legend(fontsize=8, loc="upper left", frameon=False)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--out", type=Path, default=PICTURE, help="file to write (default docs/reliability.png)"
    )
    chosen = options.parse_args()
    found = counts(tables.runs())
    if not found:
        raise SystemExit(
            "no records of ensembles in results/ have counts by confidence: evaluate again"
        )
    draw(found, chosen.out)
    print(chosen.out)


if __name__ == "__main__":
    main()
