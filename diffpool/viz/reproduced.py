"""The figures that are drawn from records: the tables, speed, and accuracy against the number of clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from diffpool.errors import SettingError
from diffpool.experiments.reproduce.analysis import clusters_file, read_data
from diffpool.experiments.reproduce.cells import PROTOCOLS, SHOWN, TABLES
from diffpool.experiments.reproduce.found import SOURCE_TREE
from diffpool.experiments.reproduce.tables import accuracy_tables
from diffpool.viz.cluster_numbers import draw_cluster_numbers
from diffpool.viz.speed import draw_speed
from diffpool.viz.tables import draw_table

FORMS = ("png", "svg")
SPEED = ("cross_validation", "cpu_step")  # benchmarks that compare the speed with that of others

Draw = Callable[[Path], None]


def draw_figures(
    records: Path, folder: Path, datasets: Sequence[str] | None = None
) -> tuple[list[Path], list[str]]:
    """Draw every figure for which there are records as PNG and SVG; the files, and a line for each that is missing."""
    written, missing = [], []
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(f"cannot create the folder {folder} ({error.strerror})") from error
    for name, draw in _figures(records, datasets):
        if isinstance(draw, str):
            missing.append(f"{name}: {draw}")
            continue
        for form in FORMS:
            draw(folder / f"{name}.{form}")
            written.append(folder / f"{name}.{form}")
    return written, missing


def _figures(records: Path, datasets: Sequence[str] | None) -> Iterator[tuple[str, Draw | str]]:
    """The name of each figure with what draws it, or why it cannot be drawn."""
    sets = SHOWN if datasets is None else datasets
    for name in TABLES:
        for table in accuracy_tables(name, PROTOCOLS, records, sets):
            known = any(entry.run for row in table.rows for entry in row.entries.values())
            title = f"{name}-{table.protocol}"
            yield title, partial(draw_table, table) if known else "no records"
    files = [SOURCE_TREE / "benchmarks" / "records" / f"{name}.jsonl" for name in SPEED]
    files = [file for file in files if file.is_file()]
    missing = "the records of the benchmarks are in the source tree only"
    yield "speed", partial(draw_speed, files) if files else missing
    data = read_data(clusters_file(records))
    data = [dataset for dataset in data if datasets is None or dataset.name in datasets]
    missing = "no records of benchmarks.clusters"
    yield "cluster-numbers", partial(draw_cluster_numbers, data) if data else missing
