"""Are distant nodes in the same cluster, and are they alike?

Two nodes are far apart if their distance is more than twice the number of convolutions of the pooling network, or if
no path joins them: no node is in the receptive field of both.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from diffpool.analysis.graph import Graph


def pair_measures(graph: Graph, s: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Measures of the pairs of nodes of a graph with the assignment s [n, k] and the clusters `labels` [n].

    `far`: the share of far pairs; `far_in_cluster`: their share among pairs in the same cluster; `far_ratio`: the
    second divided by the first. `distance` and `distance_in_cluster`: mean distance of connected pairs. `far_alike`:
    the mean squared difference of the neighborhoods of far pairs in the same cluster, divided by that of far pairs in
    different clusters; below 1, distant nodes of a cluster are alike. `far_features_alike`: the same for the features
    of the nodes only. `view_correlation`: between the distance of two neighborhoods and the distance of two rows of S.
    `split_clusters`: the share of used clusters whose nodes are not connected to each other within the cluster.
    `twin_difference`: the largest difference between the rows of S of two nodes that a GNN cannot tell apart;
    `far_twins`: the share of nodes that have such a twin far away.
    """
    rows = graph.sources
    other = rows[:, None] != np.arange(graph.size)[None]  # [sources, n]: two different nodes
    same = (labels[rows][:, None] == labels[None]) & other
    far = (graph.distances > 2 * graph.hops) & other
    measures = {"split_clusters": _split(graph, labels)}
    if not other.any():
        return measures
    measures["far"] = float(far[other].mean())
    near = np.isfinite(graph.distances) & other
    if near.any():
        measures["distance"] = float(graph.distances[near].mean())
    if same.any():
        measures["far_in_cluster"] = float(far[same].mean())
        if measures["far"] > 0:
            measures["far_ratio"] = measures["far_in_cluster"] / measures["far"]
        if (near & same).any():
            measures["distance_in_cluster"] = float(graph.distances[near & same].mean())
    views = _squared_distances(graph.view, rows)
    inside, outside = far & same, far & ~same
    if inside.any() and outside.any():
        features = _squared_distances(graph.view[:, : graph.x.shape[1]], rows)
        for name, values in (("far_alike", views), ("far_features_alike", features)):
            if (base := float(values[outside].mean())) > 0:
                measures[name] = float(values[inside].mean()) / base
    assignment_distances = np.sqrt(_squared_distances(s, rows)[other])
    view_distances = np.sqrt(views[other])
    if assignment_distances.std() > 1e-6 and view_distances.std() > 1e-6:
        measures["view_correlation"] = float(
            np.corrcoef(assignment_distances, view_distances)[0, 1]
        )
    twins = (graph.colors[rows][:, None] == graph.colors[None]) & other
    measures["far_twins"] = float((twins & far).any(1).mean())
    if twins.any():
        found = twins.any(1)
        twin = twins[found].argmax(1)  # the first one of each node
        measures["twin_difference"] = float(np.abs(s[rows[found]] - s[twin]).max())
    return measures


def _squared_distances(h: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """|hᵢ − hⱼ|² between the chosen rows and all rows: [rows, n]."""
    h = h.astype(np.float64)
    norms = (h**2).sum(1)
    return np.maximum(norms[rows][:, None] + norms[None] - 2 * h[rows] @ h.T, 0)


def _split(graph: Graph, labels: np.ndarray) -> float:
    """The share of used clusters whose nodes form more than one component."""
    links = graph.links.tocoo()
    kept = labels[links.row] == labels[links.col]
    ends = (links.row[kept], links.col[kept])
    within = csr_array((links.data[kept], ends), shape=links.shape)
    _, component = connected_components(within, directed=False)
    clusters = np.unique(np.stack([labels, component]), axis=1)[0]  # of each component
    return float((np.unique(clusters, return_counts=True)[1] > 1).mean())
