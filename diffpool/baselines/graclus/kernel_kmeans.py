"""Weighted kernel k-means on a graph: the refinement phase of Graclus.

The normalized cut is k − Σ_c L_c/V_c, where L_c is the weight of the links inside cluster c, counted in both
directions, and V_c its volume, the sum of its degrees. Minimizing it is weighted kernel k-means with weights d_i and
kernel σD⁻¹ + D⁻¹AD⁻¹ (Dhillon, Guan and Kulis, 2007). With σ ≥ 1 the kernel is positive semidefinite and no batch step
can raise the cut, but a large σ keeps every node in its cluster. So we use σ = 0, and accept a step only if it lowers
the cut and leaves no cluster empty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

MIN_GAIN = 1e-9  # smaller gains are rounding errors
PATIENCE = 20  # moves of a chain after its best one
MAX_LINKS = 2**23  # nodes × clusters, 128 MB of gains; larger graphs use batch steps only
ISOLATED_LOOP = 1e-6  # weight of an isolated node's loop, relative to the smallest degree


@dataclass(frozen=True, eq=False)
class Graph:
    """A weighted undirected graph in which every degree is positive."""

    adjacency: csr_array  # A: [n, n]
    degree: np.ndarray  # A1: [n]
    loops: np.ndarray  # the diagonal of A: [n]

    @classmethod
    def from_adjacency(cls, adjacency: csr_array) -> Graph:
        """Isolated nodes get a tiny loop, so that no degree is zero; as their own cluster they still cost nothing."""
        degree = adjacency.sum(axis=1)
        if (isolated := degree == 0).any():
            loop = ISOLATED_LOOP * degree[~isolated].min(initial=1.0)
            n, where = len(degree), np.flatnonzero(isolated)
            adjacency = adjacency + csr_array((np.full(len(where), loop), (where, where)), (n, n))
            degree = np.where(isolated, loop, degree)
        return cls(adjacency, degree, adjacency.diagonal())

    def __len__(self) -> int:
        return len(self.degree)


def indicator(labels: np.ndarray, clusters: int) -> csr_array:
    """S, one-hot rows: [n, k]."""
    n = len(labels)
    return csr_array((np.ones(n), labels, np.arange(n + 1)), shape=(n, clusters))


def normalized_cut(adjacency: csr_array, labels: np.ndarray) -> float:
    """Σ_c cut(c, V∖c) / vol(c), where a cluster of volume 0 counts as 0."""
    cluster = np.repeat(labels, np.diff(adjacency.indptr))  # of the row of each entry
    same = cluster == labels[adjacency.indices]
    count = int(labels.max(initial=-1)) + 1
    volume = np.bincount(cluster, adjacency.data, minlength=count)
    inside = np.bincount(cluster[same], adjacency.data[same], minlength=count)
    positive = volume > 0
    return float((1 - inside[positive] / volume[positive]).sum())


def batch_step(graph: Graph, labels: np.ndarray, clusters: int, sigma: float = 0.0) -> np.ndarray:
    """Move every node to the nearest mean among its own cluster and those it is linked to: labels [n] → [n].

    The squared distance to the mean of c is, up to a constant for each node,
    (L_c + σV_c)/V_c² − 2(links to c + σd_i [i ∈ c]) / (d_i V_c).
    """
    degree = graph.degree
    links = graph.adjacency @ indicator(labels, clusters)  # [n, k]
    node, cluster = np.repeat(np.arange(len(graph)), np.diff(links.indptr)), links.indices
    mine = cluster == labels[node]
    own_links = np.bincount(node[mine], links.data[mine], minlength=len(graph))
    volume = np.bincount(labels, degree, minlength=clusters)
    inside = np.bincount(labels, own_links, minlength=clusters)
    spread = (inside + sigma * volume) / volume**2
    nearest = spread[labels] - 2 * (own_links + sigma * degree) / (degree * volume[labels])
    node, cluster, weight = node[~mine], cluster[~mine], links.data[~mine]
    distance = spread[cluster] - 2 * weight / (degree[node] * volume[cluster])
    order = np.lexsort((distance, node))
    first = order[np.flatnonzero(np.diff(node[order], prepend=-1))]  # the nearest other cluster
    first = first[distance[first] < nearest[node[first]]]
    labels = labels.copy()
    labels[node[first]] = cluster[first]
    return labels


class Moves:
    """The gain in Σ L_c/V_c of every move of one node, updated while nodes move.

    Moving i from a to b changes two terms: that of a by `leaving[i]` and that of b by `entering[b, i]`. They are −∞
    where a move is not allowed: the node has already moved, would stay, or is the last in its cluster.
    """

    def __init__(self, graph: Graph, labels: np.ndarray, clusters: int):
        n, nodes = len(graph), np.arange(len(graph))
        cell = labels[graph.adjacency.indices] * n + nodes.repeat(np.diff(graph.adjacency.indptr))
        links = np.bincount(cell, graph.adjacency.data, minlength=clusters * n)
        self.links = links.reshape(clusters, n)  # weight between each cluster and each node: [k, n]
        self.graph, self.labels = graph, labels.copy()
        self.fixed = np.zeros(n, dtype=bool)
        self.min_degree = graph.degree.min()
        self.size = np.bincount(labels, minlength=clusters)
        self.volume = np.bincount(labels, graph.degree, minlength=clusters)
        self.inside = np.bincount(labels, self.links[labels, nodes], minlength=clusters)
        self.entering = np.empty_like(self.links)  # [k, n]
        self.leaving = np.empty(n)
        self._update(np.arange(clusters), nodes)
        self.target = self.entering.argmax(axis=0)  # the best cluster to enter
        self.gain = self.entering[self.target, nodes]

    def best(self) -> tuple[int, float]:
        total = self.gain + self.leaving
        node = int(total.argmax())
        return node, float(total[node])

    def move(self, node: int) -> None:
        """Move it to its best cluster, where it stays."""
        graph, a, b = self.graph, int(self.labels[node]), int(self.target[node])
        edges = slice(graph.adjacency.indptr[node], graph.adjacency.indptr[node + 1])
        neighbors, weights = graph.adjacency.indices[edges], graph.adjacency.data[edges]
        self.inside[a] -= 2 * self.links[a, node] - graph.loops[node]
        self.inside[b] += 2 * self.links[b, node] + graph.loops[node]
        self.links[a, neighbors] -= weights
        self.links[b, neighbors] += weights
        # not 0 by rounding
        self.volume[a] = max(self.volume[a] - graph.degree[node], self.min_degree)
        self.volume[b] += graph.degree[node]
        self.size[a] -= 1
        self.size[b] += 1
        self.labels[node], self.fixed[node] = b, True
        self._update(np.array([a, b]), ((self.labels == a) | (self.labels == b)).nonzero()[0])
        stale = ((self.target == a) | (self.target == b)).nonzero()[0]
        self.target[stale] = best = self.entering[:, stale].argmax(axis=0)
        self.gain[stale] = self.entering[best, stale]
        for c in (a, b):
            self.target[self.entering[c] > self.gain] = c
            np.maximum(self.gain, self.entering[c], out=self.gain)

    def _update(self, clusters: np.ndarray, members: np.ndarray) -> None:
        """Recompute the gains of these clusters and of their members."""
        degree, loops = self.graph.degree, self.graph.loops
        inside, volume = self.inside[clusters, None], self.volume[clusters, None]
        joined = (inside + 2 * self.links[clusters] + loops) / (volume + degree)
        self.entering[clusters] = joined - inside / volume
        cluster = self.labels[members]
        self.entering[cluster, members] = -np.inf
        inside, volume = self.inside[cluster], self.volume[cluster]
        left = inside - 2 * self.links[cluster, members] + loops[members]
        rest = np.maximum(volume - degree[members], self.min_degree)
        gain = left / rest - inside / volume
        gain[self.fixed[members] | (self.size[cluster] == 1)] = -np.inf
        self.leaving[members] = gain


def chain(graph: Graph, labels: np.ndarray, clusters: int) -> np.ndarray:
    """The paper's local search: repeat the best move of one node, then go back to the lowest cut: labels [n] → [n].

    Each node moves at most once, to any cluster. Moves may raise the cut; after `PATIENCE` moves without a new lowest
    cut the search ends, and these moves are undone.
    """
    moves = Moves(graph, labels, clusters)
    history: list[tuple[int, int]] = []
    gained, best, kept = 0.0, MIN_GAIN, 0
    while len(history) - kept < PATIENCE:
        node, gain = moves.best()
        if gain == -np.inf:
            break
        history.append((node, int(moves.labels[node])))
        moves.move(node)
        gained += gain
        if gained > best:
            best, kept = gained, len(history)
    for node, cluster in reversed(history[kept:]):
        moves.labels[node] = cluster
    return moves.labels


def refine(graph: Graph, labels: np.ndarray, clusters: int) -> np.ndarray:
    """Repeat batch steps, then chains, while they lower the cut: labels [n] → [n]."""
    labels = _repeat(batch_step, graph, labels, clusters)
    if len(graph) * clusters > MAX_LINKS:
        return labels
    return _repeat(chain, graph, labels, clusters)


def _repeat(
    step: Callable[[Graph, np.ndarray, int], np.ndarray],
    graph: Graph,
    labels: np.ndarray,
    clusters: int,
) -> np.ndarray:
    """Repeat a step while it lowers the cut and leaves no cluster empty."""
    cost = normalized_cut(graph.adjacency, labels)
    while True:
        found = step(graph, labels, clusters)
        lower = normalized_cut(graph.adjacency, found)
        if lower > cost - MIN_GAIN or np.bincount(found, minlength=clusters).min() == 0:
            return labels
        labels, cost = found, lower
