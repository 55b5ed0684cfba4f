"""The convolutional network of PATCHY-SAN (Niepert, Ahmed and Kutzkov, 2016) as the readout of a classifier."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from diffpool.errors import DataError
from diffpool.graphs import SparseGraphs
from diffpool.nn.linear import Linear


class FieldConvolution(nn.Module):
    """Two 1-dimensional convolutions over the receptive fields of each graph, and a dense layer: [N, F] → [B, hidden].

    `graphs.prepared.graphs` has `length` fields of `size` nodes for each graph, and with `channels` of the edges their
    `size` × `size` edges as well, all numbered within the graph (`receptive_fields`): one row
    after the other, [B, length · size] or [B, length · size · (1 + size)]; −1 is a dummy, whose features are zero. The
    first convolution sees one field at a time, the second `width` fields of the sequence, without padding unless it is
    shorter. Dropout and the softmax layer are the head of the classifier.

    The paper merges the convolutions of nodes and of edges and does not say how: here their filters are concatenated,
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
            first = graphs.adj.indptr[starts]
            edges = _rows(values, fields[:, length * size :], first)  # [B · w · k · k, C]
            edges = edges.view(len(fields) * length, size**2 * self.channels)
            x = torch.cat([x, self.edges(edges).relu()], 1)  # [B · w, 32]
        x = x.view(len(fields), length, x.shape[1])
        x = pad(x, (0, 0, 0, max(self.width - length, 0)))
        windows = x.unfold(1, self.width, 1).flatten(2)  # [B, w − 9, 16 · 10]
        x = self.sequence(windows.flatten(0, 1)).relu()  # [B · (w − 9), 8]
        return self.dense(x.view(len(fields), self.steps * x.shape[1])).relu()

    def _fields(self, graphs: SparseGraphs) -> Tensor:
        """[B, …]: what was prepared, with dummies only for a graph without nodes."""
        if len(graphs.channels) < self.channels:
            raise DataError(
                f"expected {self.channels} edge features, got {len(graphs.channels)}: "
                "give every edge the features that the model was made for"
            )
        fields = graphs.prepared.graphs
        numbers = self.length * self.size * (1 + self.size if self.channels else 1)
        if fields is None or fields.shape[1:] != (numbers,):
            got = "none" if fields is None else list(fields.shape[1:])
            raise DataError(
                f"expected {numbers} numbers of receptive fields prepared for each graph, got {got}: "
                f"prepare {self.length} fields of {self.size} nodes"
            )
        return fields.masked_fill((graphs.layout.device_sizes == 0)[:, None], -1)


def _rows(values: Tensor, numbers: Tensor, starts: Tensor) -> Tensor:
    """The rows that are numbered from `starts` [B] on, zero for −1: [R, D], [B, L] → [B · L, D]."""
    rows = torch.where(numbers < 0, len(values), numbers + starts[:, None])
    return torch.cat([values, values.new_zeros(1, values.shape[1])])[rows.flatten()]
