"""A GNN of several convolutions on one level: Z = GNN(A, X), equation 5 and the inside of equation 6."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from diffpool.graphs import Graphs
from diffpool.nn import fused
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
        width = sum(sizes[1:]) if concat else sizes[-1]
        self.linear = None if outputs is None else Linear(width, outputs, models=models)
        self.num_outputs = width if outputs is None else outputs

    def forward(
        self, graphs: Graphs, x: Tensor, columns: int | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """[N, in] → [N, out]; the last convolution only has its first `columns`, cut by `mask` [N, columns]."""
        layers = []
        for conv, steps in zip(self.convs[:-1], self.steps[:-1], strict=True):
            x = _layer(graphs, x, conv, steps)
            layers.append(x)
        conv, steps = self.convs[-1], self.steps[-1]
        if columns is None:
            x = _layer(graphs, x, conv, steps)
        else:
            x = conv(graphs, x, columns)
            x = steps(graphs, x if mask is None else x * mask, mask)
        layers.append(x)
        x = torch.cat(layers, -1) if self.concat else x
        return x if self.linear is None else self.linear(x, columns)


def _layer(graphs: Graphs, x: Tensor, conv: nn.Module, steps: Steps) -> Tensor:
    if fused.fits(graphs, x, conv, steps):
        return fused.sage_layer(graphs, x, conv, steps)
    return steps(graphs, conv(graphs, x))
