"""What the C kernels are told about tensors and graphs."""

from __future__ import annotations

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
        t.dtype == torch.float32 and t.is_cpu and t.is_contiguous() for t in (*tensors, *stored)
    )


def address(t: Tensor | None) -> int:
    """The address of the first element; 0 for None."""
    return 0 if t is None else t.data_ptr()


def describe_graphs(graphs: Graphs) -> tuple[int, ...]:
    """The fields of the struct Graphs in `layers.h`."""
    layout, dense = graphs.layout, isinstance(graphs, DenseGraphs)
    sizes = (layout.total, len(layout), dense, layout.sizes.data_ptr(), layout.starts.data_ptr())
    inverse = graphs.inverse_degree.data_ptr()
    if isinstance(graphs, DenseGraphs):
        return *sizes, 0, 0, 0, graphs.adj.data_ptr(), graphs.adj.stride(0), inverse
    a = graphs.adj
    return *sizes, a.indptr.data_ptr(), a.indices.data_ptr(), address(a.values), 0, 0, inverse


def fits(graphs: Graphs, clusters: Layout, columns: int) -> bool:
    """Whether these are clusters of these graphs, and whether `columns` columns are enough for them."""
    return len(clusters) == len(graphs.layout) and 0 < clusters.largest <= columns
