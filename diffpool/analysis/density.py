"""Do dense subgraphs collapse into few clusters, and do sparse ones spread over more?

A node is in a dense part if at least half of the pairs of its neighbors are adjacent, as in a clique, and in a sparse
part if no pair is: its surroundings are a path, a tree or a long cycle. The regions are the connected components of
these nodes.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.special import gammaln

from diffpool.analysis.graph import Graph

DENSE = 0.5  # local clustering coefficient
MIN_REGION = 3  # nodes


def contraction(graph: Graph, labels: np.ndarray) -> dict[str, float]:
    """How often the two ends of an edge are in the same cluster.

    The overlap of an edge is the number of common neighbors of its ends, as a share of the largest possible number: 1
    in a clique, 0 in a tree. `same_dense`, `same_sparse`: the share of edges within one cluster, among edges with an
    overlap of at least 1/2 and of 0. `same_edge`, `same_pair`: among all edges and all pairs of nodes.
    `overlap_correlation`: between the overlap of an edge and being within one cluster.
    """
    start, end = graph.edges
    counts = np.bincount(labels).astype(float)
    pairs = graph.size * (graph.size - 1)
    measures = {} if not pairs else {"same_pair": float((counts * (counts - 1)).sum() / pairs)}
    if not len(start):
        return measures
    same = (labels[start] == labels[end]).astype(float)
    overlap = edge_overlap(graph)
    measures["same_edge"] = float(same.mean())
    for name, chosen in (("same_dense", overlap >= DENSE), ("same_sparse", overlap == 0)):
        if chosen.any():
            measures[name] = float(same[chosen].mean())
    if same.std() > 0 and overlap.std() > 1e-9:
        measures["overlap_correlation"] = float(np.corrcoef(same, overlap)[0, 1])
    return measures


def edge_overlap(graph: Graph) -> np.ndarray:
    """The common neighbors of both ends of each edge, as a share of their largest possible number: [E]."""
    start, end = graph.edges
    common = np.asarray(graph.shared_neighbors[start, end]).ravel() if len(start) else np.zeros(0)
    possible = np.minimum(graph.degrees[start], graph.degrees[end]) - 1
    return common / np.maximum(possible, 1)


def region_spread(graph: Graph, labels: np.ndarray) -> dict[str, float]:
    """Over how many clusters dense and sparse regions spread, compared with equally many random nodes.

    For the regions of each kind: `KIND_nodes`, their share of the nodes of the graph; `KIND_per_node`, distinct
    clusters for each node; `KIND_spread`, distinct clusters divided by the expected number for equally many random
    nodes of the same graph, so 1 is chance and less is a collapse; `KIND_adjacent`, the share of adjacent pairs among
    the pairs of nodes of a region in the same cluster. In a graph that has both, `dense_collapses_more` is 1 if the
    dense regions have the smaller spread, 1/2 if both are equal.
    """
    counts = np.bincount(labels)
    clustering = graph.clustering
    spread: dict[str, float] = {}
    measures: dict[str, float] = {}
    for kind, chosen in (("dense", clustering >= DENSE), ("sparse", clustering == 0)):
        regions = [region for region in _regions(graph, chosen) if len(region) >= MIN_REGION]
        nodes = sum(map(len, regions))
        measures[f"{kind}_nodes"] = nodes / graph.size
        if not regions:
            continue
        distinct = sum(len(np.unique(labels[region])) for region in regions)
        expected = sum(expected_distinct(counts, len(region)) for region in regions)
        measures[f"{kind}_per_node"] = distinct / nodes
        measures[f"{kind}_spread"] = spread[kind] = distinct / expected
        if pairs := sum(_pairs(labels[region]) for region in regions):
            measures[f"{kind}_adjacent"] = _edges_within(graph, labels, regions) / pairs
    if len(spread) == 2:
        difference = spread["sparse"] - spread["dense"]
        equal = abs(difference) < 1e-9
        measures["dense_collapses_more"] = 0.5 if equal else float(difference > 0)
    return measures


def expected_distinct(counts: np.ndarray, size: int) -> float:
    """The expected number of distinct clusters among `size` random nodes of a graph with clusters of these sizes."""
    nodes, counts = int(counts.sum()), counts[counts > 0]
    without = nodes - counts  # nodes of all other clusters
    possible = without >= size
    left = without[possible]
    # C(left, size) / C(nodes, size): the probability that none of the nodes is in the cluster
    logs = gammaln(left + 1) - gammaln(left - size + 1)
    logs -= gammaln(nodes + 1) - gammaln(nodes - size + 1)
    return float(len(counts) - np.exp(logs).sum())


def _pairs(labels: np.ndarray) -> float:
    """The number of pairs of nodes in the same cluster."""
    counts = np.bincount(labels)
    return float((counts * (counts - 1)).sum() / 2)


def _edges_within(graph: Graph, labels: np.ndarray, regions: list[np.ndarray]) -> int:
    """The number of edges between two nodes of the same region and the same cluster."""
    region_of = np.full(graph.size, -1)
    for number, region in enumerate(regions):
        region_of[region] = number
    start, end = graph.edges
    inside = (region_of[start] == region_of[end]) & (region_of[start] >= 0)
    return int((inside & (labels[start] == labels[end])).sum())


def diameters(graph: Graph) -> dict[str, float]:
    """The mean diameter of the dense and the sparse regions: `dense_diameter`, `sparse_diameter`.

    Distances are those in the graph, between the nodes at which pairs start and all others.
    """
    measures = {}
    row_of = {node: row for row, node in enumerate(graph.sources.tolist())}
    clustering = graph.clustering
    for kind, chosen in (("dense", clustering >= DENSE), ("sparse", clustering == 0)):
        found = []
        for region in _regions(graph, chosen):
            rows = [row_of[node] for node in region.tolist() if node in row_of]
            if len(region) >= MIN_REGION and rows:
                found.append(float(graph.distances[rows][:, region].max()))
        if found:
            measures[f"{kind}_diameter"] = float(np.mean(found))
    return measures


def _regions(graph: Graph, chosen: np.ndarray) -> list[np.ndarray]:
    """The connected components of the chosen nodes."""
    nodes = np.flatnonzero(chosen)
    if not len(nodes):
        return []
    count, part = connected_components(graph.links[nodes][:, nodes], directed=False)
    order = np.argsort(part, kind="stable")
    return np.split(nodes[order], np.cumsum(np.bincount(part, minlength=count))[:-1])
