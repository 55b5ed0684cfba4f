"""The graphs to draw, from a model and graphs in any form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from diffpool.data import GraphBatch, GraphDataset, RawGraphs
from diffpool.errors import DataError, ModelError, SettingError, cut
from diffpool.nn import GraphClassifier, Prediction
from diffpool.training import TrainedModel, as_trained_model
from diffpool.viz.hierarchy import Level, hierarchy
from diffpool.viz.molecules import Molecule, is_molecules, molecule

MAX_NODES = 2000  # in a drawing
LONGEST = 24  # characters of the name of a class


@dataclass(frozen=True, eq=False)
class Subject:
    """A graph to draw, at every level."""

    number: int  # in the data
    levels: list[Level]
    caption: str  # its class or target, and what the model predicts; empty if unknown
    molecule: Molecule | None = None
    labels: np.ndarray | None = None  # [n]: codes of the node labels
    label_names: tuple[str, ...] = ()


def subjects(
    model: Any, graphs: Any, numbers: Sequence[int], class_names: Sequence[Any] = ()
) -> list[Subject]:
    """The graphs with these numbers, as `model` pools them; see `draw_clusters` for the forms of both."""
    model = _model(model)
    if isinstance(graphs, GraphDataset):
        _check_numbers(numbers, len(graphs))
        class_names = class_names or graphs.class_names
        found = _of_batch(model, graphs.batch(list(numbers)), range(len(numbers)), class_names)
        return [
            replace(subject, number=number) for subject, number in zip(found, numbers, strict=True)
        ]
    if isinstance(graphs, GraphBatch):
        _check_numbers(numbers, len(graphs))
        return _of_batch(model, graphs, numbers, class_names)
    if isinstance(model, GraphClassifier):
        raise ModelError(
            "expected a GraphDataset or GraphBatch to draw with a network, got "
            f"{type(graphs).__name__}: give the estimator, the TrainedModel or the model directory instead"
        )
    raw = model.read(graphs)
    _check_numbers(numbers, len(raw))
    return list(_of_raw(model, raw, numbers))


def _model(model: Any) -> TrainedModel | GraphClassifier:
    """The model in one of the forms that `draw_clusters` accepts."""
    return model if isinstance(model, GraphClassifier) else as_trained_model(model)


def _check_numbers(numbers: Sequence[int], count: int) -> None:
    if not numbers:
        raise SettingError("expected at least one graph to draw, got none: name one, such as 0")
    for number in numbers:
        if not 0 <= number < count:
            counted = f"{count} graphs, numbered 0 to {count - 1}" if count != 1 else "1 graph, 0"
            raise SettingError(f"expected the number of a graph, got {number}: there are {counted}")


def _of_batch(
    model: TrainedModel | GraphClassifier,
    batch: GraphBatch,
    numbers: Sequence[int],
    class_names: Sequence[Any],
) -> list[Subject]:
    network = model.members[0].parts[0] if isinstance(model, TrainedModel) else model
    device = next(network.parameters()).device
    with torch.no_grad():
        prediction = network.eval()(batch.graphs.to(device), batch.x.to(device))
    found = []
    for number in numbers:
        caption = ""
        if class_names:  # none for regression
            truth = class_names[int(batch.y[number])]
            caption = _classes(truth, class_names[int(prediction.logits[number].argmax())])
        found.append(Subject(number, _levels(prediction, number, number), caption))
    return found


def _of_raw(model: TrainedModel, raw: RawGraphs, numbers: Sequence[int]) -> Iterator[Subject]:
    for number in numbers:
        check_size(int(raw.sizes[number]), number)
        graph = raw[number : number + 1]
        prediction = next(model.predictions(graph))
        drawn, labels = None, None
        names: tuple[str, ...] = ()
        if is_molecules(graph):
            drawn = molecule(graph, 0)
        elif graph.node_labels is not None:
            labels, names = graph.node_labels.codes[:, 0], graph.node_labels.names[0]
        caption = _caption(model, graph)
        levels = _levels(prediction, 0, number)
        yield Subject(number, levels, caption, drawn, labels, names)


def _caption(model: TrainedModel, raw: RawGraphs) -> str:
    """The class or target of a graph, and what the model predicts."""
    guess = model.predict(raw)[0]
    if not model.card.regression:
        return _classes(None if raw.classes is None else raw.classes.words()[0], guess)
    numbers = ", ".join(f"{value:.3g}" for value in np.ravel(guess))
    if raw.targets is None:
        return f"predicted {numbers}"
    return f"target {', '.join(f'{value:.3g}' for value in raw.targets[0])}, predicted {numbers}"


def _classes(truth: Any, guess: Any) -> str:
    guess = cut(str(guess), LONGEST)
    return (
        f"predicted {guess}"
        if truth is None
        else f"class {cut(str(truth), LONGEST)}, predicted {guess}"
    )


def check_size(nodes: int, number: int) -> None:
    """Raise an error unless a graph with this number of nodes can be drawn."""
    if not 0 < nodes <= MAX_NODES:
        raise DataError(
            f"expected a graph of 1 to {MAX_NODES:,} nodes to draw, got graph {number} with {nodes:,}: "
            "choose another graph"
        )


def _levels(prediction: Prediction, graph: int, number: int) -> list[Level]:
    check_size(int(prediction.graphs[0].layout.sizes[graph]), number)
    adjacency = [level.block(graph).cpu().double().numpy() for level in prediction.graphs]
    assignments = [s.of_graph(graph).cpu().double().numpy() for s in prediction.assignments]
    if not all(np.isfinite(values).all() for values in (*adjacency, *assignments)):
        raise ModelError(
            f"expected finite cluster assignments, got NaN or infinity for graph {number}: the model may have "
            "diverged; train it with a lower learning rate"
        )
    return hierarchy(adjacency, assignments)
