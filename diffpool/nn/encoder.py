"""A GNN of several convolutions on one level: Z = GNN(A, X), equation 5 and the inside of equation 6."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from diffpool.errors import DataError
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
        if x.shape[0] != graphs.num_nodes:
            raise DataError(
                f"expected one row of features for each of {graphs.num_nodes} nodes, got {x.shape[0]}"
            )
        convs, steps = list(self.convs), list(self.steps)
        layers = []
        taken = fused.fitting_layers(graphs, x, convs, steps)
        if taken:
            narrow = (columns, mask) if taken == len(convs) else (None, None)
            wide = fused.sage_layers(graphs, x, convs[:taken], steps[:taken], self.concat, *narrow)  # type: ignore[arg-type]
            layers.append(wide)
            x = wide[:, -self.convs[taken - 1].linear.num_outputs :] if self.concat else wide  # type: ignore[union-attr, operator]
        for i in range(taken, len(convs)):
            narrow = (columns, mask) if i == len(convs) - 1 else (None, None)
            x = _layer(graphs, x, convs[i], steps[i], *narrow)
            layers.append(x)
        if self.concat:
            x = torch.cat(layers, -1) if len(layers) > 1 else layers[0]
        return x if self.linear is None else self.linear(x, columns)


def _layer(
    graphs: Graphs,
    x: Tensor,
    conv: nn.Module,
    steps: nn.Module,
    columns: int | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    x = conv(graphs, x, columns) if columns is not None else conv(graphs, x)
    return steps(graphs, x if mask is None else x * mask, mask)
