"""Predictions as CSV or JSON lines."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from diffpool.data import RawGraphs
from diffpool.data.raw import Skipped
from diffpool.errors import DataError
from diffpool.files import atomic_write
from diffpool.text import csv_cell
from diffpool.training.model_directory import ModelCard
from diffpool.training.predict import TrainedModel, Unseen, add_counts
from diffpool.training.prediction_scores import PredictionScores


@dataclass(frozen=True, eq=False)
class Predictions:
    """A summary of the written file: the number of graphs, labels unknown to the model, scores of labeled graphs."""

    count: int
    unseen: Unseen
    metrics: dict[str, Any] | None  # None if no graph has a class or target
    not_scored: tuple[
        str, ...
    ] = ()  # messages about graphs with another kind of `y` than the model predicts
    skipped: tuple[
        str, ...
    ] = ()  # rows of the input that are not graphs: their prediction is empty


def write_predictions(
    model: TrainedModel,
    parts: Iterable[RawGraphs],
    out: Path | TextIO,
    advance: Callable[[int], None] = lambda count: None,
    form: str = "csv",
) -> Predictions:
    """Write one line per graph, as CSV or, if `form` is "jsonl", as a JSON object.

    Columns: `graph` (from 0), the columns of the input (`RawGraphs.columns`), `prediction` (the class) and `p_NAME` for
    each class; for regression `prediction`, or `prediction_1`, … An ensemble adds `entropy` and `disagreement`, for
    regression `sd`, or `sd_1`, …; see `TrainedModel.uncertainty`. The graphs come in parts, so that they need not fit
    into memory. A row that the reader skipped (`RawGraphs.skipped`) has empty predictions. The file appears only when
    it is complete. `advance` is called with the number of graphs of each part.
    """
    try:
        if not isinstance(out, Path):
            return _write(model, parts, out, advance, form)
        with (
            atomic_write(out) as temporary,
            temporary.open("w", newline="", encoding="utf-8") as file,
        ):
            return _write(model, parts, file, advance, form)
    except BrokenPipeError:  # the reader has closed the pipe
        raise
    except OSError as error:
        destination = out if isinstance(out, Path) else "standard output"
        raise DataError(f"cannot write predictions to {destination} ({error.strerror})") from error


def _write(
    model: TrainedModel,
    parts: Iterable[RawGraphs],
    file: TextIO,
    advance: Callable[[int], None],
    form: str,
) -> Predictions:
    card = model.card
    scores = PredictionScores(card)
    reserved = _own_columns(card)
    writer = csv.writer(file)
    names: dict[str, str] = {}  # in the output, of the columns of the input
    header: list[str] | None = None  # columns of the input
    unseen: Unseen = {}
    skipped: list[str] = []
    count = 0
    for raw in parts:
        found = model.outputs(raw)
        _add_names(names, raw.columns, reserved)
        if header is None or form == "jsonl":
            header = list(raw.columns)
            if form == "csv" and count == 0:
                shown = [names[name] for name in header]
                writer.writerow(["graph", *map(csv_cell, shown), *map(csv_cell, reserved[1:])])
        if new := raw.columns.keys() - set(header):
            raise DataError(
                f"graphs {count} to {count + len(raw) - 1} have a column {min(new)!r}, which the first graphs lack: "
                "add it to the first graph too, or write the predictions as JSON lines"
            )
        given = {name: raw.columns.get(name, [None] * len(raw)) for name in header}
        for g in _in_order(raw):
            label: list[Any]
            numbers: list[str | None]
            if isinstance(g, Skipped):
                columns = [g.columns.get(name) for name in header]
                label, numbers = [], [None] * (len(reserved) - 1)
                skipped.append(g.where)
            else:
                row = found.values[g]
                numbers = [f"{value:.9g}" for value in row]
                if card.members > 1:
                    spread = np.hstack([np.ravel(v[g]) for v in found.uncertainty.values()])
                    numbers += [f"{value:.9g}" for value in spread]
                columns = [given[name][g] for name in header]
                label = [] if card.regression else [card.class_names[int(row.argmax())]]
            if form == "csv":
                writer.writerow([count, *map(csv_cell, columns), *map(csv_cell, label), *numbers])
            else:
                found_numbers = [n and float(n) for n in numbers]
                values = [count, *map(_json_value, columns), *label, *found_numbers]
                keys = ["graph", *(names[name] for name in header), *reserved[1:]]
                line = dict(zip(keys, values, strict=True))
                file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
            count += 1
        scores.add(raw, found.values)
        add_counts(unseen, found.unseen)
        advance(len(raw) + len(raw.skipped))
    file.flush()
    return Predictions(count, unseen, scores.metrics(), scores.not_scored(), tuple(skipped))


def _add_names(names: dict[str, str], columns: Iterable[str], reserved: list[str]) -> None:
    """Name the new columns of the input: as they are, or with `input_` until no other column has that name."""
    columns = list(columns)
    for name in columns:
        if name in names:
            continue
        given = name
        while given in reserved or given in names.values() or (given != name and given in columns):
            given = f"input_{given}"
        names[name] = given


def _json_value(value: Any) -> Any:
    """The value; None for NaN and infinity, which JSON lacks."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _in_order(raw: RawGraphs) -> list[int | Skipped]:
    """The numbers of the graphs, and the rows that are not graphs, in the order of the file."""
    return sorted([*range(len(raw)), *raw.skipped], key=_position)


def _position(row: int | Skipped) -> tuple[int, int]:
    return (row.index, 0) if isinstance(row, Skipped) else (row, 1)


def _own_columns(card: ModelCard) -> list[str]:
    several = card.members > 1
    if not card.regression:
        uncertainty = ["entropy", "disagreement"] if several else []
        return ["graph", "prediction", *(f"p_{name}" for name in card.class_names), *uncertainty]
    outputs = card.num_outputs
    names = ["prediction", "sd"] if several else ["prediction"]
    if outputs > 1:
        names = [f"{name}_{i + 1}" for name in names for i in range(outputs)]
    return ["graph", *names]
