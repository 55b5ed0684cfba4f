"""Convert SciPy or NumPy adjacency matrices, alone or as pairs (adjacency, features)."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffpool.data.convert.values import as_array, numbers, stacked, weights
from diffpool.data.raw import MAX_FLOAT, RawGraphs
from diffpool.errors import DataError


def from_matrices(graphs: list[Any], name: str) -> RawGraphs:
    """Convert matrices: A[i, j] ≠ 0 is an edge from i to j. Entries other than 1 are weights."""
    sizes, sources, targets, entries = [], [], [], []
    features: list[np.ndarray | None] = []
    total = 0
    for g, graph in enumerate(graphs):
        matrix, x = graph if isinstance(graph, tuple | list) else (graph, None)
        if isinstance(matrix, np.ndarray):
            matrix = as_array(f"graph {g}: adjacency", matrix)
        if (
            matrix.ndim != 2
            or matrix.shape[0] != matrix.shape[1]
            or matrix.dtype.kind not in "biuf"
        ):
            raise DataError(
                f"graph {g}: expected a square matrix of numbers, got {matrix.dtype} {list(matrix.shape)}. "
                "Pass features separately, as a pair (adjacency, features)."
            )
        nodes = matrix.shape[0]
        source, target, values = _nonzero(matrix)
        if not (np.abs(values) <= MAX_FLOAT).all():  # or NaN
            raise DataError(
                f"graph {g}: expected finite edge weights, got NaN, infinity or numbers above {MAX_FLOAT:.1e} "
                "(float32). Remove or rescale them."
            )
        sizes.append(nodes)
        sources.append(source + total)
        targets.append(target + total)
        entries.append(weights(g, values))
        features.append(None if x is None else numbers(g, "features", x, nodes))
        total += nodes
    values = np.concatenate(entries)
    return RawGraphs.from_edges(
        name,
        sizes,
        np.concatenate(sources),
        np.concatenate(targets),
        edge_weights=values if (values != 1).any() else None,
        node_attributes=stacked("features", features),
    )


def _nonzero(matrix: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row, column and value of the nonzero entries."""
    if isinstance(matrix, np.ndarray):
        matrix = np.asarray(matrix, np.float64)
        row, column = np.nonzero(matrix)
        return row, column, matrix[row, column]
    matrix = matrix.astype(np.float64).tocsr(copy=True)
    matrix.sum_duplicates()
    matrix = matrix.tocoo()
    kept = matrix.data != 0
    return matrix.row[kept].astype(np.int64), matrix.col[kept].astype(np.int64), matrix.data[kept]
