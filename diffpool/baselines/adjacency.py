"""The graphs of a batch as SciPy matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy.sparse import csr_array

from diffpool.graphs import SparseGraphs

Watch = Callable[[float], None]  # called with the fraction done


def adjacency_matrices(
    graphs: SparseGraphs, watch: Watch = lambda fraction: None
) -> Iterator[csr_array]:
    """Yield the adjacency matrix of each graph; `watch` is called with the fraction of nodes done."""
    adj, layout = graphs.adj, graphs.layout
    indptr, indices = adj.indptr.numpy(), adj.indices.numpy()
    values = np.ones(len(indices)) if adj.values is None else adj.values.double().numpy()
    for start, n in zip(layout.starts.tolist(), layout.sizes.tolist(), strict=True):
        ends = indptr[start : start + n + 1]
        entries = slice(ends[0], ends[-1])
        source = (indices[entries] - start).astype(np.int32)
        yield csr_array((values[entries], source, ends - ends[0]), shape=(n, n))
        watch((start + n) / layout.total if layout.total else 1.0)
