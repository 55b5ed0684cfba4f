"""Predictions as a CSV file, written as the graphs come."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from diffpool.data import RawGraphs
from diffpool.errors import DataError
from diffpool.training.trained_model import TrainedModel, add_counts


def write_predictions(
    model: TrainedModel,
    parts: Iterable[RawGraphs],
    path: Path,
    advance: Callable[[int], None] = lambda count: None,
) -> tuple[int, dict[str, Counter[str]]]:
    """One line for each graph; how many there were, and the labels that the model does not know.

    Columns: `graph` (from 0), `prediction` (the name of the class) and `p_NAME` for each class; for regression
    `prediction`, or `prediction_1`, … The file appears when it is complete.
    """
    names, outputs = model.card.class_names, model.card.num_outputs
    if model.card.regression:
        columns = (
            ["prediction"] if outputs == 1 else [f"prediction_{i + 1}" for i in range(outputs)]
        )
    else:
        columns = ["prediction", *(f"p_{name}" for name in names)]
    unseen: dict[str, Counter[str]] = {}
    count = 0
    part_file = path.with_name(path.name + ".part")
    try:
        with part_file.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["graph", *columns])
            for _, answers in model.answer_all(parts):
                for row in answers.outputs:
                    words = [f"{value:.9g}" for value in row]
                    first = [] if model.card.regression else [names[int(row.argmax())]]
                    writer.writerow([count, *first, *words])
                    count += 1
                add_counts(unseen, answers.unseen)
                advance(len(answers.outputs))
        part_file.replace(path)
    except OSError as error:
        raise DataError(
            f"expected a file to write predictions to, got {path} ({error.strerror})"
        ) from error
    finally:
        part_file.unlink(missing_ok=True)
    return count, unseen
