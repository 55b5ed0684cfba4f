"""Figures of training speed: this package and its peers, from benchmark records; or methods, from results files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.figure import SubFigure
from matplotlib.ticker import FuncFormatter, NullFormatter

from diffpool.errors import DataError, shortened
from diffpool.files import json_lines
from diffpool.viz.figure import new_figure
from diffpool.viz.palette import PALE, series_style
from diffpool.viz.runs import read_runs, record_files

# The columns of the benchmarks that compare speeds, in graphs per second.
CROSS_VALIDATION = {
    "cohort": "diffpool, all folds at once",
    "single": "diffpool, one model",
    "pyg": "PyG dense",
    "pyg-float32": "PyG dense, float32",
    "pyg-compile": "PyG dense, compiled",
    "pyg-loader": "PyG dense, workers",
    "tgp": "tgp, batched",
    "tgp-unbatched": "tgp, unbatched",
}
CPU_STEP = {
    "default": "diffpool",
    "one_thread": "diffpool, one thread",
    "reference": "diffpool, without C kernels",
    "pyg": "PyG dense",
}
LEGEND_COLUMNS = 3
BENCHMARKS = {
    "cross_validation": CROSS_VALIDATION,
    "cross_validation_cpu": CROSS_VALIDATION,
    "cpu_step": CPU_STEP,
}


@dataclass(frozen=True, eq=False)
class Speeds:
    """Graphs per second on one machine: a row for each data set, with the rate of each system."""

    title: str
    rates: dict[str, dict[str, float]] = field(default_factory=dict)


def read_speeds(paths: Sequence[str | Path]) -> list[Speeds]:
    """The speeds in benchmark records, the last of each benchmark, machine and data set; or of `diffpool evaluate`."""
    found: dict[tuple[str, str], Speeds] = {}
    others, results = set(), []
    for file in record_files(paths):
        records = [record for record, _ in json_lines(file.read_bytes(), file, "a record")]
        if not records or not all("benchmark" in record for record in records):
            results.append(file)
            continue
        for record in records:
            name = str(record["benchmark"])
            systems = BENCHMARKS.get(name)
            if systems is None:
                others.add(name)
                continue
            title = f"{_machine(record)}: training"
            speeds = found.setdefault((name, title), Speeds(title))
            for dataset, row in _rows(record, file).items():
                rates = {
                    system: float(row[column])
                    for column, system in systems.items()
                    if isinstance(row.get(column), int | float) and row[column] > 0
                }
                if len(rates) > 1:
                    speeds.rates[dataset] = rates
    panels = [speeds for speeds in found.values() if speeds.rates]
    if results:
        panels += _of_runs(results)
    if not panels:
        known = ", ".join(BENCHMARKS)
        got = ", ".join(sorted(others)) or "none"
        raise DataError(
            f"expected records of a benchmark that compares speeds ({known}) or of `diffpool evaluate`, got {got}: "
            "choose another file"
        )
    return panels


def _of_runs(files: list[Path]) -> list[Speeds]:
    """The speed of every method in results files, by device; the last run of a method on a data set counts.

    There are more methods than data sets: a row is a method.
    """
    found: dict[str, Speeds] = {}
    for run in read_runs(files):
        if run.epoch is None:  # a kernel
            continue
        speeds = found.setdefault(run.device, Speeds(f"{run.device}: diffpool evaluate"))
        rate = fmean(record.graphs_per_second for record in run.records)
        speeds.rates.setdefault(run.method, {})[run.dataset] = rate
    return list(found.values())


def _machine(record: dict[str, Any]) -> str:
    hardware = record.get("hardware")
    known = hardware if isinstance(hardware, dict) else {}
    return str(known.get("gpu") or known.get("cpu") or "unknown hardware")


def _rows(record: dict[str, Any], file: Path) -> dict[str, dict[str, Any]]:
    """The row of each data set, checked."""
    rows = record.get("rows")
    if not isinstance(rows, dict) or not all(isinstance(row, dict) for row in rows.values()):
        raise DataError(
            f"{file}: expected a row for each data set in the records of {record['benchmark']}, got "
            f"{shortened(rows)}: choose another file"
        )
    return rows


def draw_speed(paths: Sequence[str | Path], path: str | Path) -> None:
    """Graphs per second on a logarithmic scale; a panel for each machine, a row for each data set."""
    panels = read_speeds(paths)
    heights = [
        0.95
        + _row_height(panel) * len(panel.rates)
        + 0.2 * -(-len(_systems(panel)) // LEGEND_COLUMNS)
        for panel in panels
    ]
    with new_figure(6.4, sum(heights), path) as figure:
        blocks = figure.subfigures(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
        for block, speeds in zip(blocks, panels, strict=True):
            _draw_panel(block, speeds)


def _systems(speeds: Speeds) -> list[str]:
    return list(dict.fromkeys(system for rates in speeds.rates.values() for system in rates))


def _row_height(speeds: Speeds) -> float:
    """Inches for the markers of a row, one below the other."""
    return 0.16 + 0.075 * len(_systems(speeds))


def _draw_panel(block: SubFigure, speeds: Speeds) -> None:
    axes = block.subplots()
    systems, rows = _systems(speeds), list(speeds.rates)
    for row in range(len(rows)):
        if row % 2 == 0:
            axes.axhspan(row - 0.5, row + 0.5, color=PALE, alpha=0.3, linewidth=0)
    for number, system in enumerate(systems):
        found = [
            (rates[system], row)
            for row, rates in enumerate(speeds.rates.values())
            if system in rates
        ]
        shift = 0.7 * (
            (number + 0.5) / len(systems) - 0.5
        )  # so that markers do not hide each other
        axes.plot(
            [rate for rate, _ in found],
            [row + shift for _, row in found],
            **series_style(number),
            linestyle="",
            markersize=6,
            markeredgecolor="black",
            markeredgewidth=0.5,
            label=system,
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 10 ** math.floor(math.log10(low * 1.3))), high)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("graphs per second")
    axes.set_title(speeds.title, loc="left")
    axes.grid(axis="x", color=PALE, linewidth=0.5)
    axes.set_axisbelow(True)
    block.legend(loc="outside lower center", ncols=LEGEND_COLUMNS)
