"""A trained model that takes graphs in any form: what `load_model` gives and the estimators hold."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from diffpool.data import RawGraphs, as_raw, sparse_graphs
from diffpool.errors import DataError, ModelError
from diffpool.graphs import SparseGraphs
from diffpool.nn import GraphClassifier, Prediction
from diffpool.training.model_directory import ModelCard, read_model, save_model

BATCH_GRAPHS, BATCH_NODES = 100, 50_000  # a batch ends at the first of these


@dataclass(frozen=True, eq=False)
class Answers:
    """What the model says of some graphs."""

    outputs: np.ndarray  # [B, K]: probabilities of the classes, or predicted numbers
    unseen: dict[
        str, Counter[str]
    ]  # labels that were not in the training data, with the number of rows


class TrainedModel:
    """A model with its card. Graphs come in any form that `as_raw` takes."""

    def __init__(self, model: GraphClassifier, card: ModelCard):
        self.model, self.card = model.eval(), card

    def predict(self, graphs: Any) -> np.ndarray:
        """The name of the likeliest class of each graph: [B]; for regression the numbers: [B], or [B, T] of several."""
        outputs = self.predict_proba(graphs)
        if not self.card.regression:
            return np.array(self.card.class_names)[outputs.argmax(1)]
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def predict_proba(self, graphs: Any) -> np.ndarray:
        """The probability of each class of `card.class_names` for each graph: [B, K]."""
        answers = self.answer(as_raw(graphs))
        for table, counts in answers.unseen.items():
            warnings.warn(unseen_message(table, counts), stacklevel=3)
        return answers.outputs

    def clusters(self, graphs: Any) -> list[list[np.ndarray]]:
        """The assignments of each graph, one matrix [nodes, clusters] for each pooling."""
        found: list[list[np.ndarray]] = []
        for prediction, _ in self._predictions(as_raw(graphs)):
            for g in range(len(prediction.logits)):
                found.append([a.of_graph(g).cpu().numpy() for a in prediction.assignments])
        return found

    def save(self, directory: str | Path) -> None:
        """Write a model directory, which `load_model` reads."""
        save_model(directory, self.model, self.card)

    def answer(self, raw: RawGraphs) -> Answers:
        """Probabilities or numbers for these graphs, in batches."""
        parts = [np.empty((0, self.card.num_outputs), np.float32)]
        unseen: dict[str, Counter[str]] = {}
        for prediction, found in self._predictions(raw):
            parts.append(self._read(prediction.logits).cpu().numpy())
            add_counts(unseen, found)
        return Answers(np.concatenate(parts), unseen)

    def answer_all(self, parts: Iterable[RawGraphs]) -> Iterator[tuple[RawGraphs, Answers]]:
        """The answers part by part, so that a file larger than memory can pass through."""
        for raw in parts:
            yield raw, self.answer(raw)

    def _read(self, outputs: Tensor) -> Tensor:
        if not self.card.regression:
            return outputs.softmax(-1)
        sd, mean = (outputs.new_tensor(v) for v in (self.card.target_sd, self.card.target_mean))
        return outputs * sd + mean

    @torch.no_grad()
    def _predictions(self, raw: RawGraphs) -> Iterator[tuple[Prediction, dict[str, Counter[str]]]]:
        device = next(self.model.parameters()).device
        start = 0
        while start < len(raw):
            stop = start + 1
            nodes = raw.sizes[start]
            while stop < min(len(raw), start + BATCH_GRAPHS) and nodes <= BATCH_NODES:
                nodes += raw.sizes[stop]
                stop += 1
            graphs, x, unseen = self._prepare(raw[start:stop])
            yield self.model(graphs.to(device), x.to(device)), unseen
            start = stop

    def _prepare(self, raw: RawGraphs) -> tuple[SparseGraphs, Tensor, dict[str, Counter[str]]]:
        feature_map = self.card.feature_map
        if feature_map is None:
            raise ModelError(
                f"expected a model that knows how its features are made, got one trained on {self.card.dataset} with "
                "features made by hand: call the network itself"
            )
        raw = raw.undirected()
        try:
            features = feature_map.apply(raw)
        except DataError as error:
            raise DataError(
                f"{error}: the model was trained on {self.card.dataset} with {feature_map.describe()}"
            ) from error
        dtype = next(self.model.parameters()).dtype
        graphs = sparse_graphs(raw, features)
        if self.card.architecture.wants_preparation:
            from diffpool.baselines.prepare import prepare  # with SciPy, which takes a moment

            graphs = prepare(self.card.architecture, graphs, self.card.largest, keep=False)
        graphs = graphs.to(dtype=dtype)
        return graphs, torch.from_numpy(features.x).to(dtype), features.unseen

    def __repr__(self) -> str:
        card = self.card
        what = "regression" if card.regression else f"{len(card.class_names)} classes"
        return f"TrainedModel({card.method} on {card.dataset}, {what})"


def load_model(directory: str | Path, device: torch.device | str = "cpu") -> TrainedModel:
    """The model of a model directory. Nothing in it is executed."""
    return TrainedModel(*read_model(directory, device))


def add_counts(total: dict[str, Counter[str]], found: dict[str, Counter[str]]) -> None:
    """Add the counts of unseen labels to those there are."""
    for table, counts in found.items():
        total.setdefault(table, Counter()).update(counts)


def unseen_message(table: str, counts: Counter[str]) -> str:
    """One line for people about labels that the model does not know."""
    shown = ", ".join(f"{name!r} ({count} ×)" for name, count in counts.most_common(5))
    more = f" and {len(counts) - 5} others" if len(counts) > 5 else ""
    return f"{table} {shown}{more} was not in the training data: these have no column"
