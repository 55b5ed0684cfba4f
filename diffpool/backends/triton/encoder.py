"""An encoder's layers and the pooling of a level on a GPU, by the Triton kernels of `cuda`.

They compute what each graph has and nothing else: no rows of no graph, no columns of clusters that a graph does not
have. What they leave unwritten, they do not read. The slow twins are the modules and `equations`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from diffpool.backends import select as native
from diffpool.graphs import DenseGraphs, Graphs, SparseGraphs
from diffpool.layout import Layout
from diffpool.nn.convolutions import Sage
from diffpool.nn.linear import Linear
from diffpool.nn.norm import Steps


def fits(graphs: Graphs, x: Tensor, convs: Sequence[nn.Module], steps: Sequence[nn.Module]) -> bool:
    """Whether `sage_layers` can take over."""
    return native.suits_triton(x) and all(
        type(conv) is Sage and isinstance(after, Steps) and after.fits_gpu(graphs, x)
        for conv, after in zip(convs, steps, strict=True)
    )


def sage_layers(
    graphs: Graphs,
    x: Tensor,
    convs: Sequence[Sage],
    steps: Sequence[Steps],
    concat: bool,
    clusters: Layout | None,
    linear: Linear | None,
) -> Tensor:
    """The layers one after the other, as in `Encoder.forward`: [N, in] → [N, out].

    With `clusters` the columns that a node does not have are not written.
    """
    from diffpool.backends.triton.linear import LocalLinear

    rows, outs = graphs.layout, []
    for i, (conv, after) in enumerate(zip(convs, steps, strict=True)):
        local = clusters if i == len(convs) - 1 else None
        own, mean, x = graphs.with_mean(x)
        if i > 0:
            outs.append(x)
        weight, bias = conv.linear.weight, conv.linear.bias
        x = LocalLinear.apply(own, mean, weight, bias, rows, local, False, i == 0)
        x = after.on_gpu(graphs, x, local, clean=local is None)
    outs.append(x)
    if clusters is not None and linear is not None:
        before = torch.cat(outs[:-1], -1) if concat and len(outs) > 1 else x[:, :0]
        return LocalLinear.apply(before, x, linear.weight, linear.bias, rows, clusters, True, False)
    if concat and len(outs) > 1:
        x = torch.cat(outs, -1)
    if linear is None:
        return x
    return LocalLinear.apply(x, None, linear.weight, linear.bias, rows, clusters, False, True)


def fits_pooling(graphs: Graphs, logits: Tensor, z: Tensor) -> bool:
    """Whether `pool` can take over."""
    return (
        not graphs.channels
        and native.suits_triton(logits, z)
        and min(logits.numel(), z.numel()) > 0
    )


def pool(
    graphs: Graphs, logits: Tensor, z: Tensor, clusters: Layout
) -> tuple[Tensor, Tensor, DenseGraphs, Tensor, Tensor]:
    """S, X', A' and the link and entropy losses: `equations.assignment` to `equations.entropy_loss`."""
    from diffpool.backends.triton.pool import Pool

    adj, sums = graphs.shared_adj() if isinstance(graphs, DenseGraphs) else (None, {})
    symmetric = isinstance(graphs, SparseGraphs) and graphs.adj is graphs.adj_t
    s, x, pooled, degree, inverse, link, entropy = Pool.apply(
        logits, z, adj, graphs, clusters, symmetric, sums
    )
    return s, x, DenseGraphs(clusters, pooled, degree, inverse), link, entropy
