"""One graph, with the structure that its clusters are compared with. Everything is computed when it is first needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from diffpool.analysis.views import neighborhoods, view_colors
from diffpool.data import RawGraphs

MAX_SOURCES = (
    100  # maximum number of nodes at which pairs start; in larger graphs, chosen at random
)


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """An undirected graph without self-loops, its features, and its planted communities, if they are known."""

    adjacency: csr_array  # [n, n], with the edge weights
    x: np.ndarray  # [n, F]
    hops: int  # number of convolutions in the first pooling network: the radius of its receptive field
    planted: np.ndarray | None = None  # [n]: the community of each node

    @property
    def size(self) -> int:
        return self.adjacency.shape[0]

    @cached_property
    def links(self) -> csr_array:
        """The adjacency matrix with 1 for every edge."""
        a = self.adjacency
        return csr_array((np.ones(len(a.indices)), a.indices, a.indptr), shape=a.shape)

    @cached_property
    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Both ends of every edge, each edge once."""
        row = np.repeat(np.arange(self.size), np.diff(self.links.indptr))
        once = row < self.links.indices
        return row[once], self.links.indices[once]

    @cached_property
    def degrees(self) -> np.ndarray:
        """[n]: number of neighbors."""
        return np.diff(self.links.indptr)

    @cached_property
    def shared_neighbors(self) -> csr_array:
        """[n, n]: the number of common neighbors of the two ends of every edge that has any."""
        return csr_array((self.links @ self.links) * self.links)

    @cached_property
    def clustering(self) -> np.ndarray:
        """[n]: the local clustering coefficient, the share of pairs of neighbors that are adjacent; 0 for leaves."""
        twice_triangles = np.asarray(self.shared_neighbors.sum(1)).ravel()
        return twice_triangles / np.maximum(self.degrees * (self.degrees - 1), 1)

    @cached_property
    def sources(self) -> np.ndarray:
        """The nodes at which pairs start: all, or a random choice of MAX_SOURCES."""
        if self.size <= MAX_SOURCES:
            return np.arange(self.size)
        return np.sort(np.random.default_rng(0).choice(self.size, MAX_SOURCES, replace=False))

    @cached_property
    def distances(self) -> np.ndarray:
        """[sources, n]: number of edges of a shortest path; infinite between components."""
        found = shortest_path(self.links, unweighted=True, directed=False, indices=self.sources)
        return np.asarray(found, np.float32).reshape(len(self.sources), self.size)

    @cached_property
    def view(self) -> np.ndarray:
        """[n, (hops + 1) F]: standardized features of each node, and their means over walks of 1, … hops steps."""
        return neighborhoods(self.links, self.x, self.hops)

    @cached_property
    def colors(self) -> np.ndarray:
        """[n]: nodes with the same number look the same to the pooling network."""
        return view_colors(self.adjacency, self.x, self.hops)

    @cached_property
    def louvain(self) -> np.ndarray | None:
        """[n]: the Louvain community of each node; None if NetworkX is not installed."""
        from diffpool.analysis.communities import louvain

        return louvain(self.adjacency)


def graphs_of(
    raw: RawGraphs,
    x: np.ndarray,
    hops: int,
    communities: np.ndarray | None = None,
) -> Iterator[Graph]:
    """Each graph of a collection; features x [N, F] and communities [N] are those of all its nodes."""
    raw = raw.undirected()
    starts: Sequence[int] = raw.starts.tolist()
    for start, size in zip(starts, raw.sizes.tolist(), strict=True):
        nodes = slice(start, start + size)
        planted = None if communities is None else communities[nodes]
        yield Graph(_adjacency(raw, start, size), x[nodes], hops, planted)


def _adjacency(raw: RawGraphs, start: int, size: int) -> csr_array:
    """A of one graph: [n, n], symmetric, without self-loops."""
    indptr = raw.indptr[start : start + size + 1]
    source = raw.source[indptr[0] : indptr[-1]] - start
    target = np.repeat(np.arange(size), np.diff(indptr))
    weights = np.ones(len(source))
    if raw.edge_weights is not None:
        weights = raw.edge_weights[indptr[0] : indptr[-1]]
    kept = (source != target) & (weights != 0)
    return csr_array((weights[kept], (target[kept], source[kept])), shape=(size, size))
