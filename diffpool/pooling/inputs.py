"""The graphs of a call of `DiffPooling`, from each of the formats that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from diffpool.edges import sorted_edges
from diffpool.errors import DataError
from diffpool.exchange import check_padded, dense_from_edges, from_padded
from diffpool.graphs import DenseGraphs, Graphs, SparseGraphs
from diffpool.pooling.eager import eager


@dataclass(frozen=True, eq=False)
class Level:
    """The graphs of a call, in the format of the package."""

    graphs: Graphs
    # The edges as they were given, for the assignment network; None for graphs and padded tensors
    edge_index: Tensor | None = None
    edge_weight: Tensor | None = None
    edge_attr: Tensor | None = None
    nodes: Tensor | None = None  # [N]: the padded row of each node
    padded: int | None = None  # n of padded input

    def rows(self, h: Tensor) -> Tensor:
        """One row per node, of features [N, D] or padded features [B, n, D]: [N, D]."""
        if self.padded is not None and h.dim() == 3:
            h = h.flatten(0, 1)
            h = h if self.nodes is None else h.index_select(0, self.nodes)
        if h.dim() != 2 or h.shape[0] != self.graphs.num_nodes:
            raise DataError(
                f"expected one row of features for each of {self.graphs.num_nodes} nodes, [N, D], got {list(h.shape)}"
            )
        return h


@eager
def read_level(
    x: Tensor,
    edge_index: Tensor | Graphs,
    batch: Tensor | None,
    edge_weight: Tensor | None,
    edge_attr: Tensor | None,
    batch_size: int | None,
    mask: Tensor | None,
) -> Level:
    """The graphs of a call, checked. The host waits for the sizes."""
    if not x.is_floating_point():
        raise DataError(
            f"expected features as floating-point numbers, got {x.dtype}: convert them with x.float()"
        )
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    alone = all(given is None for given in (batch, edge_weight, edge_attr, batch_size))
    if isinstance(edge_index, SparseGraphs | DenseGraphs):
        if not alone or mask is not None:
            raise DataError(
                "expected no batch, edge_weight, edge_attr, batch_size or mask with graphs, which have their own: "
                "leave them out"
            )
        return Level(_in_precision(edge_index, dtype))
    if not isinstance(edge_index, Tensor):
        raise _not_edges(edge_index)
    if edge_index.dim() == 3:
        check_padded(x, edge_index, mask)
        if not alone:
            raise DataError(
                "expected no batch, edge_weight, edge_attr or batch_size with adj [B, n, n], which contains them: "
                "leave them out"
            )
        graphs, nodes = from_padded(edge_index.to(dtype), mask)
        return Level(graphs, nodes=nodes, padded=x.shape[1])
    if mask is not None:
        raise DataError(
            "expected a mask only with adj [B, n, n], got one with edge_index: leave it out, and pass batch instead"
        )
    if edge_attr is not None and edge_attr.shape[:1] != edge_index.shape[1:]:
        raise DataError(
            f"expected one row of edge_attr for each of {edge_index.shape[-1]} edges, got {list(edge_attr.shape)}: "
            "pass the edge_attr of these edges"
        )
    sizes = [x.shape[0]] if batch is None else None
    if edge_weight is not None and edge_weight.requires_grad and torch.is_grad_enabled():
        edges = sorted_edges(edge_index, batch, sizes, batch_size, edge_weight.detach())
        dense = dense_from_edges(edges.layout, edge_index, edge_weight.to(dtype))
        return Level(dense, edge_index, edge_weight, edge_attr)
    sparse = SparseGraphs.from_edge_index(
        edge_index, batch, edge_weight, sizes=sizes, batch_size=batch_size, dtype=dtype
    )
    return Level(sparse, edge_index, edge_weight, edge_attr)


def _in_precision(graphs: Graphs, dtype: torch.dtype) -> Graphs:
    if graphs.degree.dtype == dtype:
        return graphs
    if isinstance(graphs, SparseGraphs):
        return graphs.to(dtype=dtype)
    raise DataError(
        f"expected features in the precision of the graphs, {graphs.degree.dtype}, got {dtype}: convert the features"
    )


def _not_edges(value: Any) -> DataError:
    hint = "convert it with torch_geometric.utils.to_edge_index"
    if hasattr(value, "edge_index"):
        hint = "pass its x, edge_index and batch: pool(data.x, data.edge_index, data.batch)"
    return DataError(
        f"expected edge_index [2, E], adj [B, n, n] or graphs, got {type(value).__name__}: {hint}"
    )
