"""The arguments of the C kernels that describe tensors and graphs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from diffpool.graphs import DenseGraphs, Graphs, SparseGraphs
from diffpool.layout import Layout

ALONE = 2**19  # multiplications of a call below which one thread does everything


def suits(graphs: Graphs, *tensors: Tensor) -> bool:
    """Whether the kernels can read these graphs and matrices: float32, on the CPU, contiguous."""
    if type(graphs) not in (SparseGraphs, DenseGraphs):  # a subclass with another storage format
        return False
    if isinstance(graphs, DenseGraphs):
        stored = [graphs.adj, graphs.inverse_degree]
    else:
        stored = [m.values for m in (graphs.adj, graphs.adj_t) if m.values is not None]
        stored += [graphs.inverse_degree, graphs.squared_norm]
    return all(
        t.dtype == torch.float32 and t.is_cpu and t.is_contiguous() and not t.is_neg()
        for t in (*tensors, *stored)
    )


def describe_graphs(graphs: Graphs, transpose: bool = False) -> list[Any]:
    """The arguments that `take_graphs` in `kernels.c` reads; `transpose`: Aᵀ instead of A, if stored as edges."""
    layout = graphs.layout
    words = [layout.total, len(layout), layout.sizes, layout.starts, graphs.inverse_degree]
    if isinstance(graphs, DenseGraphs):
        return [*words, True, graphs.adj.shape[1], graphs.adj]
    a = graphs.adj_t if transpose else graphs.adj
    return [*words, False, a.indptr, a.indices, a.values]


def fits(graphs: Graphs, clusters: Layout, columns: int) -> bool:
    """Whether these are clusters of these graphs, and whether `columns` columns are enough for them."""
    return len(clusters) == len(graphs.layout) and 0 < clusters.largest <= columns
