"""All measures of the assignments of one graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diffpool.analysis.communities import agreement, modularity
from diffpool.analysis.density import contraction, diameters, region_spread
from diffpool.analysis.distance import pair_measures
from diffpool.analysis.graph import Graph
from diffpool.analysis.usage import composed, usage_measures
from diffpool.analysis.views import identifiability

Measures = dict[str, float]  # by name; a measure that is undefined for a graph is left out


def measure(graph: Graph, assignments: Sequence[np.ndarray]) -> list[Measures]:
    """The measures of each pooling, given one assignment matrix for each: [n, k₁], [k₁, k₂], …

    From the second pooling on, they are measures of S₁S₂, …, the assignment of the input nodes.
    """
    found = []
    for s in composed(assignments):
        labels = s.argmax(1)
        found.append(
            usage_measures(s)
            | communities(graph, labels)
            | region_spread(graph, labels)
            | contraction(graph, labels)
            | pair_measures(graph, s, labels)
        )
    return found


def communities(graph: Graph, labels: np.ndarray) -> Measures:
    """Agreement with planted and Louvain communities, and the modularity of clusters and of Louvain communities."""
    found: Measures = {}
    if graph.planted is not None:
        found |= agreement(labels, graph.planted, "planted")
    if (value := modularity(graph.adjacency, labels)) is not None:
        found["modularity"] = value
    if graph.louvain is not None:
        found |= agreement(labels, graph.louvain, "louvain")
        found["louvain_communities"] = float(graph.louvain.max() + 1)
        if (best := modularity(graph.adjacency, graph.louvain)) is not None:
            found["louvain_modularity"] = best
    return found


def structure(graph: Graph) -> Measures:
    """The measures of a graph that do not depend on a model."""
    return identifiability(graph.adjacency, graph.x, graph.hops) | diameters(graph)
