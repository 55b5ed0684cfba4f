"""A trained model that predicts graphs in any form, and predictions as a CSV file."""

from __future__ import annotations

import csv
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from diffpool.backends.cpu.threads import threads_for
from diffpool.data import RawGraphs, as_raw, sparse_graphs
from diffpool.errors import DataError, ModelError
from diffpool.files import atomic_write
from diffpool.graphs import SparseGraphs
from diffpool.nn import GraphClassifier, Prediction
from diffpool.training.model_directory import ModelCard, read_model, save_model

BATCH_GRAPHS, BATCH_NODES = 100, 50_000  # a batch ends when it reaches either limit

Unseen = dict[
    str, Counter[str]
]  # labels that were not in the training data: table, label, number of rows


@dataclass(frozen=True, eq=False)
class Outputs:
    """The outputs of a model for some graphs."""

    values: np.ndarray  # [B, K]: class probabilities, or predicted targets
    unseen: Unseen


class TrainedModel:
    """A model with its card. It takes graphs in every form that `as_raw` takes."""

    def __init__(self, model: GraphClassifier, card: ModelCard):
        self.model, self.card = model.eval(), card

    def predict(self, graphs: Any) -> np.ndarray:
        """The name of the most likely class of each graph: [B]; for regression the targets: [B], or [B, T] if T > 1."""
        values = self.predict_proba(graphs)
        if not self.card.regression:
            return np.array(self.card.class_names)[values.argmax(1)]
        return values[:, 0] if values.shape[1] == 1 else values

    def predict_proba(self, graphs: Any) -> np.ndarray:
        """The probability of each class, in the order of `card.class_names`: [B, K]."""
        outputs = self.outputs(as_raw(graphs))
        for table, counts in outputs.unseen.items():
            warnings.warn(unseen_message(table, counts), stacklevel=3)
        return outputs.values

    def clusters(self, graphs: Any) -> list[list[np.ndarray]]:
        """The assignment matrices of each graph: one [nodes, clusters] matrix for each pooling."""
        found: list[list[np.ndarray]] = []
        for prediction, _ in self._predictions(as_raw(graphs)):
            for g in range(len(prediction.logits)):
                found.append([a.of_graph(g).cpu().numpy() for a in prediction.assignments])
        return found

    def save(self, directory: str | Path) -> None:
        """Write a model directory for `load_model`."""
        save_model(directory, self.model, self.card)

    def outputs(self, raw: RawGraphs) -> Outputs:
        """Class probabilities or targets of these graphs, computed in batches."""
        parts = [np.empty((0, self.card.num_outputs), np.float32)]
        unseen: Unseen = {}
        for prediction, found in self._predictions(raw):
            parts.append(self._scaled(prediction.logits).cpu().numpy())
            _add_counts(unseen, found)
        return Outputs(np.concatenate(parts), unseen)

    def _scaled(self, logits: Tensor) -> Tensor:
        """Class probabilities, or targets in their original units."""
        if not self.card.regression:
            return logits.softmax(-1)
        card, exact = self.card, torch.float64  # targets of 1e-60 are 0 in float32
        sd, mean = (torch.tensor(v, dtype=exact) for v in (card.target_sd, card.target_mean))
        return logits.cpu().double() * sd + mean

    @torch.no_grad()
    def _predictions(self, raw: RawGraphs) -> Iterator[tuple[Prediction, Unseen]]:
        device = next(self.model.parameters()).device
        start = 0
        while start < len(raw):
            stop = start + 1
            nodes = raw.sizes[start]
            while stop < min(len(raw), start + BATCH_GRAPHS) and nodes <= BATCH_NODES:
                nodes += raw.sizes[stop]
                stop += 1
            graphs, x, unseen = self._prepare(raw[start:stop])
            with threads_for(len(x)):
                prediction = self.model(graphs.to(device), x.to(device))
            yield prediction, unseen
            start = stop

    def _prepare(self, raw: RawGraphs) -> tuple[SparseGraphs, Tensor, Unseen]:
        """Edges, features and precomputed structures as in the training data."""
        card = self.card
        if card.feature_map is None:
            raise ModelError(
                f"the model was trained on {card.dataset} with features that it cannot compute from raw graphs: "
                "call the network (`model`) with your own features"
            )
        raw = raw if card.directed else raw.undirected()
        try:
            features = card.feature_map.apply(raw)
        except DataError as error:
            raise DataError(
                f"{error}: the model was trained on {card.dataset} with {card.feature_map.describe()}"
            ) from error
        dtype = next(self.model.parameters()).dtype
        graphs = sparse_graphs(raw, features)
        if card.architecture.wants_preparation:
            from diffpool.baselines.prepare import prepare  # imports SciPy, which is slow

            graphs = prepare(card.architecture, graphs, card.largest, keep=False)
        graphs = graphs.to(dtype=dtype)
        return graphs, torch.from_numpy(features.x).to(dtype), features.unseen

    def __repr__(self) -> str:
        card = self.card
        what = "regression" if card.regression else f"{len(card.class_names)} classes"
        return f"TrainedModel({card.method} on {card.dataset}, {what})"


def load_model(directory: str | Path, device: torch.device | str = "cpu") -> TrainedModel:
    """Load a model directory. Nothing in it is executed."""
    return TrainedModel(*read_model(directory, device))


def write_predictions(
    model: TrainedModel,
    parts: Iterable[RawGraphs],
    path: Path,
    advance: Callable[[int], None] = lambda count: None,
) -> tuple[int, Unseen]:
    """Write one line per graph; return the number of graphs, and the labels that the model does not know.

    Columns: `graph` (from 0), `prediction` (the class name) and `p_NAME` for each class; for regression `prediction`,
    or `prediction_1`, … The graphs come in parts, so that they need not fit into memory. The file appears when it is
    complete. `advance` is called with the number of graphs of each part.
    """
    names, outputs = model.card.class_names, model.card.num_outputs
    if not model.card.regression:
        columns = ["prediction", *(f"p_{name}" for name in names)]
    elif outputs == 1:
        columns = ["prediction"]
    else:
        columns = [f"prediction_{i + 1}" for i in range(outputs)]
    unseen: Unseen = {}
    count = 0
    try:
        with (
            atomic_write(path) as temporary,
            temporary.open("w", newline="", encoding="utf-8") as file,
        ):
            writer = csv.writer(file)
            writer.writerow(["graph", *columns])
            for raw in parts:
                found = model.outputs(raw)
                for row in found.values:
                    numbers = [f"{value:.9g}" for value in row]
                    name = [] if model.card.regression else [_cell(names[int(row.argmax())])]
                    writer.writerow([count, *name, *numbers])
                    count += 1
                _add_counts(unseen, found.unseen)
                advance(len(found.values))
    except OSError as error:
        raise DataError(f"cannot write predictions to {path} ({error.strerror})") from error
    return count, unseen


def _cell(text: str) -> str:
    """Text that a spreadsheet shows as it is: a leading apostrophe keeps it from being run as a formula."""
    try:
        float(text)
    except ValueError:
        return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
    return text


def unseen_message(table: str, counts: Counter[str]) -> str:
    """A message about labels that the model does not know."""
    shown = ", ".join(f"{name!r} ({count} ×)" for name, count in counts.most_common(5))
    more = f" and {len(counts) - 5} others" if len(counts) > 5 else ""
    return f"{table} {shown}{more} was not in the training data: the model ignores it"


def _add_counts(total: Unseen, found: Unseen) -> None:
    for table, counts in found.items():
        total.setdefault(table, Counter()).update(counts)
