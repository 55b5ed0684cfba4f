"""The graphs of a batch as SciPy's matrices, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy.sparse import csr_array

from diffpool.graphs import SparseGraphs

Watch = Callable[[float], None]  # gets the share that is done


def matrices(graphs: SparseGraphs, watch: Watch = lambda share: None) -> Iterator[csr_array]:
    """The adjacency matrix of each graph; `watch` gets the share of the nodes that is done."""
    adj, layout = graphs.adj, graphs.layout
    indptr, indices = adj.indptr.numpy(), adj.indices.numpy()
    values = np.ones(len(indices)) if adj.values is None else adj.values.double().numpy()
    for start, n in zip(layout.starts.tolist(), layout.sizes.tolist(), strict=True):
        ends = indptr[start : start + n + 1]
        own = slice(ends[0], ends[-1])
        source = (indices[own] - start).astype(np.int32)
        yield csr_array((values[own], source, ends - ends[0]), shape=(n, n))
        watch((start + n) / layout.total if layout.total else 1.0)
