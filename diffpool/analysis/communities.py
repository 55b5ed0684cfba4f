"""Do clusters agree with communities? Normalized mutual information, adjusted Rand index, modularity."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array


def agreement(labels: np.ndarray, communities: np.ndarray, name: str) -> dict[str, float]:
    """NMI and adjusted Rand index of clusters and communities [n], as `NAME_nmi` and `NAME_ari`.

    NMI is above 0 even for random clusters: `NAME_nmi_chance` is that of the same clusters with shuffled nodes. All
    are undefined, and left out, if there is only one community.
    """
    if len(np.unique(communities)) < 2:
        return {}
    table = contingency(labels, communities)
    shuffled = np.random.default_rng(0).permutation(labels)
    return {
        f"{name}_nmi": mutual_information(table),
        f"{name}_nmi_chance": mutual_information(contingency(shuffled, communities)),
        f"{name}_ari": rand_index(table),
    }


def contingency(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The number of nodes in each pair of clusters of two clusterings: [k, k']."""
    (a, i), (b, j) = (np.unique(labels, return_inverse=True) for labels in (first, second))
    return np.bincount(i * len(b) + j, minlength=len(a) * len(b)).reshape(len(a), len(b))


def mutual_information(table: np.ndarray) -> float:
    """Normalized mutual information: divided by the mean of both entropies; 1 if both are a single cluster."""
    p = table / table.sum()
    rows, columns = p.sum(1), p.sum(0)
    entropies = [-(q * np.log(q)).sum() for q in (rows, columns)]
    if min(entropies) <= 1e-12:
        return float(max(entropies) <= 1e-12)
    used = p > 0
    information = (p[used] * np.log(p[used] / np.outer(rows, columns)[used])).sum()
    return float(max(information, 0.0) / (sum(entropies) / 2))


def rand_index(table: np.ndarray) -> float:
    """Adjusted Rand index: 1 for equal clusterings, 0 on average for random ones."""

    def pairs(counts: np.ndarray) -> float:
        return float((counts * (counts - 1.0)).sum() / 2)

    both, rows, columns = pairs(table), pairs(table.sum(1)), pairs(table.sum(0))
    total = pairs(table.sum(keepdims=True))
    expected = rows * columns / total if total else 0.0
    highest = (rows + columns) / 2
    return 1.0 if highest == expected else (both - expected) / (highest - expected)


def modularity(adjacency: csr_array, labels: np.ndarray) -> float | None:
    """The share of the edge weight inside clusters, minus its expectation for these degrees; None without edges."""
    total = float(adjacency.sum())  # twice the weight of all edges
    if total <= 0:
        return None
    target = np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr))
    same = labels[target] == labels[adjacency.indices]
    degrees = np.bincount(target, adjacency.data, minlength=len(labels))
    volumes = np.bincount(labels, degrees) / total
    return float(adjacency.data[same].sum() / total - (volumes**2).sum())


def louvain(adjacency: csr_array) -> np.ndarray | None:
    """The community of each node by the Louvain algorithm: [n]; None if NetworkX is not installed."""
    try:
        import networkx as nx
    except ImportError:
        return None
    graph = nx.from_scipy_sparse_array(adjacency)
    labels = np.zeros(adjacency.shape[0], np.int64)
    if graph.number_of_edges() == 0:
        return np.arange(len(labels))
    for number, nodes in enumerate(nx.community.louvain_communities(graph, seed=0)):
        labels[list(nodes)] = number
    return labels
