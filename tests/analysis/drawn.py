"""Small graphs and clusters for the tests of the analysis."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from diffpool.analysis import Graph


def graph(
    size: int,
    edges: list[tuple[int, int]],
    x: np.ndarray | None = None,
    hops: int = 1,
    planted: np.ndarray | None = None,
) -> Graph:
    """An undirected graph with these edges; by default, every node has its own number as a feature."""
    source, target = np.array([*edges, *((b, a) for a, b in edges)]).reshape(-1, 2).T
    adjacency = csr_array((np.ones(len(source)), (target, source)), shape=(size, size))
    x = np.arange(size, dtype=float)[:, None] if x is None else x
    return Graph(adjacency, x, hops, planted)


def clique(nodes: range) -> list[tuple[int, int]]:
    return [(a, b) for a in nodes for b in nodes if a < b]


def path(nodes: range) -> list[tuple[int, int]]:
    return [(a, a + 1) for a in nodes[:-1]]


def lollipop() -> Graph:
    """A clique of the nodes 0 to 4, joined to a path of the nodes 5 to 9."""
    return graph(10, clique(range(5)) + path(range(4, 10)))


def hard(labels: list[int], clusters: int) -> np.ndarray:
    """A hard assignment: [n, k]."""
    return np.eye(clusters, dtype=np.float32)[labels]
