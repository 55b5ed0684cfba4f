"""SortPool as a readout, followed by the layers of DGCNN (Zhang, Cui, Neumann and Chen, 2018)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from diffpool.graphs import Graphs
from diffpool.layout import Layout
from diffpool.nn.linear import Linear

MIN_NODES = 10  # with fewer, the second convolution would have no input


class SortPool(nn.Module):
    """Sort the nodes of each graph by their last column, keep `nodes` of them, then convolve: [N, D] → [B, hidden].

    Two 1-D convolutions and a dense layer follow. The first convolution (`filters[0]`) sees one node at a time; after
    max pooling over pairs, the second (`filters[1]`) has kernel size `width`. Smaller graphs are padded with zeros.
    Deviation: nodes with equal last columns keep their order, where the authors compare the preceding columns.
    """

    def __init__(
        self,
        num_inputs: int,
        nodes: int,
        filters: tuple[int, int] = (16, 32),
        width: int = 5,
        hidden: int = 128,
        models: int = 1,
    ):
        super().__init__()
        self.nodes, self.width, self.num_outputs = max(nodes, MIN_NODES), width, hidden
        self.first = Linear(num_inputs, filters[0], models=models)
        self.second = Linear(width * filters[0], filters[1], models=models)
        windows = self.nodes // 2 - width + 1
        self.dense = Linear(windows * filters[1], hidden, models=models)

    def forward(self, graphs: Graphs, h: Tensor) -> Tensor:
        chosen = sorted_nodes(h, graphs.layout, self.nodes)  # [B, k, D]
        count, length = len(chosen), self.nodes // 2
        first = self.first(chosen.flatten(0, 1)).relu().unflatten(0, (count, self.nodes))
        pairs = first[:, : 2 * length].unflatten(1, (length, 2)).amax(2)  # [B, k/2, C]
        windows = pairs.unfold(1, self.width, 1).transpose(2, 3)  # [B, windows, width, C]
        second = self.second(windows.flatten(2).flatten(0, 1)).relu()
        return self.dense(second.unflatten(0, (count, windows.shape[1])).flatten(1)).relu()


def sorted_nodes(h: Tensor, layout: Layout, nodes: int) -> Tensor:
    """The `nodes` nodes of each graph with the largest last columns, largest first: [N, D] → [B, nodes, D]."""
    by_value = torch.argsort(h[:, -1].detach(), descending=True, stable=True)
    by_graph = torch.argsort(layout.graph_of_row[by_value], stable=True)
    order = torch.cat([by_value[by_graph], by_graph.new_full((1,), len(h))])  # [N + 1]
    # in `order`; rows outside all graphs come last
    first = layout.device_sizes.cumsum(0) - layout.device_sizes
    rank = torch.arange(nodes, device=h.device)
    index = torch.where(rank < layout.device_sizes[:, None], first[:, None] + rank, len(h))
    return torch.cat([h, h.new_zeros(1, h.shape[1])])[order[index]]
