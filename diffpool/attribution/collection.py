"""Explain the predictions of a trained model for a collection of graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from diffpool.attribution.explanation import Explanation, LevelScores, first_choices, spread
from diffpool.attribution.gated import edge_targets
from diffpool.attribution.gradients import LevelGradients, Score, integrated_gradients
from diffpool.attribution.inputs import LevelInputs
from diffpool.attribution.names import METHODS, SPREADS
from diffpool.attribution.subgraphs import subgraph_outputs
from diffpool.data import RawGraphs
from diffpool.errors import ModelError, SettingError, did_you_mean
from diffpool.graphs import DenseGraphs
from diffpool.training import TrainedModel, as_trained_model

MAX_GRAPHS, MAX_NODES = 100, 20_000  # of a batch


def explain(
    model: Any,
    graphs: Any,
    *,
    method: str = "gradients",
    target: Any = None,
    spread: str = "soft",
) -> list[Explanation]:
    """The scores of the clusters, nodes and edges of every graph, for a class or target of a model.

    With `gradients`, a score is a part of the log-odds of the class, log p / (1 − p), or of the predicted number; the
    scores of nodes and edges of a level add up to the difference from an empty input. With `leave-out` and `keep`, it
    is a change of the probability, or of the number. Of an ensemble, the scores of input nodes and edges are the means
    over the members; clusters are those of its first member.

    Args:
        model: A fitted estimator, a `TrainedModel` or a model directory.
        graphs: Graphs in any form that the model can read.
        method: `gradients`, `leave-out` or `keep`.
        target: The class to explain, by name; for regression, the number of the target. By default the predicted
            class of each graph, or the first target.
        spread: How the scores of clusters are divided among the input nodes: `soft`, by the assignment matrix, or
            `first`, equally among the nodes whose first choice the cluster is.
    """
    trained = as_trained_model(model)
    return list(
        iter_explanations(
            trained, trained.read(graphs), method=method, target=target, spread=spread
        )
    )


def iter_explanations(
    model: TrainedModel,
    raw: RawGraphs,
    *,
    method: str = "gradients",
    target: Any = None,
    spread: str = "soft",
    numbers: Sequence[int] | None = None,
) -> Iterator[Explanation]:
    """`explain`, in batches: an explanation for each graph, in order; with `numbers`, these count the graphs."""
    check_method(method, spread)
    check_model(model, method)
    column = None if target is None else target_column(model, target)
    start = 0
    while start < len(raw):
        stop, nodes = start, 0
        while stop < min(len(raw), start + MAX_GRAPHS) and nodes <= MAX_NODES:
            nodes += int(raw.sizes[stop])
            stop += 1
        counted = range(start, stop) if numbers is None else numbers[start:stop]
        batch = _Batch(model, raw[start:stop], column, spread, counted)
        yield from batch.gradients() if method == "gradients" else batch.units(method)
        start = stop


def check_method(method: str, spread: str) -> None:
    """Raise an error unless the method and the way to spread scores exist."""
    if method not in METHODS:
        hint = did_you_mean(method, METHODS)
        raise SettingError(f"expected method to be {_words(METHODS)}, got {method!r}{hint}")
    if spread not in SPREADS:
        raise SettingError(f"expected spread to be {_words(SPREADS)}, got {spread!r}")


def _words(names: Any) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}"


def check_model(model: TrainedModel, method: str) -> None:
    """Raise an error for a model that cannot be explained with this method."""
    for part in model.card.parts:
        a = part.architecture
        if a.wants_preparation:
            raise ModelError(
                f"expected a model that computes everything from the graph, got {model.card.method} with precomputed "
                "structures, which have no gradient: train diffpool or graphsage"
            )
        if "node-index" in (*a.order, *a.last_order, *a.assignment_order):
            raise ModelError(
                "expected a model whose prediction depends on the graph alone, got one with node-index normalization, "
                "which mixes the graphs of a batch: train with the preset paper"
            )
    if method != "gradients" and model.card.architecture.poolings == 0:
        raise ModelError(
            f"expected a model with pooling for the method {method}, got {model.card.method} without clusters: "
            "use the method gradients"
        )


def target_column(model: TrainedModel, target: Any) -> int:
    """The column of the model's outputs for the class with this name, or the number of a regression target."""
    card = model.card
    if card.regression:
        if isinstance(target, int | np.integer) and 0 <= target < card.num_outputs:
            return int(target)
        raise SettingError(
            f"expected the number of a target from 0 to {card.num_outputs - 1}, got {target!r}"
        )
    names = list(card.class_names)
    for found in (names, [str(name) for name in names]):
        if target in found:
            return found.index(target)
    shown = ", ".join(map(str, names[:10])) + (", …" if len(names) > 10 else "")
    hint = did_you_mean(str(target), map(str, names))
    raise SettingError(f"expected a class of the model ({shown}), got {target!r}{hint}")


class _Batch:
    """The explanations of one batch of graphs."""

    def __init__(
        self,
        model: TrainedModel,
        raw: RawGraphs,
        column: int | None,
        spread: str,
        numbers: Sequence[int],
    ):
        self.model, self.spread, self.numbers = model, spread, numbers
        self.graphs, self.x = model.inputs(raw)
        self.outputs = model.outputs_of(self.graphs, self.x)  # [B, K]
        bad = ~np.isfinite(self.outputs).all(1)
        if bad.any():
            raise ModelError(
                f"{raw.name}: the output of the model for graph {numbers[int(bad.argmax())]} (counted from 0) is not a "
                "finite number: look for huge values in its features, or train the model again"
            )
        if column is not None:
            self.columns = np.full(len(raw), column)
        elif model.card.regression:
            self.columns = np.zeros(len(raw), np.int64)
        else:
            self.columns = self.outputs.argmax(1)
        self.members = model.members
        self.hierarchy = LevelInputs(self.members[0].parts[0], self.graphs, self.x)

    def gradients(self) -> Iterator[Explanation]:
        """Integrated gradients of every member."""
        weights = self.model.weights
        score = explained_score(self.model, self.columns)
        found: list[list[list[_Found]]] = []  # of each member, graph and level
        for number, member in enumerate(self.members):
            scored = [
                integrated_gradients(member.parts[0], self.graphs, self.x, score, level)
                for level in range(1 if number else len(self.hierarchy))
            ]
            found.append([[_of_graph(own, g) for own in scored] for g in range(len(self.graphs))])
        for g in range(len(self.graphs)):
            levels = list(found[0][g])
            nodes, edge_scores, total = (
                sum(
                    weight * getattr(one[g][0], name)
                    for weight, one in zip(weights, found, strict=True)
                )
                for name in ("nodes", "edge_scores", "total")
            )
            levels[0] = _Found(nodes, levels[0].edges, edge_scores, total)
            yield self._explanation(g, "gradients", levels)

    def units(self, method: str) -> Iterator[Explanation]:
        """The outputs with each cluster left out, or kept alone."""
        sizes = self.graphs.layout.sizes.tolist()
        numbers: list[int] = []
        keep: list[np.ndarray] = []
        places: list[tuple[int, int, int]] = []  # graph, level, cluster
        chosen = [self._assignments(g) for g in range(len(sizes))]
        for g in range(len(sizes)):
            for level, first in enumerate(self._members(g), 1):
                for cluster in np.unique(first).tolist():
                    members = first == cluster
                    keep.append(members if method == "keep" else ~members)
                    numbers.append(g)
                    places.append((g, level, cluster))
        outputs = subgraph_outputs(self.model, self.graphs, self.x, numbers, keep)
        scores = [[np.zeros(s.shape[1]) for s in assignments] for assignments in chosen]
        if method == "keep":
            empty = [np.zeros(size, bool) for size in sizes]
            nothing = subgraph_outputs(self.model, self.graphs, self.x, range(len(sizes)), empty)
        for (g, level, cluster), row in zip(places, outputs, strict=True):
            column = self.columns[g]
            value = (
                row[column] - nothing[g, column]
                if method == "keep"
                else self.outputs[g, column] - row[column]
            )
            scores[g][level - 1][cluster] = value
        none = np.zeros((2, 0), np.int64)
        for g, found in enumerate(scores):
            levels = [
                _Found(
                    spread(found[0], chosen[g][0], self._members(g)[0], self.spread),
                    none,
                    np.zeros(0),
                )
            ]
            levels += [_Found(values, none, np.zeros(0)) for values in found]
            yield self._explanation(g, method, levels)

    def _assignments(self, g: int) -> list[np.ndarray]:
        """The assignment of the input nodes of a graph after each pooling, S₁, S₁S₂, …: [n, k] each."""
        found: list[np.ndarray] = []
        for s in self._poolings(g):
            found.append(found[-1] @ s if found else s)
        return found

    def _members(self, g: int) -> list[np.ndarray]:
        return first_choices(self._poolings(g))

    def _poolings(self, g: int) -> list[np.ndarray]:
        """S₁, S₂, … of a graph."""
        return [s.of_graph(g).double().cpu().numpy() for s in self.hierarchy.assignments]

    def _explanation(self, g: int, method: str, found: list[_Found]) -> Explanation:
        card, column = self.model.card, int(self.columns[g])
        assignments, clusters, levels = self._assignments(g), self._members(g), []
        for number, own in enumerate(found):
            if number == 0:
                members, inputs = np.arange(len(own.nodes)), own.nodes
            else:
                members = clusters[number - 1]
                inputs = spread(own.nodes, assignments[number - 1], members, self.spread)
            edges, edge_scores = own.edges, own.edge_scores
            if not card.directed:
                edges, edge_scores = _pairs(edges, edge_scores)
            gap = 0.0
            if own.total is not None:
                gap = float(own.nodes.sum() + edge_scores.sum() - own.total)
            levels.append(
                LevelScores(own.nodes, edges, edge_scores, inputs, members, own.total, gap)
            )
        return Explanation(
            graph=self.numbers[g],
            method=method,
            target=column,
            target_name=None if card.regression else card.class_names[column],
            output=float(self.outputs[g, column]),
            levels=tuple(levels),
        )


class _Found:
    """The scores of one level of one graph, with directed edges."""

    def __init__(
        self,
        nodes: np.ndarray,
        edges: np.ndarray,
        edge_scores: np.ndarray,
        total: float | None = None,
    ):
        self.nodes, self.edges, self.edge_scores, self.total = nodes, edges, edge_scores, total


def explained_score(model: TrainedModel, columns: np.ndarray) -> Score:
    """The log-odds of a class, or a target in its units, of each graph; `columns` [B] are those of the outputs."""
    card = model.card
    index = torch.from_numpy(columns)

    def score(logits: Tensor, numbers: Tensor) -> Tensor:
        own = index.to(logits.device)[numbers][:, None]
        chosen = logits.gather(1, own).squeeze(1)
        if card.regression:
            sd, mean = (logits.new_tensor(v)[own[:, 0]] for v in (card.target_sd, card.target_mean))
            return chosen * sd + mean
        if logits.shape[1] == 1:
            return chosen
        others = torch.ones_like(logits, dtype=torch.bool).scatter(1, own, False)
        return chosen - logits.masked_fill(~others, -torch.inf).logsumexp(1)

    return score


def _of_graph(own: LevelGradients, g: int) -> _Found:
    """The scores of one graph of the batch."""
    graphs = own.graphs
    start, size = int(graphs.layout.starts[g]), int(graphs.layout.sizes[g])
    nodes = own.nodes[start : start + size].cpu().numpy()
    if isinstance(graphs, DenseGraphs):
        scores = own.edges[start : start + size, :size]
        target, source = torch.nonzero(graphs.block(g), as_tuple=True)
        edge_scores = scores[target, source]
    else:
        first, last = graphs.adj.indptr[start], graphs.adj.indptr[start + size]
        source = graphs.adj.indices[first:last] - start
        target = edge_targets(graphs)[first:last] - start
        edge_scores = own.edges[first:last]
    edges = torch.stack([source, target]).cpu().numpy()
    return _Found(nodes, edges, edge_scores.cpu().numpy(), float(own.total[g]))


def _pairs(edges: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each pair of nodes once, with the sum of the scores of both directions."""
    if not edges.size:
        return edges, scores
    pairs, index = np.unique(np.sort(edges, axis=0), axis=1, return_inverse=True)
    return pairs, np.bincount(index.reshape(-1), scores, minlength=pairs.shape[1])
