"""The receptive fields of PATCHY-SAN (Niepert, Ahmed and Kutzkov, 2016): a sequence of ordered neighborhoods.

Deviations from the paper: the labeling is computed once for the whole graph, not for every neighborhood; the canonical
order comes from BLISS, not NAUTY. The paper does not say how to order nodes with the same label in the sequence, nor
which of them to keep when a neighborhood is truncated: here the smaller node number comes first.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from diffpool.baselines.patchy_san.labelings import igraph, label

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def receptive_fields(
    adjacency: csr_array, length: int, size: int, labeling: str = "wl"
) -> np.ndarray:
    """The nodes of each receptive field of an undirected graph, padded with −1: [length, size] int64.

    Algorithms 1 to 4 of the paper. The roots are the first nodes in descending order of their labels (stride 1). A
    field has its root and the nodes around it, ordered by distance, then label, then canonical order in the subgraph
    that they induce.
    """
    labels = label(adjacency, labeling)
    order = np.argsort(-labels, kind="stable")  # [n]: nodes by rank
    ranks, distance = _neighborhoods(adjacency, order, length, size)
    fields = np.append(order, -1)[ranks]
    return _canonical(adjacency, fields, distance, np.append(labels, -1)[fields])


def field_edges(adjacency: csr_array, fields: np.ndarray) -> np.ndarray:
    """The index among A's entries of the edge from node b to node a of each field, −1 for none: [w, k, k] int64.

    The column indices of each row must be ascending; the graph may be directed.
    """
    n, target = adjacency.shape[0], fields[:, :, None]
    row = np.repeat(np.arange(n), np.diff(adjacency.indptr))
    entries = np.append(row * n + adjacency.indices, n * n)
    wanted = np.where((target < 0) | (fields[:, None] < 0), -1, target * n + fields[:, None])
    index = np.searchsorted(entries, wanted)
    return np.where(entries[index] == wanted, index, -1)


def _neighborhoods(
    adjacency: csr_array, order: np.ndarray, length: int, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """The ranks of the nodes of each field, ordered by distance and then rank, and the distances: [length, size] each.

    Breadth-first search from all roots at once. A step visits only the `size` highest-ranked neighbors of a node: if
    there are more, these already contain enough new nodes to fill the field, and the best ones.
    """
    n = len(order)
    rank = np.empty(n, np.int64)
    rank[order] = np.arange(n)
    count = np.diff(adjacency.indptr)
    neighbors = np.sort(np.repeat(rank, count) * n + rank[adjacency.indices]) % max(n, 1)
    starts = np.cumsum(count[order]) - count[order]
    count = np.minimum(count[order], size)

    fields, distance = np.full((2, length, size), -1)
    roots = np.arange(min(length, n))
    fields[roots, :1] = roots[:, None]
    distance[roots, :1] = 0
    filled = np.ones(length, np.int64)
    root, node, taken, step = roots, roots, roots * n + roots, 0
    while len(root):
        step += 1
        each = count[node]
        shift = np.repeat(starts[node] - np.cumsum(each) + each, each)
        seen = np.repeat(root, each) * n + neighbors[np.arange(len(shift)) + shift]
        new = np.setdiff1d(seen, taken)  # sorted by root, then rank
        root, node = np.divmod(new, n)
        index = filled[root] + np.arange(len(root)) - np.searchsorted(root, root)
        kept = index < size
        fields[root[kept], index[kept]], distance[root[kept], index[kept]] = node[kept], step
        filled += np.bincount(root, minlength=length)
        more = filled[root] < size
        root, node = root[more], node[more]
        taken = np.concatenate([taken[filled[taken // n] < size], new[more]])
    return fields, distance


def _canonical(
    adjacency: csr_array, fields: np.ndarray, distance: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    """Put nodes with the same distance and label in canonical order."""
    same = (np.diff(distance) == 0) & (np.diff(labels) == 0)
    tied = np.flatnonzero((same & (fields[:, 1:] >= 0)).any(1))
    colors = np.concatenate([np.zeros((len(tied), 1), np.int64), np.cumsum(~same[tied], 1)], 1)
    joined = field_edges(adjacency, fields[tied]) >= 0
    fields = fields.copy()
    for field, color, edges in zip(tied, colors.tolist(), joined, strict=True):
        fields[field] = fields[field, canonical_order(tuple(color), edges.tobytes())]
    return fields


@lru_cache(maxsize=1 << 16)  # most neighborhoods occur often
def canonical_order(colors: tuple[int, ...], joined: bytes) -> list[int]:
    """The nodes ordered by color, then by BLISS; `joined` has a byte for each pair of nodes."""
    k = len(colors)
    edges = [(a, b) for a in range(k) for b in range(a, k) if joined[a * k + b]]
    graph = igraph().Graph(k, edges, vertex_attrs={"node": range(k)})
    # The direction of the permutation depends on the version of igraph; the vertex attribute does not.
    canonical = graph.permute_vertices(graph.canonical_permutation(color=list(colors))).vs["node"]
    return sorted(canonical, key=lambda node: colors[node])
