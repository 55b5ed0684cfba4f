"""What the page shows of a model and its graphs: an overview of all graphs, and the details of each, as JSON values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from diffpool.attribution import Explanation, first_choices
from diffpool.data import RawGraphs
from diffpool.data.molecules import ATOM_LABELS
from diffpool.errors import ModelError, cut
from diffpool.explorer.effects import NONE, add_effects, explanations
from diffpool.explorer.layout import positions
from diffpool.explorer.levels import Json, levels, significant
from diffpool.nn import Prediction
from diffpool.text import printable
from diffpool.training import TrainedModel
from diffpool.viz.hierarchy import Ordered
from diffpool.viz.molecules import is_molecules, molecule

MAX_FEATURES = 32  # node attributes on the page
MAX_TEXT = 200  # characters of a name, or of a value in an additional column
MAX_COLUMNS = 12  # additional columns of the file


@dataclass
class Collection:
    """The overview, filled while the details of the graphs are drawn one by one by `details`."""

    model: TrainedModel
    raw: RawGraphs  # the graphs on the page, with the attributes that the model reads
    max_nodes: int  # of a graph that is drawn
    effects: str = NONE  # the method of attribution
    watch: Callable[[int], None] = lambda count: None
    embedding: list[np.ndarray] = field(default_factory=list)  # [D] of each graph
    used: list[list[int]] = field(default_factory=list)  # clusters of each graph, for each pooling
    allowed: list[list[int]] = field(default_factory=list)
    outputs: np.ndarray | None = None  # [B, K]
    places: dict[int, np.ndarray] = field(default_factory=dict)  # of the nodes of a graph: [n, 2]
    keeps_places: bool = False  # if a graph is drawn several times

    def details(self) -> Iterator[Json | None]:
        """The details of every graph; None for one that is too large to draw."""
        self.outputs = self.model.outputs(self.raw).values
        raw = self.raw if self.model.card.directed else self.raw.undirected()
        self.effects, explained = explanations(self.model, self.raw, self.effects)
        number = 0
        for prediction in self.model.predictions(self.raw):
            vectors = prediction.embedding.cpu().numpy()
            for index, vector in enumerate(vectors):
                self.embedding.append(vector)
                self.allowed.append([int(s.layout.sizes[index]) for s in prediction.graphs[1:]])
                yield self._graph(raw, prediction, index, number, next(explained))
                number += 1
                self.watch(1)

    def _graph(
        self,
        raw: RawGraphs,
        prediction: Prediction,
        index: int,
        number: int,
        explanation: Explanation | None,
    ) -> Json | None:
        assignments, coarser = matrices(prediction, index, number)
        if not self.is_drawn(number):
            self.used.append(used_clusters(assignments))
            return None
        graph, clusters = self.draw(raw, number, assignments, coarser)
        if explanation is not None:
            add_effects(graph["levels"], clusters, explanation)
        self.used.append([len(kept) for kept in clusters.columns[1:]])
        return graph

    def is_drawn(self, number: int) -> bool:
        return 0 < int(self.raw.sizes[number]) <= self.max_nodes

    def draw(
        self,
        raw: RawGraphs,
        number: int,
        assignments: list[np.ndarray],
        coarser: list[np.ndarray],
    ) -> tuple[Json, Ordered]:
        """The details of a graph, and the clusters that they show."""
        nodes = int(raw.sizes[number])
        ends, edges = edges_of(raw, number)
        place, graph = self.places.get(number), self._tables(raw, number, edges)
        if is_molecules(raw):
            drawn = molecule(raw, number)
            place = drawn.positions
            graph["order"] = (2 * drawn.orders[ends[:, 0], ends[:, 1]]).astype(int).tolist()
        if place is None:
            place = positions(nodes, ends)
        if self.keeps_places:
            self.places[number] = place
        found, clusters = levels(nodes, ends, coarser, assignments, place)
        return {"levels": found} | graph, clusters

    def _tables(self, raw: RawGraphs, number: int, edges: np.ndarray) -> Json:
        """Labels, attributes and additional columns of a graph, and the probabilities of all classes."""
        assert self.outputs is not None
        start = int(raw.starts[number])
        nodes = slice(start, start + int(raw.sizes[number]))
        tables: Json = {"output": significant(self.outputs[number])}
        if raw.node_labels is not None:
            tables["labels"] = raw.node_labels.codes[nodes].T.tolist()
        if raw.node_attributes is not None and raw.node_attributes.shape[1]:
            tables["attributes"] = significant(raw.node_attributes[nodes, :MAX_FEATURES])
        if raw.edge_weights is not None:
            tables["weight"] = significant(raw.edge_weights[edges])
        if raw.edge_labels is not None:
            tables["edgeLabel"] = raw.edge_labels.codes[edges, 0].tolist()
        shown = [name for name in raw.columns if name not in ("id", "label")][:MAX_COLUMNS]
        values = [(name, raw.columns[name][number]) for name in shown]
        if values:
            tables["columns"] = [[text(n), text(v)] for n, v in values if v is not None]
        return tables

    def overview(self) -> Json:
        """The values of all graphs that the list and the views of the data set show; after `details`."""
        raw, card, outputs = self.raw, self.model.card, self.outputs
        assert outputs is not None
        ids = raw.columns.get("id")
        edges = raw.edge_counts
        return {
            "model": {
                "method": card.method,
                "dataset": text(card.dataset),
                "members": card.members,
                "poolings": card.architecture.poolings,
            },
            "data": text(raw.name),
            "classes": [text(name) for name in card.class_names],
            "ids": None if ids is None else ["" if v is None else text(v) for v in ids],
            "nodes": raw.sizes.tolist(),
            "edges": (edges if card.directed else edges // 2).tolist(),
            "drawn": [self.is_drawn(number) for number in range(len(raw))],
            "used": self.used,
            "allowed": self.allowed,
            "molecules": is_molecules(raw),
            "effects": self.effects,
            **self._names(),
            **self._answers(outputs),
        }

    def _names(self) -> Json:
        """The names of the columns of the tables, and of their categories."""
        raw, names = self.raw, self.raw.names
        found: Json = {"labels": [], "attributes": [], "edgeLabels": []}
        if raw.node_labels is not None:
            titles = names.node_labels if names and names.node_labels else ()
            if is_molecules(raw):
                titles = tuple(ATOM_LABELS)
            for index, words in enumerate(raw.node_labels.names):
                plain = "label" if len(raw.node_labels.names) == 1 else f"label {index + 1}"
                title = titles[index] if index < len(titles) else plain
                found["labels"].append({"name": text(title), "words": [text(w) for w in words]})
        if raw.node_attributes is not None:
            titles = names.node_attributes if names and names.node_attributes else ()
            for index in range(min(raw.node_attributes.shape[1], MAX_FEATURES)):
                title = titles[index] if index < len(titles) else f"attribute {index + 1}"
                found["attributes"].append(text(title))
            found["allAttributes"] = raw.node_attributes.shape[1]
        if raw.edge_labels is not None:
            found["edgeLabels"] = [text(word) for word in raw.edge_labels.names[0]]
        return found

    def _answers(self, outputs: np.ndarray) -> Json:
        """What the model predicts, and what is true: codes of classes, -1 if unknown; or targets."""
        raw, card = self.raw, self.model.card
        if card.regression:
            fits = raw.targets is not None and raw.targets.shape == outputs.shape
            truth = significant(raw.targets) if fits and raw.targets is not None else None
            return {"guess": significant(outputs), "truth": truth, "confidence": None}
        codes = {str(name): code for code, name in enumerate(card.class_names)}
        truth = None
        if raw.classes is not None:
            truth = [codes.get(word, -1) for word in raw.classes.words()]
        guess, sure = outputs.argmax(1).tolist(), significant(outputs.max(1))
        return {"guess": guess, "truth": truth, "confidence": sure}


def matrices(
    prediction: Prediction, index: int, number: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The assignment matrices of a graph, and the adjacency matrices of its coarser levels."""
    assignments = [s.of_graph(index).cpu().double().numpy() for s in prediction.assignments]
    if not all(np.isfinite(s).all() for s in assignments):
        raise ModelError(
            f"expected finite cluster assignments, got NaN or infinity for graph {number}: the model may have "
            "diverged; train it with a lower learning rate"
        )
    return assignments, [g.block(index).cpu().double().numpy() for g in prediction.graphs[1:]]


def text(value: Any) -> str:
    """A name or value as text of a limited length; control characters are escapes."""
    return cut(printable(str(value)), MAX_TEXT)


def used_clusters(assignments: list[np.ndarray]) -> list[int]:
    """The number of clusters of each pooling that are the first choice of some node."""
    return [len(np.unique(clusters)) for clusters in first_choices(assignments)]


def edges_of(raw: RawGraphs, graph: int) -> tuple[np.ndarray, np.ndarray]:
    """The pairs i < j of adjacent nodes of one graph, sorted: [E, 2]; and an edge of `raw` for each: [E]."""
    start, size = int(raw.starts[graph]), int(raw.sizes[graph])
    indptr = raw.indptr[start : start + size + 1]
    source = raw.source[indptr[0] : indptr[-1]] - start
    target = np.repeat(np.arange(size), np.diff(indptr))
    number = np.arange(indptr[0], indptr[-1])
    kept = source > target if not raw.directed else source != target
    low, high = np.minimum(source, target)[kept], np.maximum(source, target)[kept]
    _, first = np.unique(low * size + high, return_index=True)
    return np.stack([low[first], high[first]], 1), number[kept][first]
