"""Batches of graphs in the two formats of PyTorch Geometric: padded tensors and edge lists.

Padded, as from `to_dense_batch` and `to_dense_adj`: features [B, n, D] and adj [B, n, n], where adj[b, i, j] is the
weight of the edge from node i to node j of graph b. `DenseGraphs` stores the transpose, because row i of A holds the
edges that point to node i.
"""

from __future__ import annotations

import torch
from torch import Tensor

from diffpool.errors import DataError, only_on_device
from diffpool.graphs import DenseGraphs, Graphs, SparseGraphs
from diffpool.layout import Layout, column_mask, row_limits


def padded_rows(h: Tensor, layout: Layout) -> Tensor:
    """Pad every graph to the size of the largest, with zeros: [N, …] → [B, W, …]."""
    shape = (len(layout), layout.largest)
    if layout.uniform:
        return h.unflatten(0, shape)
    slots = h.new_zeros(
        shape[0] * shape[1] + 1, *h.shape[1:]
    )  # the last one is for rows of no graph
    return slots.index_copy(0, layout.slots, h)[:-1].unflatten(0, shape)


def unpadded_rows(h: Tensor, layout: Layout) -> Tensor:
    """The reverse, [B, W, D] → [N, D]; zeros in rows of no graph."""
    rows = h.flatten(0, 1)
    if layout.real is None:
        return rows.index_select(0, layout.slots)
    found = rows.index_select(0, layout.slots.clamp(max=len(rows) - 1))
    return torch.where(layout.real[:, None], found, 0)


def padded_mask(layout: Layout) -> Tensor:
    """Which rows of the padded features are nodes: [B, W] bool."""
    index = torch.arange(layout.largest, device=layout.graph_of_row.device)
    return index < layout.device_sizes[:, None]


def padded_adj(graphs: DenseGraphs) -> Tensor:
    """The adjacency matrices, from row to column: [B, W, W]."""
    adj, layout = graphs.adj, graphs.layout
    mask = None if layout.real is None else column_mask(layout, layout)
    if mask is not None:  # columns that a graph does not have may hold anything
        adj = torch.where(mask, adj, 0)
    return padded_rows(adj, layout).mT


def from_padded(adj: Tensor, mask: Tensor | None) -> tuple[DenseGraphs, Tensor | None]:
    """Graphs from adj [B, n, n] and mask [B, n] bool, and the padded row of each node: [N]; None if it is its index.

    Entries of adj outside the mask are ignored. With a mask, the host waits once, for the sizes.
    """
    graphs, size = adj.shape[:2]
    if mask is None:
        counts = torch.full((graphs,), size, device=adj.device)
        graph_of_row = torch.arange(graphs, device=adj.device).repeat_interleave(
            size, output_size=graphs * size
        )
        layout = Layout.on_device([size] * graphs, counts, graph_of_row)
        return DenseGraphs.from_adj(layout, adj.mT.reshape(graphs * size, size)), None
    counts = mask.sum(1)  # [B]
    sizes = counts.tolist()
    graph_of_row = torch.arange(graphs, device=adj.device).repeat_interleave(
        counts, output_size=sum(sizes)
    )
    layout = Layout.on_device(sizes, counts, graph_of_row)
    order = (~mask).byte().argsort(dim=1, stable=True)  # [B, n]: nodes first
    row = graph_of_row * size + order[graph_of_row, layout.index_in_graph]  # [N]
    columns = order[:, : layout.largest].index_select(0, graph_of_row)  # [N, W]
    block = adj.mT.flatten(0, 1).index_select(0, row).gather(1, columns)  # [N, W]
    outside = torch.arange(layout.largest, device=adj.device) >= counts[graph_of_row][:, None]
    return DenseGraphs.from_adj(layout, block.masked_fill(outside, 0)), row


def edge_list(graphs: Graphs) -> tuple[Tensor, Tensor | None]:
    """`edge_index` [2, E] and `edge_weight` [E]; of dense blocks, all pairs of nodes of each graph, sorted by source.

    The weights are None if all are 1.
    """
    if isinstance(graphs, SparseGraphs):
        return graphs.edge_index, graphs.edge_weight
    layout = graphs.layout
    if layout.sizes.is_meta:
        raise only_on_device("edge_index")
    device = layout.graph_of_row.device
    pairs = int(layout.sizes.square().sum())
    count = row_limits(layout, layout)  # [K]: nodes of the same graph
    source = torch.arange(layout.total, device=device).repeat_interleave(count, output_size=pairs)
    first = count.cumsum(0) - count  # [K]: the first pair of each source
    start = torch.arange(layout.total, device=device) - layout.index_in_graph  # [K]: of its graph
    target = torch.arange(pairs, device=device) - (first - start).index_select(0, source)
    entry = target * graphs.adj.shape[1] + layout.index_in_graph.index_select(0, source)
    return torch.stack([source, target]), graphs.adj.reshape(-1).index_select(0, entry)


def dense_from_edges(layout: Layout, edge_index: Tensor, weight: Tensor) -> DenseGraphs:
    """Graphs from checked edges [2, E] with weights [E], which may require a gradient; duplicates are added."""
    source, target = edge_index
    entry = target * layout.largest + layout.index_in_graph.index_select(0, source)
    block = weight.new_zeros(layout.total * layout.largest).index_add(0, entry, weight)
    return DenseGraphs.from_adj(layout, block.view(layout.total, layout.largest))


def check_padded(x: Tensor, adj: Tensor, mask: Tensor | None) -> None:
    """Raise a DataError unless x is [B, n, D], adj [B, n, n] and mask [B, n] bool."""
    shape = tuple(adj.shape)
    if len(shape) != 3 or shape[1] != shape[2]:
        raise DataError(
            f"expected adj with a square matrix for each graph: [B, n, n], got {list(shape)}"
        )
    if x.dim() != 3 or x.shape[:2] != shape[:2]:
        raise DataError(
            f"expected features [{shape[0]}, {shape[1]}, D] with adj {list(shape)}, got {list(x.shape)}: "
            "pad both in the same way, or give edge_index and batch"
        )
    if mask is not None and (mask.shape != shape[:2] or mask.dtype != torch.bool):
        raise DataError(
            f"expected a mask of booleans [{shape[0]}, {shape[1]}], got {mask.dtype} {list(mask.shape)}"
        )
