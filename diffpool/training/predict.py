"""A trained model that makes predictions for graphs in any format."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from diffpool.architecture import Architecture
from diffpool.backends.cpu.threads import threads_for
from diffpool.data import ColumnNames, RawGraphs, as_raw, sparse_graphs
from diffpool.data.categories import label_array
from diffpool.errors import DataError, ModelError
from diffpool.graphs import SparseGraphs
from diffpool.nn import GraphClassifier, Prediction, take
from diffpool.training.ensemble import class_uncertainty, mean_outputs, target_spread
from diffpool.training.memory import enough_memory
from diffpool.training.model_directory import Model, ModelCard, read_model, save_model

BATCH_GRAPHS, BATCH_NODES = 100, 50_000  # a batch ends when it reaches either limit

Unseen = dict[
    str, Counter[str]
]  # labels that were not in the training data: table, label, number of rows


@dataclass(frozen=True, eq=False)
class Outputs:
    """The outputs of a model for some graphs."""

    values: np.ndarray  # [B, K]: class probabilities, or predicted targets
    uncertainty: dict[str, np.ndarray]  # by name, [B] for classes and [B, T] for targets
    unseen: Unseen


@dataclass(frozen=True, eq=False)
class _Batch:
    """What a model computes for a batch of graphs."""

    start: int  # number of the first graph
    predictions: list[Prediction]  # of every part
    unseen: Unseen


class TrainedModel:
    """A model, or an ensemble of models, with its card. It accepts graphs in every format that `as_raw` accepts.

    `model` is the network, an `nn.Module` in evaluation mode that can be part of another one. It is called as
    `model(*trained.inputs(graphs))`. The network of one member of an ensemble is `members[0].model`.

    The output of an ensemble is the mean of the outputs of its members. Clusters are those of its first member: the
    clusters of different models do not correspond to each other.
    """

    def __init__(self, model: Model, card: ModelCard):
        self.model, self.card = model.eval(), card
        parts = model if isinstance(model, nn.ModuleList) else [model]
        self.parts = [cast(GraphClassifier, part) for part in parts]

    @property
    def members(self) -> list[TrainedModel]:
        """The models of the ensemble; for a single model, the model itself."""
        members = []
        for part, about in zip(self.parts, self.card.parts, strict=True):
            card = replace(self.card, parts=(replace(about, weights=(1.0,)),))
            for number in range(len(about.weights)):
                members.append(TrainedModel(take(part, [number]), card))
        return members

    @property
    def names(self) -> ColumnNames | None:
        """The attributes that the model was trained on; None if its graphs had no names for them."""
        return None if self.card.feature_map is None else self.card.feature_map.names

    def read(self, graphs: Any) -> RawGraphs:
        """The graphs, with the attributes that the model was trained on.

        For files: `read_graphs(path, names=model.names)`.
        """
        return as_raw(graphs, names=self.names)

    @property
    def classes_(self) -> np.ndarray:
        """The classes, in the order of the columns of `predict_proba`: [K]. A regression model has none."""
        if self.card.regression:
            raise AttributeError("a regression model has no classes_")
        return label_array(self.card.class_names)

    def predict(self, graphs: Any) -> np.ndarray:
        """The most likely class of each graph, in its original type: [B]; for regression the targets: [B] or [B, T]."""
        values = self.predict_proba(graphs)
        if not self.card.regression:
            return self.classes_[values.argmax(1)]
        return values[:, 0] if values.shape[1] == 1 else values

    def predict_proba(self, graphs: Any) -> np.ndarray:
        """The probability of each class, in the order of `card.class_names`: [B, K]."""
        outputs = self.outputs(self.read(graphs))
        for table, counts in outputs.unseen.items():
            warnings.warn(unseen_message(table, counts), stacklevel=3)
        return outputs.values

    def predict_log_proba(self, graphs: Any) -> np.ndarray:
        """The logarithm of the probability of each class, also where the probability rounds to 0: [B, K]."""
        if self.card.regression:
            raise ModelError(
                "expected a classification model, got a regression model, which has no probabilities"
            )
        raw, found = self.read(graphs), []
        weights = torch.tensor(self.weights).log()[:, None, None]
        for batch in self._batches(raw):
            values = (self._member_outputs(batch).log_softmax(-1) + weights).logsumexp(0)
            _check_finite(raw, batch.start, values, "output of the model")
            found.append(values)
        return torch.cat(found).numpy()

    def uncertainty(self, graphs: Any) -> dict[str, np.ndarray]:
        """How uncertain the prediction of each graph is.

        For classes, in nats: `entropy`, that of the predicted probabilities, and `disagreement`, the part of it that
        comes from differences between the members of an ensemble: [B]. For targets, `sd` over the members: [B, T].
        """
        return self.outputs(self.read(graphs)).uncertainty

    def embed(self, graphs: Any) -> np.ndarray:
        """The embedding of each graph, the input of the model's head: [B, D].

        For an ensemble, the embeddings of its members next to each other.
        """
        raw, found = self.read(graphs), []
        for batch in self._batches(raw):
            members: list[Tensor] = []
            for prediction, part in zip(batch.predictions, self.card.parts, strict=True):
                members += prediction.embedding.cpu().chunk(len(part.weights))  # [B, D] each
            found.append(torch.cat(members, 1))
            _check_finite(raw, batch.start, found[-1], "embedding of the model")
        return torch.cat(found).numpy()

    def transform(self, graphs: Any) -> np.ndarray:
        """The same as `embed`, under the name that the estimators use."""
        return self.embed(graphs)

    def clusters(self, graphs: Any) -> list[list[np.ndarray]]:
        """The assignment matrices of each graph: one [nodes, clusters] matrix for each pooling."""
        raw = self.read(graphs)
        found: list[list[np.ndarray]] = []
        for prediction in self.predictions(raw):
            for g in range(len(prediction.logits)):
                matrices = [a.of_graph(g).cpu() for a in prediction.assignments]
                for matrix in matrices:
                    _check_finite(raw, len(found), matrix[None], "cluster assignment of the model")
                found.append([matrix.numpy() for matrix in matrices])
        return found

    def predictions(self, graphs: Any) -> Iterator[Prediction]:
        """The outputs of the network (of an ensemble, its first member) for the graphs, in batches, with all levels."""
        for batch in self.members[0]._batches(self.read(graphs)):
            yield batch.predictions[0]

    def inputs(self, graphs: Any) -> tuple[SparseGraphs, Tensor]:
        """What the network takes for these graphs: their edges and features [N, F] as in training, on its device.

        For a model trained on the `x` of PyTorch Geometric's graphs, with every edge in both directions, these are the
        edges and the `x` of the batch, and `model(batch)` computes the same.
        """
        prepared, x, _ = self._prepare(self.read(graphs))
        device = next(self.model.parameters()).device
        return self._structures(prepared, self.card.architecture).to(device), x.to(device)

    @torch.no_grad()
    def prediction(self, graphs: SparseGraphs, x: Tensor) -> Prediction:
        """What the network of a single model computes for `inputs`, with all levels."""
        with threads_for(len(x)):
            found: Prediction = self.parts[0](graphs, x)
        return found

    def save(self, directory: str | Path, overwrite: bool = True) -> None:
        """Write a model directory for `load_model`. With `overwrite=False`, an existing model raises an error."""
        save_model(directory, self.model, self.card, overwrite)

    def outputs(self, raw: RawGraphs) -> Outputs:
        """Class probabilities or targets of these graphs, computed in batches."""
        parts: list[np.ndarray] = []
        unseen: Unseen = {}
        for batch in self._batches(raw):
            scaled = self.scaled(self._member_outputs(batch))  # [M, B, K]
            _check_finite(raw, batch.start, scaled.transpose(0, 1), "output of the model")
            parts.append(scaled.numpy())
            add_counts(unseen, batch.unseen)
        members, weights = np.concatenate(parts, 1), self.weights
        if self.card.regression:
            uncertainty = {"sd": target_spread(members, weights)}
        else:
            uncertainty = class_uncertainty(members, weights)
        values = members[0] if len(members) == 1 else mean_outputs(members, weights)
        return Outputs(values, uncertainty, unseen)

    @property
    def weights(self) -> list[float]:
        """The weight of each member: [M], with the sum 1."""
        weights = [weight for part in self.card.parts for weight in part.weights]
        return [weight / sum(weights) for weight in weights]

    def scaled(self, outputs: Tensor) -> Tensor:
        """Class probabilities, or targets in their original units."""
        if not self.card.regression:
            return outputs.softmax(-1)
        card, exact = self.card, torch.float64  # targets of 1e-60 are 0 in float32
        sd, mean = (torch.tensor(v, dtype=exact) for v in (card.target_sd, card.target_mean))
        return outputs.double() * sd + mean

    def _member_outputs(self, batch: _Batch) -> Tensor:
        """The outputs of all members for a batch of graphs: [M, B, K], on the host."""
        found = []
        for prediction, part in zip(batch.predictions, self.card.parts, strict=True):
            logits = prediction.logits.cpu()
            models = len(part.weights)
            found.append(logits.view(models, len(logits) // models, self.card.num_outputs))
        return torch.cat(found)

    def outputs_of(self, graphs: SparseGraphs, x: Tensor) -> np.ndarray:
        """Class probabilities or targets for one batch with features [N, F]: [B, K]."""
        members = self.scaled(self._member_outputs(_Batch(0, self._run(graphs, x), {})))
        return mean_outputs(members.numpy(), self.weights)

    @torch.no_grad()
    def _run(self, graphs: SparseGraphs, x: Tensor) -> list[Prediction]:
        """The predictions of every part for one batch."""
        device = next(self.model.parameters()).device
        predictions = []
        for model, part in zip(self.parts, self.card.parts, strict=True):
            prepared = self._structures(graphs, part.architecture).to(device)
            models = len(part.weights)
            with threads_for(len(x)):
                predictions.append(model(prepared.repeated(models), x.to(device).repeat(models, 1)))
        return predictions

    def _batches(self, raw: RawGraphs) -> Iterator[_Batch]:
        """The predictions of every part for batches of graphs; for no graphs, those of one empty batch."""
        start = 0
        while start < max(len(raw), 1):
            stop, nodes = start, 0
            while stop < min(len(raw), start + BATCH_GRAPHS) and nodes <= BATCH_NODES:
                nodes += raw.sizes[stop]
                stop += 1
            with enough_memory(self._too_large(start, stop, nodes)):
                graphs, x, unseen = self._prepare(raw[start:stop])
                predictions = self._run(graphs, x)
            yield _Batch(start, predictions, unseen)
            start = max(stop, 1)

    def _too_large(self, start: int, stop: int, nodes: int) -> ModelError:
        return ModelError(
            f"not enough memory for the model on graphs {start} to {stop - 1} with {nodes} nodes: "
            "predict on smaller graphs, or train a model with fewer clusters"
        )

    def _prepare(self, raw: RawGraphs) -> tuple[SparseGraphs, Tensor, Unseen]:
        """Edges and features as in the training data."""
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
        graphs = sparse_graphs(raw, features).to(dtype=dtype)
        return graphs, torch.from_numpy(features.x).to(dtype), features.unseen

    def _structures(self, graphs: SparseGraphs, architecture: Architecture) -> SparseGraphs:
        """The graphs with the precomputed structures that an architecture needs."""
        if not architecture.wants_preparation:
            return graphs
        from diffpool.baselines.prepare import prepare  # imports SciPy, which is slow

        dtype = graphs.degree.dtype
        return prepare(architecture, graphs, self.card.largest, keep=False).to(dtype=dtype)

    def __repr__(self) -> str:
        card = self.card
        what = "regression" if card.regression else f"{len(card.class_names)} classes"
        members = "" if card.members == 1 else f", {card.members} members"
        return f"TrainedModel({card.method} on {card.dataset}, {what}{members})"


def as_trained_model(model: Any) -> TrainedModel:
    """The `TrainedModel` of a fitted estimator or of a model directory; a `TrainedModel` itself."""
    if isinstance(model, str | Path):
        return load_model(model)
    if isinstance(model, TrainedModel):
        return model
    trained = getattr(model, "model_", None)
    if isinstance(trained, TrainedModel):
        return trained
    what = f"{type(model).__name__} that is not fitted" if hasattr(model, "fit") else repr(model)
    raise ModelError(
        f"expected a fitted estimator, a TrainedModel or a model directory, got {what[:80]}: train a model first"
    )


def load_model(directory: str | Path, device: torch.device | str = "cpu") -> TrainedModel:
    """Load a model directory. No code from the directory is executed."""
    return TrainedModel(*read_model(directory, device))


def _check_finite(raw: RawGraphs, start: int, values: Tensor, what: str) -> None:
    """Raise an error that names the first graph with a value that is not finite.

    `values` [B, …] are those of the graphs from `start` on.
    """
    wrong = ~values.isfinite().flatten(1).all(1)
    if wrong.any():
        raise ModelError(
            f"{raw.name}: the {what} for graph {start + int(wrong.int().argmax())} (counted from 0) is not a finite "
            "number: look for huge values in its features, or train the model again"
        )


def unseen_message(table: str, counts: Counter[str]) -> str:
    """A message about labels unknown to the model."""
    shown = ", ".join(f"{name!r} ({count} ×)" for name, count in counts.most_common(5))
    more = f" and {len(counts) - 5} others" if len(counts) > 5 else ""
    return f"{table} {shown}{more} was not in the training data: the model ignores it"


def add_counts(total: Unseen, found: Unseen) -> None:
    """Add the counts of unknown labels to the total."""
    for table, counts in found.items():
        total.setdefault(table, Counter()).update(counts)
