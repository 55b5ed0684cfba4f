"""A trained model that makes predictions for graphs in any format, and predictions as CSV or JSON lines."""

from __future__ import annotations

import csv
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
from torch import Tensor

from diffpool.backends.cpu.threads import threads_for
from diffpool.data import RawGraphs, as_raw, sparse_graphs
from diffpool.errors import DataError, ModelError
from diffpool.files import atomic_write
from diffpool.graphs import SparseGraphs
from diffpool.nn import GraphClassifier, Prediction
from diffpool.training.memory import enough_memory
from diffpool.training.metrics import classification_metrics, regression_metrics
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
    """A model with its card. It accepts graphs in every format that `as_raw` accepts."""

    def __init__(self, model: GraphClassifier, card: ModelCard):
        self.model, self.card = model.eval(), card

    def predict(self, graphs: Any) -> np.ndarray:
        """The most likely class of each graph, in its original type: [B]; for regression the targets: [B] or [B, T]."""
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

    def predict_log_proba(self, graphs: Any) -> np.ndarray:
        """The logarithm of the probability of each class, also where the probability rounds to 0: [B, K]."""
        if self.card.regression:
            raise ModelError(
                "expected a classification model, got a regression model, which has no probabilities"
            )
        found = [p.logits.log_softmax(-1) for p, _ in self._predictions(as_raw(graphs))]
        return torch.cat(found).cpu().numpy()

    def embed(self, graphs: Any) -> np.ndarray:
        """The embedding of each graph, the input of the model's head: [B, D]."""
        vectors: list[Tensor] = []

        def keep(head: Any, inputs: tuple[Tensor, ...]) -> None:
            vectors.append(inputs[0].cpu())

        hook = self.model.head.register_forward_pre_hook(keep)
        try:
            for _ in self._predictions(as_raw(graphs)):
                pass
        finally:
            hook.remove()
        return torch.cat(vectors).numpy()

    def clusters(self, graphs: Any) -> list[list[np.ndarray]]:
        """The assignment matrices of each graph: one [nodes, clusters] matrix for each pooling."""
        found: list[list[np.ndarray]] = []
        for prediction, _ in self._predictions(as_raw(graphs)):
            for g in range(len(prediction.logits)):
                found.append([a.of_graph(g).cpu().numpy() for a in prediction.assignments])
        return found

    def save(self, directory: str | Path, overwrite: bool = True) -> None:
        """Write a model directory for `load_model`. With `overwrite=False`, an existing model raises an error."""
        save_model(directory, self.model, self.card, overwrite)

    def outputs(self, raw: RawGraphs) -> Outputs:
        """Class probabilities or targets of these graphs, computed in batches."""
        parts = [np.empty((0, self.card.num_outputs), np.float32)]
        unseen: Unseen = {}
        for prediction, found in self._predictions(raw):
            values = self._scaled(prediction.logits).cpu().numpy()
            if not np.isfinite(values).all():
                graph = sum(map(len, parts)) + int((~np.isfinite(values).all(1)).argmax())
                raise ModelError(
                    f"{raw.name}: the output of the model for graph {graph} (counted from 0) is not a finite number: "
                    "look for huge values in its features, or train the model again"
                )
            parts.append(values)
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
            with enough_memory(self._too_large(start, stop, nodes)):
                graphs, x, unseen = self._prepare(raw[start:stop])
                with threads_for(len(x)):
                    prediction = self.model(graphs.to(device), x.to(device))
            yield prediction, unseen
            start = stop

    def _too_large(self, start: int, stop: int, nodes: int) -> ModelError:
        return ModelError(
            f"not enough memory for the model on graphs {start} to {stop - 1} with {nodes} nodes: "
            "predict on smaller graphs, or train a model with fewer clusters"
        )

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
    """Load a model directory. No code from the directory is executed."""
    return TrainedModel(*read_model(directory, device))


@dataclass(frozen=True, eq=False)
class Predictions:
    """What was written: the number of graphs, labels unknown to the model, and the scores of labeled graphs."""

    count: int
    unseen: Unseen
    metrics: dict[str, Any] | None  # None if no graph has a class or target


def write_predictions(
    model: TrainedModel,
    parts: Iterable[RawGraphs],
    out: Path | TextIO,
    advance: Callable[[int], None] = lambda count: None,
    form: str = "csv",
) -> Predictions:
    """Write one line per graph, as CSV or, if `form` is "jsonl", as a JSON object.

    Columns: `graph` (from 0), the columns of the input (`RawGraphs.columns`), `prediction` (the class) and `p_NAME` for
    each class; for regression `prediction`, or `prediction_1`, … The graphs come in parts, so that they need not fit
    into memory. The file appears only when it is complete. `advance` is called with the number of graphs of each part.
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
        raise DataError(f"cannot write predictions to {out} ({error.strerror})") from error


def _write(
    model: TrainedModel,
    parts: Iterable[RawGraphs],
    file: TextIO,
    advance: Callable[[int], None],
    form: str,
) -> Predictions:
    card = model.card
    answers = _Answers(card)
    own = _own_columns(card)
    writer = csv.writer(file)
    header: list[str] | None = None  # columns of the input
    unseen: Unseen = {}
    count = 0
    for raw in parts:
        found = model.outputs(raw)
        names = {name: f"input_{name}" if name in own else name for name in raw.columns}
        if header is None or form == "jsonl":
            header = list(names.values())
            if form == "csv" and count == 0:
                writer.writerow(["graph", *map(_cell, header), *map(_cell, own[1:])])
        if new := set(names.values()) - set(header):
            raise DataError(
                f"graphs {count} to {count + len(raw) - 1} have a column {min(new)!r}, which the first graphs lack: "
                "add it to the first graph too, or write the predictions as JSON lines"
            )
        given = {names[name]: values for name, values in raw.columns.items()}
        given = {name: given.get(name, [None] * len(raw)) for name in header}
        for g, row in enumerate(found.values):
            numbers = [f"{value:.9g}" for value in row]
            columns = [given[name][g] for name in header]
            label = [] if card.regression else [card.class_names[int(row.argmax())]]
            if form == "csv":
                writer.writerow([count, *map(_cell, columns), *map(_cell, label), *numbers])
            else:
                values = [count, *columns, *label, *map(float, numbers)]
                line = dict(zip(["graph", *header, *own[1:]], values, strict=True))
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
            count += 1
        answers.add(raw, found.values)
        _add_counts(unseen, found.unseen)
        advance(len(found.values))
    file.flush()
    return Predictions(count, unseen, answers.metrics())


def _cell(value: Any) -> Any:
    """The value; text that a spreadsheet program would execute as a formula is prefixed with an apostrophe."""
    if not isinstance(value, str) or value[:1] not in ("=", "+", "-", "@", "\t", "\r"):
        return value
    try:
        float(value)  # -1 and +0.5 are numbers
    except ValueError:
        return f"'{value}"
    return value


def _own_columns(card: ModelCard) -> list[str]:
    if not card.regression:
        return ["graph", "prediction", *(f"p_{name}" for name in card.class_names)]
    outputs = card.num_outputs
    numbers = [f"prediction_{i + 1}" for i in range(outputs)] if outputs > 1 else ["prediction"]
    return ["graph", *numbers]


class _Answers:
    """Collects the true classes or targets of labeled graphs, with the predictions."""

    def __init__(self, card: ModelCard):
        self.card = card
        self.codes = {str(name): code for code, name in enumerate(card.class_names)}
        self.y: list[np.ndarray] = []
        self.values: list[np.ndarray] = []
        self.unknown: Counter[str] = Counter()  # classes unknown to the model

    def add(self, raw: RawGraphs, values: np.ndarray) -> None:
        if self.card.regression:
            if raw.targets is not None and raw.targets.shape == values.shape:
                self.y.append(raw.targets)
                self.values.append(values)
        elif raw.classes is not None:
            words = raw.classes.words()
            codes = np.array([self.codes.get(word, -1) for word in words], np.int64)
            self.unknown.update(word for word in words if word not in self.codes)
            self.y.append(codes[codes >= 0])
            self.values.append(values[codes >= 0])

    def metrics(self) -> dict[str, Any] | None:
        """The metrics; graphs of classes unknown to the model are counted, but not scored."""
        if not sum(map(len, self.y)):
            return None
        y, values = np.concatenate(self.y), np.concatenate(self.values)
        if self.card.regression:
            return regression_metrics(y, values)
        metrics = {"classes": list(self.card.class_names)} | classification_metrics(y, values)
        return metrics | ({"unknown_classes": dict(self.unknown)} if self.unknown else {})


def unseen_message(table: str, counts: Counter[str]) -> str:
    """A message about labels unknown to the model."""
    shown = ", ".join(f"{name!r} ({count} ×)" for name, count in counts.most_common(5))
    more = f" and {len(counts) - 5} others" if len(counts) > 5 else ""
    return f"{table} {shown}{more} was not in the training data: the model ignores it"


def _add_counts(total: Unseen, found: Unseen) -> None:
    for table, counts in found.items():
        total.setdefault(table, Counter()).update(counts)
