"""Graphs whose edges can be switched off gradually: the messages along an edge are multiplied by its gate."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from diffpool.graphs import Graphs, SparseGraphs
from diffpool.layout import Layout


class GatedGraphs:
    """A batch of edge lists with a gate [E] for every entry of A; gradients flow to the gates.

    Row i of A H is Σ gate · weight · h_source. The degrees are those of the graphs without gates. So a mean over the
    neighbors depends on a common gate of all edges, and it fades out continuously.
    """

    def __init__(self, graphs: SparseGraphs, gate: Tensor):
        self.layout: Layout = graphs.layout
        self.degree, self.inverse_degree = graphs.degree, graphs.inverse_degree
        self.channels = graphs.channels
        self.adj, self.gate = graphs.adj, gate
        self.target = edge_targets(graphs)

    def __len__(self) -> int:
        return len(self.layout)

    @property
    def num_nodes(self) -> int:
        return self.layout.total

    def propagate(self, h: Tensor) -> Tensor:
        """A H with gates: [N, D] → [N, D]."""
        return self._sums(self.adj.values, h)

    def propagate_channel(self, channel: int, h: Tensor) -> Tensor:
        """E_c H with gates: [N, D] → [N, D]."""
        return self._sums(self.channels[channel].values, h)

    def propagate_mean(self, h: Tensor) -> Tensor:
        """D⁻¹A H with gates: [N, D] → [N, D]."""
        return self.propagate(h) * self.inverse_degree[:, None]

    def _sums(self, values: Tensor | None, h: Tensor) -> Tensor:
        gate = self.gate if values is None else self.gate * values
        messages = h.index_select(0, self.adj.indices) * gate[:, None]  # [E, D]
        return torch.zeros_like(h).index_add(0, self.target, messages)


def edge_targets(graphs: SparseGraphs) -> Tensor:
    """The node that each entry of A points to: [E]."""
    indptr = graphs.adj.indptr
    nodes = torch.arange(len(indptr) - 1, device=indptr.device)
    return torch.repeat_interleave(nodes, indptr.diff(), output_size=len(graphs.adj.indices))


def gated(graphs: Graphs, gate: Tensor) -> Graphs:
    """The graphs with gated messages, for the convolutions of one level."""
    if isinstance(graphs, SparseGraphs):
        return cast(SparseGraphs, GatedGraphs(graphs, gate))
    channels = tuple(channel * gate for channel in graphs.channels)
    return replace(graphs, adj=graphs.adj * gate, channels=channels)
