"""l2, ReLU and batch normalisation of M models' rows on a GPU, as Triton kernels: two forward, two backward.

The same steps as modules are some seventy small kernels. A program has some rows of one model; sums over all rows of a
model are gathered from those of its programs, in their order, so that a result repeats to the bit. The slow twin is
`nn.norm.Steps`.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

ENTRIES = 8192  # of a program's tile


@triton.jit
def _tile(rows, chunk, d, counts, COUNTED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Rows, columns and mask of a program's tile."""
    local = chunk * ROWS + tl.arange(0, ROWS)
    row = tl.program_id(0) * rows + local
    column = tl.arange(0, COLUMNS)
    inside = local < rows
    mask = inside[:, None] & (column < d)[None, :]
    if COUNTED:
        count = tl.load(counts + row, mask=inside, other=0)
        mask = mask & (column[None, :] < count[:, None])
    return row.to(tl.int64), column, mask, inside


@triton.jit
def _forward_sums(
    h, unit, length, partial, counts, rows, d, chunks,
    L2: tl.constexpr, RELU: tl.constexpr, COUNTED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    chunk = tl.program_id(1)
    row, column, mask, inside = _tile(rows, chunk, d, counts, COUNTED, ROWS, COLUMNS)
    whole = inside[:, None] & (column < d)[None, :]
    x = tl.load(h + row[:, None] * d + column[None, :], mask=mask, other=0.0)
    if L2:
        size = tl.maximum(tl.sqrt(tl.sum(x * x, 1)), 1e-12)
        x = x / size[:, None]
        tl.store(length + row, size, mask=inside)
    tl.store(unit + row[:, None] * d + column[None, :], x, mask=whole)
    if RELU:
        x = tl.maximum(x, 0.0)
    to = partial + (tl.program_id(0) * chunks + chunk) * 3 * d + column
    keep = column < d
    tl.store(to, tl.sum(x, 0), mask=keep)
    tl.store(to + d, tl.sum(x * x, 0), mask=keep)
    tl.store(to + 2 * d, tl.sum(mask.to(tl.float32), 0), mask=keep)


@triton.jit
def _forward_apply(
    unit, out, partial, statistics, counts, scale, shift, running_mean, running_var,
    scale_stride, running_stride, momentum, eps, rows, d, chunks,
    RELU: tl.constexpr, COUNTED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    model, chunk = tl.program_id(0), tl.program_id(1)
    row, column, mask, inside = _tile(rows, chunk, d, counts, COUNTED, ROWS, COLUMNS)
    keep = column < d
    total = tl.zeros((COLUMNS,), dtype=tl.float64)
    square = tl.zeros((COLUMNS,), dtype=tl.float64)
    count = tl.zeros((COLUMNS,), dtype=tl.float64)
    c = 0
    while c < chunks:
        start = partial + (model * chunks + c) * 3 * d + column
        total += tl.load(start, mask=keep, other=0.0).to(tl.float64)
        square += tl.load(start + d, mask=keep, other=0.0).to(tl.float64)
        count += tl.load(start + 2 * d, mask=keep, other=0.0).to(tl.float64)
        c += 1
    old_mean = tl.load(running_mean + model * running_stride + column, mask=keep, other=0.0).to(
        tl.float64
    )
    old_var = tl.load(running_var + model * running_stride + column, mask=keep, other=1.0).to(
        tl.float64
    )
    spread = count > 1
    some = tl.maximum(count, 1.0)
    batch_mean = total / some
    batch_var = tl.maximum(square / some - batch_mean * batch_mean, 0.0)
    mean = tl.where(spread, batch_mean, old_mean)
    var = tl.where(spread, batch_var, old_var)
    inverse = 1.0 / tl.sqrt(var + eps)
    if chunk == 0:
        to = statistics + model * 3 * d + column
        tl.store(to, mean.to(tl.float32), mask=keep)
        tl.store(to + d, inverse.to(tl.float32), mask=keep)
        tl.store(to + 2 * d, count.to(tl.float32), mask=keep)
    x = tl.load(unit + row[:, None] * d + column[None, :], mask=mask, other=0.0)
    if RELU:
        x = tl.maximum(x, 0.0)
    a = tl.load(scale + model * scale_stride + column, mask=keep, other=0.0)
    b = tl.load(shift + model * scale_stride + column, mask=keep, other=0.0)
    y = (x - mean.to(tl.float32)[None, :]) * inverse.to(tl.float32)[None, :] * a[None, :] + b[
        None, :
    ]
    whole = inside[:, None] & keep[None, :]
    tl.store(out + row[:, None] * d + column[None, :], tl.where(mask, y, 0.0), mask=whole)


@triton.jit
def _running(
    partial, running_mean, running_var, running_stride, momentum, d, chunks, COLUMNS: tl.constexpr
):
    """The running statistics, after every program has read the old ones."""
    model = tl.program_id(0)
    column = tl.arange(0, COLUMNS)
    keep = column < d
    total = tl.zeros((COLUMNS,), dtype=tl.float64)
    square = tl.zeros((COLUMNS,), dtype=tl.float64)
    count = tl.zeros((COLUMNS,), dtype=tl.float64)
    c = 0
    while c < chunks:
        start = partial + (model * chunks + c) * 3 * d + column
        total += tl.load(start, mask=keep, other=0.0).to(tl.float64)
        square += tl.load(start + d, mask=keep, other=0.0).to(tl.float64)
        count += tl.load(start + 2 * d, mask=keep, other=0.0).to(tl.float64)
        c += 1
    spread = count > 1
    some = tl.maximum(count, 2.0)
    mean = total / some
    var = tl.maximum(square / some - mean * mean, 0.0) * some / (some - 1)
    to_mean, to_var = (
        running_mean + model * running_stride + column,
        running_var + model * running_stride + column,
    )
    old_mean = tl.load(to_mean, mask=keep, other=0.0)
    old_var = tl.load(to_var, mask=keep, other=0.0)
    new_mean = old_mean + momentum * (mean.to(tl.float32) - old_mean)
    new_var = old_var + momentum * (var.to(tl.float32) - old_var)
    tl.store(to_mean, new_mean, mask=keep & spread)
    tl.store(to_var, new_var, mask=keep & spread)


@triton.jit
def _backward_sums(
    grad, unit, statistics, partial, counts, rows, d, chunks,
    RELU: tl.constexpr, COUNTED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    model, chunk = tl.program_id(0), tl.program_id(1)
    row, column, mask, _ = _tile(rows, chunk, d, counts, COUNTED, ROWS, COLUMNS)
    keep = column < d
    mean = tl.load(statistics + model * 3 * d + column, mask=keep, other=0.0)
    inverse = tl.load(statistics + model * 3 * d + d + column, mask=keep, other=0.0)
    g = tl.load(grad + row[:, None] * d + column[None, :], mask=mask, other=0.0)
    x = tl.load(unit + row[:, None] * d + column[None, :], mask=mask, other=0.0)
    if RELU:
        x = tl.maximum(x, 0.0)
    normal = (x - mean[None, :]) * inverse[None, :]
    to = partial + (model * chunks + chunk) * 2 * d + column
    tl.store(to, tl.sum(g, 0), mask=keep)
    tl.store(to + d, tl.sum(tl.where(mask, g * normal, 0.0), 0), mask=keep)


@triton.jit
def _backward_apply(
    grad, unit, length, statistics, partial, counts, scale, scale_stride,
    grad_h, grad_scale, grad_shift, full, rows, d, chunks,
    L2: tl.constexpr, RELU: tl.constexpr, COUNTED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    model, chunk = tl.program_id(0), tl.program_id(1)
    row, column, mask, inside = _tile(rows, chunk, d, counts, COUNTED, ROWS, COLUMNS)
    keep = column < d
    of_shift = tl.zeros((COLUMNS,), dtype=tl.float64)
    of_scale = tl.zeros((COLUMNS,), dtype=tl.float64)
    c = 0
    while c < chunks:
        start = partial + (model * chunks + c) * 2 * d + column
        of_shift += tl.load(start, mask=keep, other=0.0).to(tl.float64)
        of_scale += tl.load(start + d, mask=keep, other=0.0).to(tl.float64)
        c += 1
    to_shift, to_scale = of_shift.to(tl.float32), of_scale.to(tl.float32)
    if chunk == 0:
        tl.store(grad_shift + model * full + column, to_shift, mask=keep)
        tl.store(grad_scale + model * full + column, to_scale, mask=keep)
    mean = tl.load(statistics + model * 3 * d + column, mask=keep, other=0.0)
    inverse = tl.load(statistics + model * 3 * d + d + column, mask=keep, other=0.0)
    count = tl.load(statistics + model * 3 * d + 2 * d + column, mask=keep, other=0.0)
    factor = tl.where(
        count > 1, 1.0 / tl.maximum(count, 1.0), 0.0
    )  # running statistics have no gradient
    a = tl.load(scale + model * scale_stride + column, mask=keep, other=0.0)
    g = tl.load(grad + row[:, None] * d + column[None, :], mask=mask, other=0.0)
    u = tl.load(unit + row[:, None] * d + column[None, :], mask=mask, other=0.0)
    x = tl.maximum(u, 0.0) if RELU else u
    normal = (x - mean[None, :]) * inverse[None, :]
    g = (a * inverse)[None, :] * (
        g - factor[None, :] * (to_shift[None, :] + normal * to_scale[None, :])
    )
    if RELU:
        g = tl.where(u > 0, g, 0.0)
    g = tl.where(mask, g, 0.0)
    if L2:
        size = tl.load(length + row, mask=inside, other=1.0)
        along = tl.where(
            size > 1e-12, tl.sum(g * u, 1), 0.0
        )  # too small to divide by: it counts as a constant
        g = (g - u * along[:, None]) / size[:, None]
        g = tl.where(mask, g, 0.0)
    tl.store(grad_h + row[:, None] * d + column[None, :], g, mask=inside[:, None] & keep[None, :])


class NormSteps(torch.autograd.Function):
    """The steps in training, of h [N, D] of M models: l2 and ReLU if asked for, and batch normalisation.

    Row i has the first `counts[i]` columns (None: all). The running statistics are updated.
    """

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        scale: Tensor,
        shift: Tensor,
        running_mean: Tensor,
        running_var: Tensor,
        counts: Tensor | None,
        momentum: float,
        eps: float,
        l2: bool,
        relu: bool,
    ) -> Tensor:
        h = h.contiguous()
        (n, d), models = h.shape, len(scale)
        rows = n // models
        columns = triton.next_power_of_2(d)
        tile = max(min(ENTRIES // columns, 128), 1)
        chunks = triton.cdiv(rows, tile)
        unit, out = torch.empty_like(h), torch.empty_like(h)
        length, partial = h.new_empty(n), h.new_empty(models, chunks, 3, d)
        statistics = h.new_empty(models, 3, d)
        shape = {"COUNTED": counts is not None, "ROWS": tile, "COLUMNS": columns}
        given = h if counts is None else counts  # not read
        grid = (models, chunks)
        _forward_sums[grid](
            h, unit, length, partial, given, rows, d, chunks, L2=l2, RELU=relu, **shape
        )
        _forward_apply[grid](
            unit, out, partial, statistics, given, scale, shift, running_mean, running_var,
            scale.stride(0), running_mean.stride(0), momentum, eps, rows, d, chunks, RELU=relu, **shape,
        )  # fmt: skip
        _running[(models,)](
            partial, running_mean, running_var, running_mean.stride(0), momentum, d, chunks, COLUMNS=columns
        )  # fmt: skip
        ctx.save_for_backward(unit, length, statistics, scale, counts)
        ctx.steps = (l2, relu, rows, chunks, shape)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        unit, length, statistics, scale, counts = ctx.saved_tensors
        l2, relu, rows, chunks, shape = ctx.steps
        grad = grad.contiguous()
        d, models, full = unit.shape[1], len(scale), scale.shape[1]
        partial = unit.new_empty(models, chunks, 2, d)
        grad_h = torch.empty_like(unit)
        make = (
            unit.new_empty if d == full else unit.new_zeros
        )  # outputs that the batch does not use
        grad_scale, grad_shift = make((models, full)), make((models, full))
        given = unit if counts is None else counts
        grid = (models, chunks)
        _backward_sums[grid](
            grad, unit, statistics, partial, given, rows, d, chunks, RELU=relu, **shape
        )
        _backward_apply[grid](
            grad, unit, length, statistics, partial, given, scale, scale.stride(0),
            grad_h, grad_scale, grad_shift, full, rows, d, chunks, L2=l2, RELU=relu, **shape,
        )  # fmt: skip
        return grad_h, grad_scale, grad_shift, None, None, None, None, None, None, None
