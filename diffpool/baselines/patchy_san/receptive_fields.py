"""The receptive fields of PATCHY-SAN (Niepert, Ahmed and Kutzkov, 2016): a sequence of ordered neighborhoods.

Deviations from the paper: the labelling is computed once, of the whole graph, not again of every neighborhood; BLISS
makes the canonical order, not NAUTY. The paper leaves open which of several nodes with one label comes first in the
sequence, and which are kept where a neighborhood is cut: here it is the smaller number.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from diffpool.baselines.patchy_san.labelings import LABELLINGS, igraph, label

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["LABELLINGS", "field_edges", "receptive_fields"]


def receptive_fields(
    adjacency: csr_array, length: int, size: int, labelling: str = "wl"
) -> np.ndarray:
    """[length, size] int64: the nodes of each receptive field of an undirected graph, −1 for none (Algorithms 1 to 4).

    The roots are the first nodes by the labelling, the largest label first (stride 1). A field has its root and the
    nodes around it by their distance, then label, then the canonical order of the subgraph that they induce.
    """
    labels = label(adjacency, labelling)
    order = np.argsort(-labels, kind="stable")  # [n]: the nodes by rank
    ranks, distance = _neighborhoods(adjacency, order, length, size)
    fields = np.append(order, -1)[ranks]
    return _canonical(adjacency, fields, distance, np.append(labels, -1)[fields])


def field_edges(adjacency: csr_array, fields: np.ndarray) -> np.ndarray:
    """[w, k, k] int64: the place of the edge from node b to node a of a field among A's entries, −1 for none.

    The entries of a row must be in ascending order; the graph may be directed.
    """
    n, target = adjacency.shape[0], fields[:, :, None]
    row = np.repeat(np.arange(n), np.diff(adjacency.indptr))
    entries = np.append(row * n + adjacency.indices, n * n)
    wanted = np.where((target < 0) | (fields[:, None] < 0), -1, target * n + fields[:, None])
    place = np.searchsorted(entries, wanted)
    return np.where(entries[place] == wanted, place, -1)


def _neighborhoods(
    adjacency: csr_array, order: np.ndarray, length: int, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """[length, size] each: the ranks of the nodes of every field by distance and then rank, and the distances.

    All roots search at once. A step looks at the first `size` neighbors of a node only: if that is not all, they
    have enough nodes that are new to fill the field, and the best of them.
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
        new = np.setdiff1d(seen, taken)  # sorted: by root, then rank
        root, node = np.divmod(new, n)
        place = filled[root] + np.arange(len(root)) - np.searchsorted(root, root)
        kept = place < size
        fields[root[kept], place[kept]], distance[root[kept], place[kept]] = node[kept], step
        filled += np.bincount(root, minlength=length)
        more = filled[root] < size
        root, node = root[more], node[more]
        taken = np.concatenate([taken[filled[taken // n] < size], new[more]])
    return fields, distance


def _canonical(
    adjacency: csr_array, fields: np.ndarray, distance: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    """The same fields, with nodes of one distance and label in canonical order."""
    same = (np.diff(distance) == 0) & (np.diff(labels) == 0)
    tied = np.flatnonzero((same & (fields[:, 1:] >= 0)).any(1))
    colors = np.concatenate([np.zeros((len(tied), 1), np.int64), np.cumsum(~same[tied], 1)], 1)
    joined = field_edges(adjacency, fields[tied]) >= 0
    fields = fields.copy()
    for field, color, edges in zip(tied, colors.tolist(), joined, strict=True):
        fields[field] = fields[field, _canonical_order(tuple(color), edges.tobytes())]
    return fields


@lru_cache(maxsize=1 << 16)  # most neighborhoods occur often
def _canonical_order(colors: tuple[int, ...], joined: bytes) -> list[int]:
    """The nodes by color and then BLISS; `joined` has a byte for each pair of nodes."""
    k = len(colors)
    edges = [(a, b) for a in range(k) for b in range(a, k) if joined[a * k + b]]
    graph = igraph().Graph(k, edges, vertex_attrs={"node": range(k)})
    # Whether a permutation has the old places or the new ones depends on igraph's version; the attribute does not.
    canonical = graph.permute_vertices(graph.canonical_permutation(color=list(colors))).vs["node"]
    return sorted(canonical, key=lambda node: colors[node])
