"""A stack of graph convolutions on one level: Z = GNN(A, X), equation 5 and the GNN inside equation 6."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from diffpool.backends import accelerated
from diffpool.errors import DataError
from diffpool.graphs import Graphs
from diffpool.layout import Layout, column_mask
from diffpool.nn.linear import Linear
from diffpool.nn.norm import Steps

MakeConv = Callable[..., nn.Module]  # (num_inputs, num_outputs, models=M) → convolution


class Encoder(nn.Module):
    """Convolutions with widths `sizes[0]` → `sizes[1]` → …, each followed by the steps in `order`.

    The last convolution is followed by the steps in `last_order` instead. With `concat`, the outputs of all layers are
    concatenated. `outputs` adds a final linear layer of this width (as in the released code's assignment network).

    Examples:
        >>> from diffpool.nn import Sage
        >>> Encoder(Sage, [3, 16, 8])(graphs, x).shape  # two layers: [N, 3] → [N, 8]
        torch.Size([7, 8])
        >>> Encoder(Sage, [3, 16, 8], concat=True, outputs=5)(graphs, x).shape  # 16 + 8 columns, then a linear layer
        torch.Size([7, 5])
    """

    def __init__(
        self,
        conv: MakeConv,
        sizes: Sequence[int],
        order: Sequence[str] = ("l2", "relu", "batch"),
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

    def forward(self, graphs: Graphs, x: Tensor, clusters: Layout | None = None) -> Tensor:
        """[N, in] → [N, out]; with `clusters`, the output of the last convolution has local columns: [N, W]."""
        if x.shape[0] != graphs.num_nodes:
            raise DataError(
                f"expected one row of features for each of {graphs.num_nodes} nodes, got {x.shape[0]}"
            )
        return encode(graphs, x, self, clusters)


@accelerated
def encode(graphs: Graphs, x: Tensor, encoder: Encoder, clusters: Layout | None) -> Tensor:
    """Run the layers of an encoder in sequence: [N, in] → [N, out]."""
    columns = None if clusters is None else clusters.largest
    outputs = []
    *earlier, (last_conv, last_steps) = zip(encoder.convs, encoder.steps, strict=True)
    for conv, steps in earlier:
        x = steps(graphs, conv(graphs, x))
        outputs.append(x)
    x = _masked(last_conv(graphs, x, columns), graphs.layout, clusters)
    x = last_steps(graphs, x, clusters)
    if encoder.concat:
        x = torch.cat([*outputs, x], -1)
    if encoder.linear is not None:
        x = _masked(encoder.linear(x, columns), graphs.layout, clusters)
    if clusters is not None and x.shape[1] < clusters.largest:  # the layout has spare columns
        x = pad(x, (0, clusters.largest - x.shape[1]))
    return x


def _masked(x: Tensor, rows: Layout, clusters: Layout | None) -> Tensor:
    """Set the columns that a row does not have to zero, and their gradients too."""
    mask = None if clusters is None else column_mask(rows, clusters)
    return x if mask is None else x.masked_fill(~mask[:, : x.shape[1]], 0)


@accelerated
def encode_level(
    graphs: Graphs, x: Tensor, encoder: nn.Module, gnn: nn.Module | None, clusters: Layout | None
) -> tuple[Tensor, Tensor | None]:
    """Run both networks of a level, GNN_embed and GNN_pool, which read the same input independently."""
    return encoder(graphs, x), None if gnn is None else gnn(graphs, x, clusters)


class Unchanged(nn.Module):
    """An encoder that returns the features unchanged, for readouts that process the graph themselves."""

    def __init__(self, width: int):
        super().__init__()
        self.num_outputs = width

    def forward(self, graphs: Graphs, x: Tensor) -> Tensor:
        return x
