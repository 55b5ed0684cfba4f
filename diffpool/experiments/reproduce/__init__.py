"""The paper's tables from records, ours next to the published numbers. Names are imported on first use."""

from typing import TYPE_CHECKING

from diffpool.lazy import lazy_names

if TYPE_CHECKING:
    from diffpool.experiments.reproduce.analysis import analysis_tables
    from diffpool.experiments.reproduce.cells import Cell, declared_cells, make_cell
    from diffpool.experiments.reproduce.found import default_folder, read_runs
    from diffpool.experiments.reproduce.published import PUBLISHED, Published
    from diffpool.experiments.reproduce.render import as_csv, as_json, as_markdown
    from diffpool.experiments.reproduce.run import Workspace, missing_cells, run_cells
    from diffpool.experiments.reproduce.running import measure_times, time_table
    from diffpool.experiments.reproduce.stability import measure_stability, stability_table
    from diffpool.experiments.reproduce.tables import Table, accuracy_tables

__all__ = [
    "PUBLISHED",
    "Cell",
    "Published",
    "Table",
    "Workspace",
    "accuracy_tables",
    "analysis_tables",
    "as_csv",
    "as_json",
    "as_markdown",
    "declared_cells",
    "default_folder",
    "make_cell",
    "measure_stability",
    "measure_times",
    "missing_cells",
    "read_runs",
    "run_cells",
    "stability_table",
    "time_table",
]

__getattr__ = lazy_names(
    __name__,
    {
        "analysis": "analysis_tables",
        "cells": "Cell declared_cells make_cell",
        "found": "default_folder read_runs",
        "published": "PUBLISHED Published",
        "render": "as_csv as_json as_markdown",
        "run": "Workspace missing_cells run_cells",
        "running": "measure_times time_table",
        "stability": "measure_stability stability_table",
        "tables": "Table accuracy_tables",
    },
)
