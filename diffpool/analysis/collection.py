"""The analysis of a trained model on a collection of graphs: means of the measures over the graphs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from diffpool.analysis.graph import graphs_of
from diffpool.analysis.measures import Measures, measure, structure
from diffpool.data import RawGraphs
from diffpool.errors import DataError, ModelError
from diffpool.training import TrainedModel

PART = 100  # graphs whose assignments are in memory at a time


@dataclass
class Summary:
    """The mean and standard deviation of each measure over the graphs for which it is defined."""

    sums: dict[str, tuple[int, float, float]] = field(default_factory=dict)  # n, Σv, Σv²

    def add(self, measures: Measures) -> None:
        for name, value in measures.items():
            count, total, squares = self.sums.get(name, (0, 0.0, 0.0))
            self.sums[name] = count + 1, total + value, squares + value * value

    def mean(self, name: str) -> float | None:
        """The mean of a measure; None if it is undefined for all graphs."""
        count, total, _ = self.sums.get(name, (0, 0.0, 0.0))
        return total / count if count else None

    def count(self, name: str) -> int:
        """The number of graphs for which a measure is defined."""
        return self.sums.get(name, (0, 0.0, 0.0))[0]

    def to_json(self) -> dict[str, dict[str, float]]:
        facts = {}
        for name, (count, total, squares) in self.sums.items():
            mean = total / count
            sd = math.sqrt(max(squares / count - mean * mean, 0.0))
            facts[name] = {"mean": mean, "sd": sd, "graphs": count}
        return facts


@dataclass(frozen=True)
class Analysis:
    """The measures of the clusters of a model on a collection of graphs."""

    method: str
    trained_on: str
    graphs: int
    structure: Summary  # measures of the graphs, which do not depend on the model
    poolings: tuple[Summary, ...]  # measures of the clusters of the input nodes after each pooling

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "trained_on": self.trained_on,
            "graphs": self.graphs,
            "structure": self.structure.to_json(),
            "poolings": [summary.to_json() for summary in self.poolings],
        }


def analyze(
    model: TrainedModel,
    graphs: RawGraphs | Iterable[RawGraphs],
    communities: np.ndarray | None = None,
    watch: Callable[[int], None] = lambda count: None,
) -> Analysis:
    """Analyze the clusters of a model; of an ensemble, those of its first member.

    `graphs` may be the parts of a collection that does not fit into memory. `communities` [N]: the planted community of
    every node, if they are known. `watch` is called with the number of graphs analyzed so far. Graphs without nodes are
    skipped.
    """
    architecture = model.card.parts[0].architecture
    poolings = architecture.poolings
    if poolings == 0:
        raise ModelError(
            f"expected a model with pooling, got {model.card.method}, which has no clusters: "
            "train a method with pooling, such as diffpool"
        )
    hops = architecture.assignment_layers or architecture.layers_before
    about, summaries, count, first = Summary(), tuple(Summary() for _ in range(poolings)), 0, 0
    for raw in _small_parts([graphs] if isinstance(graphs, RawGraphs) else graphs):
        raw = model.read(raw)
        nodes = slice(first, first + raw.num_nodes)
        first = nodes.stop
        planted = None if communities is None else communities[nodes]
        assignments = model.clusters(raw)
        assert model.card.feature_map is not None  # else there are no clusters of raw graphs
        x = model.card.feature_map.apply(raw if model.card.directed else raw.undirected()).x
        for graph, matrices in zip(graphs_of(raw, x, hops, planted), assignments, strict=True):
            if graph.size:
                about.add(structure(graph))
                for summary, measures in zip(summaries, measure(graph, matrices), strict=True):
                    summary.add(measures)
                count += 1
            watch(1)
    if not count:
        raise DataError("expected at least one graph with nodes, got none: add graphs")
    return Analysis(model.card.method, model.card.dataset, count, about, summaries)


def _small_parts(parts: Iterable[RawGraphs]) -> Iterable[RawGraphs]:
    for raw in parts:
        for start in range(0, len(raw), PART):
            yield raw[start : start + PART]
