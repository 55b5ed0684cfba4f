"""A whole GraphSAGE layer with its normalisation as one differentiable operation.

On small graphs a training step is a thousand operations of a few microseconds, and calling them costs more than the
arithmetic. The layer that the paper uses most (the convolution, then l2, ReLU and batch normalisation) is therefore one
autograd function here: 10 calls forward and 12 backward, where the modules need 16 and 30. Its slow twin is the modules
themselves.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from diffpool.graphs import Graphs
from diffpool.nn.convolutions import Sage
from diffpool.nn.norm import BatchNorm, Steps

ORDER = ("l2", "relu", "batch")
TINY = 1e-12  # as in torch.nn.functional.normalize


def fits(graphs: Graphs, x: Tensor, conv: torch.nn.Module, steps: Steps) -> bool:
    """Whether `sage_layer` does what conv and steps do: one model, in training, with enough nodes for statistics."""
    return (
        type(conv) is Sage
        and steps.names == ORDER
        and steps.training
        and conv.linear.models == 1
        and x.shape[0] > 1
        and not torch.compiler.is_compiling()
    )


def sage_layer(graphs: Graphs, x: Tensor, conv: Sage, steps: Steps) -> Tensor:
    """steps(graphs, conv(graphs, x)): [N, in] → [N, out]."""
    batch = steps.steps[-1]
    assert isinstance(batch, BatchNorm)
    return _SageLayer.apply(
        x,
        conv.linear.weight.squeeze(0),
        conv.linear.bias.squeeze(0),
        batch.weight.squeeze(0),
        batch.bias.squeeze(0),
        graphs.adj if isinstance(graphs.adj, Tensor) else None,
        graphs.inverse_degree,
        graphs,
        batch,
    )


class _SageLayer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        scale: Tensor,
        shift: Tensor,
        adj: Tensor | None,
        inverse_degree: Tensor,
        graphs: Graphs,
        batch: BatchNorm,
    ) -> Tensor:
        width = x.shape[1]
        total = graphs.apply_adjacency(x)  # A X
        beside = x.new_empty(x.shape[0], 2 * width)  # [X, D⁻¹AX]
        beside[:, :width] = x
        torch.mul(total, inverse_degree[:, None], out=beside[:, width:])
        h = torch.addmm(bias, beside, weight)
        length = torch.linalg.vector_norm(h, dim=1, keepdim=True).clamp_(min=TINY)
        unit = h.div_(length)
        positive = unit.relu()
        out, mean, inverse_sd = torch.native_batch_norm(
            positive,
            scale,
            shift,
            batch.running_mean.squeeze(0),
            batch.running_var.squeeze(0),
            True,
            batch.momentum,
            batch.eps,
        )
        ctx.graphs, ctx.eps = graphs, batch.eps
        ctx.save_for_backward(
            x, total, beside, unit, length, positive, mean, inverse_sd, weight, scale, inverse_degree
        )
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, total, beside, unit, length, positive, mean, inverse_sd, weight, scale, inverse_degree = (
            ctx.saved_tensors
        )
        aten = torch.ops.aten
        grad, grad_scale, grad_shift = aten.native_batch_norm_backward(
            grad, positive, scale, None, None, mean, inverse_sd, True, ctx.eps, (True, True, True)
        )
        grad = aten.threshold_backward(grad, unit, 0)  # ReLU
        along = torch.linalg.vecdot(grad, unit).unsqueeze(1)
        grad = grad.addcmul_(unit, along, value=-1).div_(length)  # l2
        grad_weight, grad_bias = beside.T @ grad, grad.sum(0)
        grad_beside = grad @ weight.T
        width = x.shape[1]
        grad_mean = grad_beside[:, width:]
        grad_total = grad_mean * inverse_degree[:, None]
        grad_x = grad_adj = grad_inverse = None
        if ctx.needs_input_grad[0]:
            grad_x = ctx.graphs.apply_transpose(grad_total).add_(grad_beside[:, :width])
        if ctx.needs_input_grad[5]:
            grad_adj = ctx.graphs.adjacency_gradient(grad_total, x)
        if ctx.needs_input_grad[6]:
            grad_inverse = torch.linalg.vecdot(grad_mean, total)
        return grad_x, grad_weight, grad_bias, grad_scale, grad_shift, grad_adj, grad_inverse, None, None
