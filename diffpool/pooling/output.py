"""The result of `DiffPooling`: the coarser level, in the formats of the next layer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from diffpool.errors import DataError
from diffpool.exchange import edge_list, padded_adj, padded_mask, padded_rows, unpadded_rows
from diffpool.graphs import DenseGraphs
from diffpool.nn.poolers import Assignment
from diffpool.pooling.eager import eager
from diffpool.pooling.precision import full_precision

coarse_edges = eager(edge_list)


@dataclass(frozen=True, eq=False, repr=False)
class PoolingOutput:
    """The coarser level that `DiffPooling` returns. B graphs with K clusters in all, at most W in a graph.

        out.x                                          features of the clusters: [K, D]
        out.loss, out.losses                           a number for the training loss, and its parts by name
        out.assignment.of_graph(0)                     S of the first graph: [n_0, k_0]
        out.lift(h)                                    from the clusters back to the nodes: [K, D] → [N, D]

    The coarse graphs are available in three formats; each is computed on first access:

        out.edge_index, out.edge_weight, out.batch     for PyTorch Geometric's layers
        out.x_dense, out.adj, out.mask                 for its dense layers: [B, W, D], [B, W, W], [B, W]
        out.graphs                                     for another `DiffPooling` and for `diffpool.nn`
    """

    x: Tensor  # [K, D]
    graphs: DenseGraphs
    assignment: Assignment  # S: `assignment.s` [N, W], and `assignment.of_graph(i)` [n_i, k_i]
    losses: dict[str, Tensor]  # `link` and `entropy`: each [B], or [] with losses="pyg"
    loss: Tensor  # []: their weighted sum, averaged over the graphs

    @property
    def batch(self) -> Tensor:
        """The graph of each cluster: [K] int64."""
        return self.graphs.layout.graph_of_row

    @property
    def batch_size(self) -> int:
        """The number of graphs."""
        return len(self.graphs)

    @property
    def edge_index(self) -> Tensor:
        """All ordered pairs of clusters of each graph, a cluster with itself included: [2, Σ k²], sorted by source."""
        return self._edges[0]

    @property
    def edge_weight(self) -> Tensor:
        """A' for each pair in `edge_index`: [Σ k²]; 0 for pairs without an edge between their clusters."""
        weight = self._edges[1]
        assert weight is not None
        return weight.to(self.x.dtype)

    @cached_property
    def _edges(self) -> tuple[Tensor, Tensor | None]:
        return coarse_edges(self.graphs)

    @cached_property
    def adj(self) -> Tensor:
        """A' padded: [B, W, W]. `adj[b, i, j]` is the weight of the edge from i to j, as in `to_dense_adj`."""
        return padded_adj(self.graphs).to(self.x.dtype)

    @cached_property
    def mask(self) -> Tensor:
        """Which rows of `x_dense` are clusters: [B, W] bool. All of them, if every graph has W clusters."""
        return padded_mask(self.graphs.layout)

    @cached_property
    def x_dense(self) -> Tensor:
        """The features, padded with zeros: [B, W, D]."""
        return padded_rows(self.x, self.graphs.layout)

    def lift(self, h: Tensor) -> Tensor:
        """S H, from the clusters back to the nodes: [K, D] or [B, W, D] → [N, D].

        h = conv(out.x, out.edge_index, out.edge_weight)     # [K, D]
        x = x + out.lift(h)                                  # [N, D], as in a U-Net
        """
        if h.dim() == 3:
            h = unpadded_rows(h, self.graphs.layout)
        if h.shape[:1] != self.x.shape[:1]:
            raise DataError(
                f"expected one row for each of {self.x.shape[0]} clusters, got {list(h.shape)}: lift takes features "
                "of the clusters, [K, D] or [B, W, D]"
            )
        s = self.assignment.s
        with full_precision(h.device.type):
            return self.assignment.lift(h.to(s.dtype)).to(h.dtype)

    def __repr__(self) -> str:
        return f"PoolingOutput(x={list(self.x.shape)}, graphs={self.graphs!r}, losses={sorted(self.losses)})"
