"""What a model directory says about the training run: its curves, and which graphs were for what."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from diffpool.errors import DataError
from diffpool.files import json_lines

METRICS, REPORT = "metrics.jsonl", "report.json"
COLUMNS = ("train_loss", "train_class_loss", "validation_loss")
ACCURACIES = ("train_accuracy", "validation_accuracy")
TRAIN, VALIDATION, TEST = range(3)


def read_curves(directory: Path) -> dict[str, list[Any]] | None:
    """The columns of metrics.jsonl, NaN as None; None if there is no such file, or if it is damaged."""
    try:
        file = directory / METRICS
        rows = json_lines(file.read_bytes(), file, "the metrics of an epoch")
        return curves_of([row for row, _ in rows])
    except (OSError, DataError, KeyError):
        return None


def curves_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]] | None:
    """The columns of the metrics of every epoch, as above; None without epochs."""
    curves = {
        name: [_number(row.get(name)) for row in rows] for name in ("epoch", *COLUMNS, *ACCURACIES)
    }
    best = [row["epoch"] for row in rows if row.get("best")]
    return curves | {"best": best[-1:]} if rows else None


def read_split(directory: Path, dataset: str, graphs: int) -> list[int] | None:
    """The part of each graph: TRAIN, VALIDATION or TEST; None if the model was not trained on this data set."""
    try:
        report = json.loads((directory / REPORT).read_text("utf-8"))
        if (report["dataset"], report["graphs"]) != (dataset, graphs):
            return None
        parts = [TRAIN] * graphs
        for name, part in (("validation_graphs", VALIDATION), ("test_graphs", TEST)):
            for graph in report["split"][name] or ():
                parts[graph] = part
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return parts


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
