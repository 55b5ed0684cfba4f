"""Several GraphSAGE layers with their normalisation as one differentiable operation, on the CPU.

On small graphs a training step is a thousand operations of a few microseconds, and calling them costs more than the
arithmetic. The layer that the paper uses throughout (the convolution, then l2, ReLU and batch normalisation) is
therefore a C kernel, a matrix product and a C kernel here, and all such layers of an encoder are one autograd function.
The slow twin is the modules themselves; `python -m benchmarks.cpu_step` shows what it gains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from diffpool import native
from diffpool.graphs import Graphs, SparseGraphs
from diffpool.native import address
from diffpool.nn.convolutions import Sage
from diffpool.nn.norm import BatchNorm, Steps

ORDER = ("l2", "relu", "batch")
LARGE = (
    2**20
)  # entries above which PyTorch's several threads are used; a guess, not a measured crossover


def fitting_layers(
    graphs: Graphs, x: Tensor, convs: Sequence[nn.Module], steps: Sequence[nn.Module]
) -> int:
    """How many layers, from the first on, `sage_layers` can take over: one model, in training, not too large."""
    values = graphs.adj.values if isinstance(graphs, SparseGraphs) else graphs.adj
    stored = [graphs.inverse_degree] if values is None else [graphs.inverse_degree, values]
    if not (native.suits(x, *stored) and all(t.is_contiguous() for t in stored)):
        return 0
    count = 0
    for conv, after in zip(convs, steps, strict=True):
        if not (
            type(conv) is Sage
            and isinstance(after, Steps)
            and after.names == ORDER
            and after.steps[-1].training
            and conv.linear.models == 1
            and conv.linear.weight.dtype == x.dtype
            and 0 < x.shape[0] * max(conv.linear.num_inputs, conv.linear.num_outputs) <= LARGE
        ):
            break
        count += 1
    return count


def sage_layers(
    graphs: Graphs,
    x: Tensor,
    convs: Sequence[Sage],
    steps: Sequence[Steps],
    concat: bool,
    columns: int | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The layers one after the other: [N, in] → [N, out], the output of the last, or of all side by side.

    `columns` and `mask` narrow the last layer, as in `Encoder.forward`.
    """
    batches = [after.steps[-1] for after in steps]
    widths = [conv.linear.num_outputs for conv in convs]
    if columns is not None:
        widths[-1] = columns
    parameters: list[Tensor | None] = []
    for conv, batch in zip(convs, batches, strict=True):
        assert isinstance(batch, BatchNorm)
        parameters += [conv.linear.weight, conv.linear.bias, batch.weight, batch.bias]
    return _SageLayers.apply(
        x.contiguous(),
        None if isinstance(graphs, SparseGraphs) else graphs.adj,
        graphs.inverse_degree,
        None if mask is None else mask.sum(-1),
        graphs,
        batches,
        widths,
        concat,
        *parameters,
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """Some columns of a matrix, by address."""

    start: int
    distance: int  # between rows, in entries

    @classmethod
    def of(cls, matrix: Tensor, column: int = 0) -> _Part:
        return cls(matrix.data_ptr() + matrix.element_size() * column, matrix.shape[1])


class _SageLayers(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        adj: Tensor | None,
        inverse_degree: Tensor,
        columns: Tensor | None,
        graphs: Graphs,
        batches: list[BatchNorm],
        widths: list[int],
        concat: bool,
        *parameters: Tensor,
    ) -> Tensor:
        n, last = x.shape[0], len(widths) - 1
        wide = x.new_empty(n, sum(widths)) if concat else None
        outs: list[Tensor] = [] if wide is None else [wide]
        source, kept, column = x, [], 0
        part = _Part.of(x)
        for i, (batch, width) in enumerate(zip(batches, widths, strict=True)):
            weight, bias, scale, shift = parameters[4 * i : 4 * i + 4]
            d = x.shape[1] if i == 0 else widths[i - 1]
            beside = _beside(graphs, part, n, d, inverse_degree, x)
            unit = torch.addmm(bias[0, :width], beside, weight[0, :, :width])
            if wide is None:
                source = x.new_empty(n, width)
                outs.append(source)
                part = _Part.of(source)
            else:
                part = _Part.of(wide, column)
                column += width
            length, statistics = x.new_empty(n), x.new_empty(3, width)
            work = x.new_empty(2, width, dtype=torch.float64)
            native.kernels.norm_forward(  # type: ignore[union-attr]
                unit.data_ptr(),
                n,
                width,
                address(columns) if i == last else 0,
                scale.data_ptr(),
                shift.data_ptr(),
                batch.running_mean.data_ptr(),
                batch.running_var.data_ptr(),
                batch.momentum,
                batch.eps,
                length.data_ptr(),
                part.start,
                part.distance,
                statistics.data_ptr(),
                work.data_ptr(),
            )
            kept += [beside, unit, length, statistics]
        ctx.graphs, ctx.widths, ctx.concat = graphs, widths, concat
        ctx.outs = len(outs)
        ctx.save_for_backward(x, inverse_degree, columns, *outs, *parameters, *kept)
        return outs[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        graphs, widths, concat = ctx.graphs, ctx.widths, ctx.concat
        x, inverse_degree, columns, *saved = ctx.saved_tensors
        layers = len(widths)
        outs, saved = saved[: ctx.outs], saved[ctx.outs :]
        parameters, kept = saved[: 4 * layers], saved[4 * layers :]
        n, last = x.shape[0], layers - 1
        grad = grad.contiguous()
        grad_adj = grad_inverse = None
        if ctx.needs_input_grad[1]:
            grad_adj, grad_inverse = torch.zeros_like(graphs.adj), torch.zeros_like(inverse_degree)
        grads: list[Tensor | None] = []
        later: Tensor | None = None  # the gradient of a layer's output from the layers after it
        column = sum(widths)
        for i in range(last, -1, -1):
            weight, _, scale, _ = parameters[4 * i : 4 * i + 4]
            beside, unit, length, statistics = kept[4 * i : 4 * i + 4]
            width = widths[i]
            column -= width
            direct = (
                _Part.of(grad, column) if concat else _Part.of(grad) if i == last else _Part(0, 0)
            )
            grad_h, factor = torch.empty_like(unit), x.new_empty(width)
            # Outputs that this batch does not use have the gradient zero.
            make = torch.empty_like if width == scale.shape[1] else torch.zeros_like
            grad_weight = make(weight)
            grad_bias, grad_scale, grad_shift = make(scale), make(scale), make(scale)
            native.kernels.norm_backward(  # type: ignore[union-attr]
                direct.start,
                direct.distance,
                address(later),
                unit.data_ptr(),
                n,
                width,
                address(columns) if i == last else 0,
                scale.data_ptr(),
                length.data_ptr(),
                statistics.data_ptr(),
                grad_h.data_ptr(),
                grad_bias.data_ptr(),
                grad_scale.data_ptr(),
                grad_shift.data_ptr(),
                factor.data_ptr(),
            )
            torch.mm(beside.T, grad_h, out=grad_weight[0, :, :width])
            grads = [grad_weight, grad_bias, grad_scale, grad_shift, *grads]
            if i > 0 or ctx.needs_input_grad[0] or grad_adj is not None:
                before = x if i == 0 else outs[0] if concat else outs[i - 1]
                part = _Part.of(before, column - widths[i - 1] if concat and i > 0 else 0)
                grad_beside = grad_h @ weight[0, :, :width].T
                later = _beside_backward(
                    graphs, grad_beside, part, inverse_degree, beside, grad_adj, grad_inverse
                )
        grad_x = later if ctx.needs_input_grad[0] else None
        return grad_x, grad_adj, grad_inverse, None, None, None, None, None, *grads


def _beside(
    graphs: Graphs, x: _Part, n: int, d: int, inverse_degree: Tensor, like: Tensor
) -> Tensor:
    """[X, D⁻¹AX]: [N, 2 d]."""
    beside = like.new_empty(n, 2 * d)
    if isinstance(graphs, SparseGraphs):
        a = graphs.adj
        native.kernels.beside_sparse(  # type: ignore[union-attr]
            x.start,
            x.distance,
            n,
            d,
            a.indptr.data_ptr(),
            a.indices.data_ptr(),
            address(a.values),
            inverse_degree.data_ptr(),
            beside.data_ptr(),
        )
    else:
        native.kernels.beside_dense(  # type: ignore[union-attr]
            x.start,
            x.distance,
            d,
            graphs.adj.data_ptr(),
            graphs.adj.stride(0),
            graphs.layout.sizes.data_ptr(),
            len(graphs),
            inverse_degree.data_ptr(),
            beside.data_ptr(),
        )
    return beside


def _beside_backward(
    graphs: Graphs,
    grad: Tensor,
    x: _Part,
    inverse_degree: Tensor,
    beside: Tensor,
    grad_adj: Tensor | None,
    grad_inverse: Tensor | None,
) -> Tensor:
    """The gradient of X from that of [X, D⁻¹AX]; those of A and D⁻¹ are added to grad_adj and grad_inverse."""
    n, d = grad.shape[0], grad.shape[1] // 2
    grad_x = grad.new_empty(n, d)
    if isinstance(graphs, SparseGraphs):
        a = graphs.adj_t
        native.kernels.beside_sparse_backward(  # type: ignore[union-attr]
            grad.data_ptr(),
            n,
            d,
            a.indptr.data_ptr(),
            a.indices.data_ptr(),
            address(a.values),
            inverse_degree.data_ptr(),
            grad_x.data_ptr(),
        )
        return grad_x
    if grad_adj is None or grad_inverse is None:  # nobody asks: let the kernel write them nowhere
        grad_adj, grad_inverse = torch.zeros_like(graphs.adj), torch.zeros_like(inverse_degree)
    scaled = torch.empty_like(grad_x)
    native.kernels.beside_dense_backward(  # type: ignore[union-attr]
        grad.data_ptr(),
        x.start,
        x.distance,
        d,
        graphs.adj.data_ptr(),
        graphs.adj.stride(0),
        graphs.layout.sizes.data_ptr(),
        len(graphs),
        inverse_degree.data_ptr(),
        beside.data_ptr(),
        scaled.data_ptr(),
        grad_x.data_ptr(),
        grad_adj.data_ptr(),
        grad_inverse.data_ptr(),
    )
    return grad_x
