"""The convolutional network of PATCHY-SAN (Niepert, Ahmed and Kutzkov, 2016) as a readout."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from diffpool.errors import DataError
from diffpool.graphs import SparseGraphs
from diffpool.nn.linear import Linear


class FieldConvolution(nn.Module):
    """Two 1-D convolutions over the receptive fields of each graph, and a dense layer: [N, F] → [B, hidden].

    `graphs.prepared.graphs` has a row for each graph: the nodes of `length` fields of `size` nodes each, followed by
    their `size` × `size` edges if `channels` > 0: [B, length · size] or [B, length · size · (1 + size)]. Nodes and
    edges are numbered within the graph (`receptive_fields`, `field_edges`); −1 is padding, with zeros as features. The
    first convolution sees one field at a time. The second has kernel size `width`, and pads only shorter sequences.
    Dropout and the softmax layer belong to the head of the classifier.

    The paper does not say how it merges the convolutions over nodes and edges: here their outputs are concatenated
    before the second convolution.
    """

    def __init__(
        self,
        num_inputs: int,
        length: int,
        size: int,
        channels: int = 0,
        filters: tuple[int, int] = (16, 8),
        width: int = 10,
        hidden: int = 128,
        models: int = 1,
    ):
        super().__init__()
        self.length, self.size, self.width, self.channels = length, size, width, channels
        self.num_outputs = hidden
        self.steps = max(length - width, 0) + 1
        first, second = filters
        self.nodes = Linear(size * num_inputs, first, models=models)
        self.edges = Linear(size**2 * channels, first, models=models) if channels else None
        merged = 2 * first if channels else first
        self.sequence = Linear(width * merged, second, models=models)
        self.dense = Linear(self.steps * second, hidden, models=models)

    def forward(self, graphs: SparseGraphs, h: Tensor) -> Tensor:
        fields = self._fields(graphs)
        starts, length, size = graphs.layout.device_starts, self.length, self.size
        nodes = _rows(h, fields[:, : length * size], starts)  # [B · w · k, F]
        x = self.nodes(nodes.view(len(fields) * length, size * h.shape[1])).relu()  # [B · w, 16]
        if self.edges is not None:
            values = torch.stack([channel.values for channel in graphs.channels], 1)  # [E, C]
            edges = _rows(
                values, fields[:, length * size :], graphs.first_edges
            )  # [B · w · k · k, C]
            edges = edges.view(len(fields) * length, size**2 * self.channels)
            x = torch.cat([x, self.edges(edges).relu()], 1)  # [B · w, 32]
        x = x.view(len(fields), length, x.shape[1])
        x = pad(x, (0, 0, 0, max(self.width - length, 0)))
        windows = x.unfold(1, self.width, 1).flatten(2)  # [B, w − 9, 16 · 10]
        x = self.sequence(windows.flatten(0, 1)).relu()  # [B · (w − 9), 8]
        return self.dense(x.view(len(fields), self.steps * x.shape[1])).relu()

    def _fields(self, graphs: SparseGraphs) -> Tensor:
        """The precomputed fields, all padding for an empty graph: [B, …]."""
        if len(graphs.channels) < self.channels:
            raise DataError(
                f"expected {self.channels} edge features, got {len(graphs.channels)}: "
                "give every edge the features that the model was built for"
            )
        fields = graphs.prepared.graphs
        width = self.length * self.size * (1 + self.size if self.channels else 1)
        if fields is None or fields.shape[1] != width:
            got = "none" if fields is None else f"rows of length {fields.shape[1]}"
            raise DataError(
                f"expected receptive fields in rows of length {width}, one for each graph, got {got}: "
                f"prepare {self.length} fields of {self.size} nodes"
            )
        return fields.masked_fill((graphs.layout.device_sizes == 0)[:, None], -1)


def _rows(values: Tensor, numbers: Tensor, starts: Tensor) -> Tensor:
    """Gather rows, where `numbers` count from `starts` [B] and −1 gives zeros: [R, D], [B, L] → [B · L, D]."""
    rows = torch.where(numbers < 0, len(values), numbers + starts[:, None])
    return torch.cat([values, values.new_zeros(1, values.shape[1])])[rows.flatten()]
