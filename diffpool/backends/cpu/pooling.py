"""The pooling of a level in one call, as a differentiable function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from diffpool.backends import kernel
from diffpool.backends.cpu import _kernels  # type: ignore[attr-defined]
from diffpool.backends.cpu.arguments import ALONE, describe_graphs, fits, suits
from diffpool.backends.cpu.threads import num_threads
from diffpool.equations import PoolingStep, pooled_channels
from diffpool.graphs import DenseGraphs, Graphs, SparseGraphs
from diffpool.layout import Layout

# Multiplications in the pooling of one graph above which PyTorch's products, with all threads, are faster.
LARGE_GRAPH = 2**32


def _accepts_pool(graphs: Graphs, logits: Tensor, z: Tensor, clusters: Layout) -> bool:
    n, k = graphs.layout.largest, clusters.largest
    return (
        n * k * (z.shape[-1] + 4 * k) <= LARGE_GRAPH
        and min(logits.numel(), z.numel()) > 0
        and logits.shape == (graphs.layout.total, k)
        and z.dim() == 2
        and len(z) == graphs.layout.total
        and fits(graphs, clusters, k)
        and suits(graphs, logits, z)
    )


@kernel("equations.pool", "cpu", _accepts_pool)
def pool(graphs: Graphs, logits: Tensor, z: Tensor, clusters: Layout) -> PoolingStep:
    """Compute equations 3, 4 and 6 and both losses in one call."""
    adj = graphs.adj if isinstance(graphs, DenseGraphs) else None
    s, x, pooled, degree, inverse, link, entropy = _Pool.apply(logits, z, adj, graphs, clusters)
    channels = pooled_channels(graphs, s, clusters)
    coarse = DenseGraphs(clusters, pooled, degree, inverse, channels)
    return PoolingStep(s, x, coarse, link, entropy)


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        z: Tensor,
        adj: Tensor | None,
        graphs: Graphs,
        clusters: Layout,
    ) -> tuple[Tensor, ...]:
        (n, width), k, b = logits.shape, clusters.total, len(graphs)
        s, propagated = logits.new_empty(2, n, width).unbind()
        pooled, gram = logits.new_empty(2, k, width).unbind()
        x, log_sum = logits.new_empty(k, z.shape[1]), logits.new_empty(n)
        degree, inverse = logits.new_empty(2, k).unbind()
        link, entropy = logits.new_empty(2, b).unbind()
        outputs = (s, x, pooled, degree, inverse, link, entropy, propagated, gram, log_sum)
        work = n * width * (z.shape[1] + 2 * width)
        ctx.threads = num_threads() if work > ALONE else 1
        words = _Pool.describe(graphs, clusters, logits, z, outputs)
        _kernels.pool_forward(ctx.threads, *words)
        ctx.graphs, ctx.clusters = graphs, clusters
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(logits, z, *outputs)
        return outputs[:7]

    @staticmethod
    def describe(
        graphs: Graphs, clusters: Layout, logits: Tensor, z: Tensor, outputs: Sequence[Tensor]
    ) -> list[Any]:
        """The arguments that `take_pooling` in `kernels.c` reads."""
        norm = graphs.squared_norm if isinstance(graphs, SparseGraphs) else None
        widths = (clusters.total, logits.shape[1], z.shape[1])
        cluster_layout = (clusters.sizes, clusters.starts)
        return [*describe_graphs(graphs), *widths, *cluster_layout, logits, z, norm, *outputs]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        graphs, clusters = ctx.graphs, ctx.clusters
        logits, z, *outputs = ctx.saved_tensors
        given = [None if g is None else g.contiguous() for g in grads]
        grad_logits, grad_z = torch.empty_like(logits), torch.empty_like(z)
        grad_adj = torch.empty_like(graphs.adj) if ctx.needs_input_grad[2] else None
        transposed: list[Any] = []
        if isinstance(graphs, SparseGraphs):
            transposed = [graphs.adj_t.indptr, graphs.adj_t.indices, graphs.adj_t.values]
        words = _Pool.describe(graphs, clusters, logits, z, outputs)
        _kernels.pool_backward(
            ctx.threads, *words, *transposed, *given, grad_logits, grad_z, grad_adj
        )
        return grad_logits, grad_z, grad_adj, None, None
