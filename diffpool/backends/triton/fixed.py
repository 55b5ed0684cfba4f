"""Batches in buffers of fixed shapes, for captured steps on batches that are assembled on the host.

A batch with fewer nodes or edges than the buffers hold leaves the rest as it is; nothing reads it. Only the device
knows the sizes of the graphs, as in `drawn`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from diffpool.backends.capture import round_up
from diffpool.backends.triton.drawn import DrawnGraphs, Lengths, device_layout
from diffpool.backends.triton.spmm import ANY, SHORT
from diffpool.backends.triton.tiles import aligned
from diffpool.graphs import SparseGraphs
from diffpool.segment import Csr


class Shape(NamedTuple):
    """What must be equal for two batches to use the same buffers and the same captured step."""

    graphs: int  # B
    rows: int  # space for nodes
    features: int
    targets: tuple[tuple[int, ...], torch.dtype] | None  # shape of y without B, and type
    weighted: bool
    symmetric: bool
    short: bool  # whether no node has more than SHORT edges

    @classmethod
    def of(cls, graphs: SparseGraphs, x: Tensor, y: Tensor | None) -> Shape:
        symmetric = graphs.adj is graphs.adj_t
        sides = (graphs.adj,) if symmetric else (graphs.adj, graphs.adj_t)
        longest = max(int(side.indptr.diff().max()) for side in sides)
        return cls(
            len(graphs),
            round_up(graphs.num_nodes),
            x.shape[1],
            None if y is None else (tuple(y.shape[1:]), y.dtype),
            graphs.adj.values is not None,
            symmetric,
            longest <= SHORT,
        )


class _Side:
    """Space for the edges of A or Aᵀ. The last node has no edges; it stands for all rows without a node."""

    def __init__(self, rows: int, edges: int, weighted: bool, device: torch.device):
        self.indptr = torch.zeros(rows + 3, dtype=torch.int64, device=device)
        self.indices = torch.zeros(edges, dtype=torch.int64, device=device)
        self.values = torch.zeros(edges, device=device) if weighted else None
        self.csr = Csr(self.indptr, self.indices, self.values)

    def fill(self, csr: Csr) -> None:
        _put(self.indptr, csr.indptr)
        _put(self.indices, csr.indices)
        if self.values is not None:
            assert csr.values is not None
            _put(self.values, csr.values)


class FixedBatch:
    """The buffers for batches of one shape with up to `edges` edges."""

    def __init__(self, shape: Shape, edges: int, device: torch.device):
        graphs, rows = shape.graphs, shape.rows
        self.shape, self.edges = shape, edges
        self.sizes = torch.zeros(graphs, dtype=torch.int64, device=device)
        self.adj = self.adj_t = _Side(rows, edges, shape.weighted, device)
        if not shape.symmetric:
            self.adj_t = _Side(rows, edges, shape.weighted, device)
        self.of_node = torch.zeros(2, rows, device=device)  # degree, inverse degree
        self.squared_norm = torch.zeros(graphs, device=device)
        self.features = torch.zeros(rows, aligned(shape.features), device=device)
        self.y = None
        if shape.targets is not None:
            size, dtype = shape.targets
            self.y = torch.zeros(graphs, *size, dtype=dtype, device=device)
        self.rows = torch.arange(rows, device=device)
        self.shift = torch.zeros_like(self.rows)

    def fill(self, graphs: SparseGraphs, x: Tensor, y: Tensor | None) -> None:
        """Copy a batch into the buffers; the host does not wait for the device."""
        _put(self.sizes, graphs.layout.sizes)
        self.adj.fill(graphs.adj)
        if self.adj_t is not self.adj:
            self.adj_t.fill(graphs.adj_t)
        _put(self.of_node[0], graphs.degree)
        _put(self.of_node[1], graphs.inverse_degree)
        _put(self.squared_norm, graphs.squared_norm)
        _put(self.features[:, : x.shape[1]], x)
        if self.y is not None:
            assert y is not None
            _put(self.y, y)

    def batch(self) -> tuple[DrawnGraphs, Tensor, Tensor | None]:
        """The graphs, their features [N, F] and their targets; N is the space for nodes."""
        shape = self.shape
        layout = device_layout(self.sizes[None], shape.rows, shape.rows)
        assert layout.real is not None
        degree, inverse_degree = torch.where(layout.real, self.of_node, 0)
        lengths = Lengths(SHORT if shape.short else ANY)
        graphs = DrawnGraphs(
            layout=layout,
            adj=self.adj.csr,
            adj_t=self.adj_t.csr,
            degree=degree,
            inverse_degree=inverse_degree,
            squared_norm=self.squared_norm,
            nodes=torch.where(layout.real, self.rows, shape.rows + 1),
            shift=self.shift,
            lengths=lengths,
            lengths_t=lengths,
        )
        x = torch.where(layout.real[:, None], self.features, 0)[:, : shape.features]
        return graphs, x, None if self.y is None else self.y.clone()


def _put(buffer: Tensor, value: Tensor) -> None:
    """Copy to the first rows of a buffer. Memory of the host is pinned first; otherwise the copy would wait."""
    if buffer.is_cuda and not value.is_cuda:
        value = value.pin_memory()
    buffer[: len(value)].copy_(value, non_blocking=True)
