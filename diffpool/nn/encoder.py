"""A GNN of several convolutions on one level: Z = GNN(A, X), equation 5 and the inside of equation 6."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from diffpool.backends import select as native
from diffpool.backends.cpu import encoder as fused
from diffpool.backends.triton import encoder as fused_gpu
from diffpool.errors import DataError
from diffpool.graphs import Graphs
from diffpool.layout import Layout, column_mask
from diffpool.nn.linear import Linear
from diffpool.nn.norm import Steps

MakeConv = Callable[..., nn.Module]  # (num_inputs, num_outputs, models=M) → convolution


class Encoder(nn.Module):
    """Convolutions of widths `sizes[0]` → `sizes[1]` → …, each followed by the steps of `order`.

    After the last convolution come the steps of `last_order`. With `concat` the output is that of all layers side by
    side. `outputs` adds a linear layer at the end (the released code's assignment network).
    """

    def __init__(
        self,
        conv: MakeConv,
        sizes: Sequence[int],
        order: Sequence[str] = ("batch", "relu", "l2"),
        last_order: Sequence[str] | None = None,
        concat: bool = False,
        outputs: int | None = None,
        models: int = 1,
    ):
        super().__init__()
        last_order = order if last_order is None else last_order
        self.concat = concat
        self.convs = nn.ModuleList(conv(i, o, models=models) for i, o in pairwise(sizes))
        orders = [order] * (len(self.convs) - 1) + [last_order]
        self.steps = nn.ModuleList(
            Steps(names, width, models) for names, width in zip(orders, sizes[1:], strict=True)
        )
        self.widths = tuple(sizes[1:])
        width = sum(sizes[1:]) if concat else sizes[-1]
        self.linear = None if outputs is None else Linear(width, outputs, models=models)
        self.num_outputs = width if outputs is None else outputs

    def forward(self, graphs: Graphs, x: Tensor, clusters: Layout | None = None) -> Tensor:
        """[N, in] → [N, out]; with `clusters` the last convolution has local columns, one for each cluster."""
        if x.shape[0] != graphs.num_nodes:
            raise DataError(
                f"expected one row of features for each of {graphs.num_nodes} nodes, got {x.shape[0]}"
            )
        convs, steps = list(self.convs), list(self.steps)
        if fused_gpu.fits(graphs, x, convs, steps):
            end = (self.concat, clusters, self.linear)
            return fused_gpu.sage_layers(graphs, x, convs, steps, *end)  # type: ignore[arg-type]
        taken = fused.fitting_layers(graphs, x, convs, steps)
        outs = []
        if taken:
            complete = taken == len(convs)
            last = (clusters, self.linear) if complete else (None, None)
            x = fused.sage_layers(graphs, x, convs[:taken], steps[:taken], self.concat, *last)  # type: ignore[arg-type]
            if complete:
                return x
            outs.append(x)
            if self.concat:
                x = x[:, -self.widths[taken - 1] :]
        for i in range(taken, len(convs) - 1):
            x = steps[i](graphs, convs[i](graphs, x))
            outs.append(x)
        columns = None if clusters is None else clusters.largest
        mask = None if clusters is None else column_mask(graphs.layout, clusters)
        x = _masked(convs[-1](graphs, x, columns), mask)
        x = steps[-1](graphs, x, clusters)
        if self.concat:
            x = torch.cat([*outs, x], -1)
        if self.linear is not None:
            x = self.linear(x, columns)
        return _masked(x, mask) if native.suits_triton(x) else x


class Unchanged(nn.Module):
    """An encoder that leaves the features as they are, for a readout that sees the graph itself."""

    def __init__(self, width: int):
        super().__init__()
        self.num_outputs = width

    def forward(self, graphs: Graphs, x: Tensor) -> Tensor:
        return x


def _masked(x: Tensor, mask: Tensor | None) -> Tensor:
    """Zero where a row does not have the column; so is its gradient, whatever it was given."""
    return x if mask is None else x.masked_fill(~mask[:, : x.shape[1]], 0)
