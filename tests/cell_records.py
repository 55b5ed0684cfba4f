"""Records as `diffpool evaluate` would write them for a cell of a table."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from diffpool.experiments.methods import with_settings
from diffpool.experiments.records import Record
from diffpool.experiments.reproduce.cells import (
    DATASETS,
    FINAL_RUNS,
    ROWS,
    TRIALS,
    Cell,
    make_cell,
)
from diffpool.experiments.reproduce.published import PUBLISHED_FOLDS
from diffpool.experiments.selection import draw_points


def cell(row: str, dataset: str = "ENZYMES", protocol: str = "nested", **changes: Any) -> Cell:
    made = make_cell(ROWS[row], dataset, protocol, changes)
    assert made is not None
    return made


def record_of(cell: Cell, fold: int = 0, accuracy: float = 60.0) -> Record:
    """A record as `diffpool evaluate` would write it for this cell, with the last point of the search space."""
    point = draw_points(cell.grid, TRIALS)[-1] if cell.grid else {}
    details: dict[str, Any] = {"folds": PUBLISHED_FOLDS.get(cell.dataset, "other")}
    if cell.protocol == "nested":
        search = {"grid": dict(cell.grid), "trials": TRIALS, "inner_folds": 1}
        details["search"] = {**search, "final_runs": FINAL_RUNS}
    else:
        details["folds"] = "generated"
    if cell.row.kernel:
        settings: dict[str, Any] = {"kernel": {"name": cell.row.method}}
        features = "node labels"
    else:
        method = with_settings(cell.method, {**point, "seed": 5})
        settings = {
            "architecture": asdict(method.architecture),
            "training": asdict(method.training),
        }
        if cell.protocol == "paper":
            settings["training"]["patience"] = settings["training"]["epochs"]
        features = ", ".join(f"{part} (7)" for part in DATASETS[cell.dataset].features)
    record = Record(
        key=f"key of {cell.name}",
        method=cell.method_title,
        dataset=cell.dataset,
        features=features,
        protocol=cell.protocol,
        fold=fold,
        repeat=0,
        seed=0,
        settings=settings,
        accuracy=accuracy,
        epoch=3,
        parameters=10,
        seconds=1.0,
        graphs_per_second=1.0,
        peak_memory=None,
        commit="abc",
        device="abacus",
        versions={"torch": "2"},
        details=details,
    )
    return Record(**json.loads(json.dumps(asdict(record))))
