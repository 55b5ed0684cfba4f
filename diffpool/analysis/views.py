"""The view of a pooling network on a node: its features and those of the nodes around it."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array


def neighborhoods(links: csr_array, x: np.ndarray, hops: int) -> np.ndarray:
    """Features of each node and their means over walks of 1, …, hops steps: [n, (hops + 1) F].

    Columns are scaled to standard deviation 1 within the graph.
    """
    degree = np.maximum(np.diff(links.indptr), 1)[:, None]
    sd = x.std(0)
    parts = [((x - x.mean(0)) / np.where(sd > 1e-6, sd, 1.0)).astype(np.float32)]
    for _ in range(hops):
        parts.append((links @ parts[-1] / degree).astype(np.float32))
    return np.concatenate(parts, 1)


def view_colors(
    adjacency: csr_array, x: np.ndarray, hops: int, proportions: bool = False
) -> np.ndarray:
    """Colors of the nodes after `hops` rounds of Weisfeiler-Lehman refinement, starting from the features: [n].

    Two nodes have the same color exactly if their features, those of their neighbors, and so on, are the same (with
    the same edge weights): no GNN with this many layers can tell them apart. With `proportions`, only the proportions
    of the colors among the neighbors count, which is what a GNN that averages can distinguish at best.
    """
    target = np.repeat(np.arange(len(x)), np.diff(adjacency.indptr))
    weights = _numbered(adjacency.data[:, None])
    colors = _numbered(x)
    for _ in range(hops):
        pairs = _numbered(np.stack([colors[adjacency.indices], weights], 1))
        neighbors = np.split(pairs[np.lexsort((pairs, target))], adjacency.indptr[1:-1])
        signatures = map(_proportions if proportions else np.ndarray.tobytes, neighbors)
        seen: dict[tuple[int, bytes], int] = {}
        rows = zip(colors.tolist(), signatures, strict=True)
        colors = np.array([seen.setdefault(row, len(seen)) for row in rows], np.int64)
    return colors


def identifiability(adjacency: csr_array, x: np.ndarray, hops: int) -> dict[str, float]:
    """The shares of nodes that differ from all other nodes of their graph.

    `unique_features`: by their own features. `unique_views` and `unique_means`: by what a GNN with `hops` layers
    can distinguish at best, with any aggregation and with means.
    """
    return {
        "unique_features": _unique(_numbered(x)),
        "unique_views": _unique(view_colors(adjacency, x, hops)),
        "unique_means": _unique(view_colors(adjacency, x, hops, proportions=True)),
    }


def _proportions(numbers: np.ndarray) -> bytes:
    kinds, counts = np.unique(numbers, return_counts=True)
    return kinds.tobytes() + (counts // np.gcd.reduce(counts)).tobytes()


def _numbered(rows: np.ndarray) -> np.ndarray:
    """A number for each distinct row: [n]."""
    if not len(rows) or not rows.shape[1]:
        return np.zeros(len(rows), np.int64)
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)


def _unique(colors: np.ndarray) -> float:
    """The share of nodes whose color no other node has."""
    return float((np.bincount(colors)[colors] == 1).mean()) if len(colors) else 1.0
