"""l2, ReLU and batch normalization of M models on ragged rows as Triton kernels: three forward, three backward.

As modules, the same steps take about seventy small kernels. A program handles a tile of rows of one graph
(`tiles.Tiles`) and the columns that the graph has. Sums over the rows of a model add up its tiles in order, so that
results are deterministic. The reference is `nn.norm.apply_steps`. This file also has the standardization of the input
features; its reference is `nn.norm.standardize`.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from diffpool.backends.triton.blocks import (
    at_least,
    by_rows,
    column_limit,
    load_rows,
    load_tile,
    new_buffer,
    row_arguments,
    rows_at_once,
    size_class,
    store_rows,
    tile_range,
    whole_rows,
)
from diffpool.backends.triton.tiles import aligned, tiles_of
from diffpool.layout import Layout

WIDE = 64  # columns per block
GATHERED, NARROW = 128, 16  # tiles and columns whose sums are loaded at once


@triton.jit(do_not_specialize=["n", "per_model"])
def _standardize(
    x, out, mean, inverse, n, per_model, ldx, ldo, d, wide, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (rows < n)[:, None] & (column < d)[None, :]
    model = (rows // per_model)[:, None]
    value = tl.load(x + rows[:, None] * ldx + column[None, :], mask=inside, other=0.0)
    value -= tl.load(mean + model * d + column[None, :], mask=inside, other=0.0)
    value *= tl.load(inverse + model * d + column[None, :], mask=inside, other=0.0)
    to = out + rows[:, None] * ldo + column[None, :]
    tl.store(to, value, mask=(rows < n)[:, None] & (column < wide)[None, :])


def standardize(x: Tensor, mean: Tensor, inverse: Tensor) -> Tensor:
    """(X − mean) · inverse of M models: [N, D], [M, D], [M, D] → [N, D] with `aligned` rows."""
    x = by_rows(x)
    n, d = x.shape
    wide = aligned(d)
    out = x.new_empty(n, wide)
    columns = min(triton.next_power_of_2(d), WIDE)
    _standardize[(triton.cdiv(n, 32), triton.cdiv(wide, columns))](
        x, out, mean, inverse, n, n // len(mean), x.stride(0), wide, d, wide, ROWS=32, COLUMNS=columns
    )  # fmt: skip
    return out[:, :d]


@triton.jit
def _forward_sums(
    h, length, partial, tiles, starts, sizes, counts, ldh, d,
    L2: tl.constexpr, RELU: tl.constexpr, LOCAL: tl.constexpr, SUMS: tl.constexpr,
    ROWS: tl.constexpr, FIRST: tl.constexpr, SIZES: tl.constexpr,
):  # fmt: skip
    """The norms of the rows, and the sums and sums of squares over the rows of a tile."""
    graph, first, end = tile_range(tiles, starts, sizes, ROWS)
    if first < end:
        limit = column_limit(graph, counts, d, LOCAL)
        to = partial + tl.program_id(0) * 2 * d
        number = size_class(limit, FIRST, SIZES)
        for size in tl.static_range(SIZES):
            if number == size:
                _sums_of_rows(
                    h, length, to, first, end, limit, ldh, d, L2, RELU, LOCAL, SUMS, ROWS, FIRST << size
                )  # fmt: skip


@triton.jit
def _sums_of_rows(
    h, length, to, first, end, limit, ldh, d,
    L2: tl.constexpr, RELU: tl.constexpr, LOCAL: tl.constexpr, SUMS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    SOME: tl.constexpr = rows_at_once(ROWS, COLUMNS)
    column = tl.arange(0, COLUMNS)
    one = tl.zeros(
        (SOME, COLUMNS), dtype=tl.float64
    )  # float64: the variance is a difference of sums
    other = tl.zeros((SOME, COLUMNS), dtype=tl.float64)
    for start in range(first, end, SOME):
        rows = start + tl.arange(0, SOME)
        here = rows < end
        x = load_rows(h, rows, here, column, limit, ldh, LOCAL)
        if L2:
            size = at_least(tl.sqrt(tl.sum(x * x, 1)), 1e-12)
            tl.store(length + rows, size, mask=here)
            x = x / size[:, None]
        if SUMS:
            if RELU:
                x = at_least(x, 0.0)
            exact = x.to(tl.float64)
            one += exact
            other += exact * exact
    if SUMS:
        tl.store(to + column, tl.sum(one, 0), mask=column < limit)
        tl.store(to + d + column, tl.sum(other, 0), mask=column < limit)


@triton.jit
def _gather(
    partial, tiles, tile_starts, starts, sizes, counts, d, model, column,
    LOCAL: tl.constexpr, ROWS: tl.constexpr, GATHERED: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The two sums of a model, from those of its tiles, and the number of rows that have each column: float64."""
    one = tl.zeros((COLUMNS,), dtype=tl.float64)
    other = tl.zeros((COLUMNS,), dtype=tl.float64)
    count = tl.zeros((COLUMNS,), dtype=tl.float64)
    begin, end = tl.load(tile_starts + model), tl.load(tile_starts + model + 1)
    for step in range(begin, end, GATHERED):
        t = step + tl.arange(0, GATHERED)
        there = t < end
        graph = tl.load(tiles + 2 * t, mask=there, other=0)
        first = tl.load(tiles + 2 * t + 1, mask=there, other=0)
        last = tl.load(starts + graph, mask=there, other=0) + tl.load(
            sizes + graph, mask=there, other=0
        )
        rows = tl.minimum(tl.maximum(last - first, 0), ROWS)
        limit = d + 0 * graph
        if LOCAL:
            limit = tl.load(counts + graph, mask=there, other=0)
        mask = there[:, None] & (column[None, :] < limit[:, None]) & (column < d)[None, :]
        start = partial + t[:, None] * 2 * d + column[None, :]
        one += tl.sum(tl.load(start, mask=mask, other=0.0).to(tl.float64), 0)
        other += tl.sum(tl.load(start + d, mask=mask, other=0.0).to(tl.float64), 0)
        count += tl.sum(tl.where(mask, rows[:, None], 0).to(tl.float64), 0)
    return one, other, count


@triton.jit(do_not_specialize=["d", "running_stride"])
def _statistics(
    partial, statistics, tiles, tile_starts, starts, sizes, counts, running_mean, running_var,
    running_stride, momentum, eps, d,
    TRAINING: tl.constexpr, LOCAL: tl.constexpr, ROWS: tl.constexpr, GATHERED: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Mean, 1 / sd and count of each column of a model; updates the running statistics."""
    model = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    keep = column < d
    to_mean = running_mean + model * running_stride + column
    to_var = running_var + model * running_stride + column
    mean = tl.load(to_mean, mask=keep, other=0.0).to(tl.float64)
    var = tl.load(to_var, mask=keep, other=1.0).to(tl.float64)
    count = tl.zeros((COLUMNS,), dtype=tl.float64)
    if TRAINING:
        total, square, count = _gather(
            partial, tiles, tile_starts, starts, sizes, counts, d, model, column, LOCAL, ROWS, GATHERED, COLUMNS
        )  # fmt: skip
        spread = count > 1
        some = tl.maximum(count, 2.0)
        batch_mean = total / some
        batch_var = at_least(square / some - batch_mean * batch_mean, 0.0)
        unbiased = batch_var * some / (some - 1)
        tl.store(
            to_mean, (mean + momentum * (batch_mean - mean)).to(tl.float32), mask=keep & spread
        )
        tl.store(to_var, (var + momentum * (unbiased - var)).to(tl.float32), mask=keep & spread)
        mean = tl.where(spread, batch_mean, mean)
        var = tl.where(spread, batch_var, var)
    to = statistics + model * 3 * d + column
    tl.store(to, mean.to(tl.float32), mask=keep)
    tl.store(to + d, (1.0 / tl.sqrt(var + eps)).to(tl.float32), mask=keep)
    tl.store(to + 2 * d, count.to(tl.float32), mask=keep)


@triton.jit(do_not_specialize=["per_model", "scale_stride"])
def _apply(
    h, out, length, statistics, tiles, starts, sizes, counts, scale, shift, scale_stride, per_model, ldh, ldo, d,
    L2: tl.constexpr, RELU: tl.constexpr, LOCAL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    graph, rows, here, live = load_tile(tiles, starts, sizes, ROWS)
    limit = column_limit(graph, counts, d, LOCAL)
    if live & (tl.program_id(1) * COLUMNS < limit):
        model = graph // per_model
        column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        keep = column < limit
        x = load_rows(h, rows, here, column, limit, ldh, LOCAL)
        if L2:
            x = x / tl.load(length + rows, mask=here, other=1.0)[:, None]
        if RELU:
            x = at_least(x, 0.0)
        mean = tl.load(statistics + model * 3 * d + column, mask=keep, other=0.0)
        inverse = tl.load(statistics + model * 3 * d + d + column, mask=keep, other=0.0)
        a = tl.load(scale + model * scale_stride + column, mask=keep, other=0.0)
        b = tl.load(shift + model * scale_stride + column, mask=keep, other=0.0)
        y = (x - mean[None, :]) * inverse[None, :] * a[None, :] + b[None, :]
        store_rows(out, y, rows, here, column, limit, ldo, LOCAL)


@triton.jit(do_not_specialize=["per_model"])
def _backward_sums(
    grad, h, length, statistics, partial, tiles, starts, sizes, counts, per_model, ldg, ldh, d,
    L2: tl.constexpr, RELU: tl.constexpr, LOCAL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The sums over the rows of a tile of the gradient, and of its product with the normalized values."""
    graph, rows, here, live = load_tile(tiles, starts, sizes, ROWS)
    limit = column_limit(graph, counts, d, LOCAL)
    if live & (tl.program_id(1) * COLUMNS < limit):
        model = graph // per_model
        column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        keep = column < limit
        g = load_rows(grad, rows, here, column, limit, ldg, LOCAL)
        x = load_rows(h, rows, here, column, limit, ldh, LOCAL)
        if L2:
            x = x / tl.load(length + rows, mask=here, other=1.0)[:, None]
        if RELU:
            x = at_least(x, 0.0)
        mean = tl.load(statistics + model * 3 * d + column, mask=keep, other=0.0)
        inverse = tl.load(statistics + model * 3 * d + d + column, mask=keep, other=0.0)
        normal = (x - mean[None, :]) * inverse[None, :]
        to = partial + tl.program_id(0) * 2 * d + column
        tl.store(to, tl.sum(g, 0), mask=keep)
        tl.store(to + d, tl.sum(g * normal, 0), mask=keep)


@triton.jit(do_not_specialize=["d", "full"])
def _backward_gather(
    partial, of_shift, of_scale, tiles, tile_starts, starts, sizes, counts, full, d,
    LOCAL: tl.constexpr, ROWS: tl.constexpr, GATHERED: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    model = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    one, other, _ = _gather(
        partial, tiles, tile_starts, starts, sizes, counts, d, model, column, LOCAL, ROWS, GATHERED, COLUMNS
    )  # fmt: skip
    tl.store(of_shift + model * full + column, one.to(tl.float32), mask=column < d)
    tl.store(of_scale + model * full + column, other.to(tl.float32), mask=column < d)


@triton.jit
def _of_columns(
    column, keep, model, statistics, of_shift, of_scale, scale, scale_stride, full, d
):  # fmt: skip
    """The coefficients of the gradient a (g − b − c (x − m)) for each column of a model: m (the mean), a, b, c."""
    to = statistics + model * 3 * d + column
    mean = tl.load(to, mask=keep, other=0.0)
    inverse = tl.load(to + d, mask=keep, other=0.0)
    count = tl.load(to + 2 * d, mask=keep, other=0.0)
    factor = tl.where(
        count > 1, 1.0 / tl.maximum(count, 1.0), 0.0
    )  # no gradient through running statistics
    to_shift = tl.load(of_shift + model * full + column, mask=keep, other=0.0)
    to_scale = tl.load(of_scale + model * full + column, mask=keep, other=0.0)
    a = tl.load(scale + model * scale_stride + column, mask=keep, other=0.0)
    return mean, a * inverse, factor * to_shift, factor * to_scale * inverse


@triton.jit(do_not_specialize=["per_model", "full", "scale_stride"])
def _backward_apply(
    grad, h, length, statistics, of_shift, of_scale, scale, grad_h, tiles, starts, sizes, counts,
    scale_stride, full, per_model, ldg, ldh, ldo, d,
    L2: tl.constexpr, RELU: tl.constexpr, LOCAL: tl.constexpr,
    ROWS: tl.constexpr, FIRST: tl.constexpr, SIZES: tl.constexpr,
):  # fmt: skip
    graph, first, end = tile_range(tiles, starts, sizes, ROWS)
    if first < end:
        model = graph // per_model
        limit = column_limit(graph, counts, d, LOCAL)
        number = size_class(limit, FIRST, SIZES)
        for size in tl.static_range(SIZES):
            if number == size:
                _backward_rows(
                    grad, h, length, statistics, of_shift, of_scale, scale, grad_h, first, end, limit, model,
                    scale_stride, full, ldg, ldh, ldo, d, L2, RELU, LOCAL, ROWS, FIRST << size,
                )  # fmt: skip


@triton.jit
def _backward_rows(
    grad, h, length, statistics, of_shift, of_scale, scale, grad_h, first, end, limit, model,
    scale_stride, full, ldg, ldh, ldo, d,
    L2: tl.constexpr, RELU: tl.constexpr, LOCAL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    SOME: tl.constexpr = rows_at_once(ROWS, COLUMNS)
    column = tl.arange(0, COLUMNS)
    mean, a, b, c = _of_columns(
        column, column < limit, model, statistics, of_shift, of_scale, scale, scale_stride, full, d
    )  # fmt: skip
    for start in range(first, end, SOME):
        rows = start + tl.arange(0, SOME)
        here = rows < end
        g = load_rows(grad, rows, here, column, limit, ldg, LOCAL)
        u = load_rows(h, rows, here, column, limit, ldh, LOCAL)
        if L2:
            size = tl.load(length + rows, mask=here, other=1.0)
            u = u / size[:, None]
        x = u
        if RELU:
            x = at_least(u, 0.0)
        g = a[None, :] * (g - b[None, :] - c[None, :] * (x - mean[None, :]))
        if RELU:
            g = tl.where(u <= 0, 0.0, g)
        if L2:
            # too short to normalize: the norm counts as a constant; u is zero in columns that do not exist
            along = tl.where(size <= 1e-12, 0.0, tl.sum(g * u, 1))
            g = (g - u * along[:, None]) / size[:, None]
        store_rows(grad_h, g, rows, here, column, limit, ldo, LOCAL)


class NormSteps(torch.autograd.Function):
    """l2 and ReLU (both optional) and batch normalization of h [N, D] for M models.

    With `clusters`, the rows of graph g have the first k_g columns. With `clean`, columns that a row does not have and
    padding rows are zero; otherwise they are not written, here and in the gradient. h may be wider than the
    parameters, by columns that no graph has. Training updates the running statistics.
    """

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        scale: Tensor,
        shift: Tensor,
        running_mean: Tensor,
        running_var: Tensor,
        rows: Layout,
        clusters: Layout | None,
        momentum: float,
        eps: float,
        l2: bool,
        relu: bool,
        training: bool,
        clean: bool,
    ) -> Tensor:
        h = by_rows(h)
        models, d = len(scale), min(h.shape[1], scale.shape[1])
        columns = WIDE if clusters is not None else min(triton.next_power_of_2(d), WIDE)
        blocks = triton.cdiv(d, columns)
        where = row_arguments(rows, clusters)
        out = new_buffer(h, h.shape, rows, clusters is not None, clean)
        length, statistics = h.new_empty(len(h)), h.new_empty(models, 3, d)
        partial = h.new_empty(len(tiles_of(rows).table), 2, d, dtype=torch.float64)
        local = {"LOCAL": clusters is not None, "ROWS": tiles_of(rows).rows}
        grid = (len(tiles_of(rows).table),)
        if l2 or training:
            _forward_sums[grid](
                h, length, partial, *where, h.stride(0), d, L2=l2, RELU=relu, SUMS=training, LOCAL=clusters is not None,
                **whole_rows(tiles_of(rows).rows, d, clusters is not None),
            )  # fmt: skip
        narrow = min(columns, NARROW)
        _statistics[(models, triton.cdiv(d, narrow))](
            partial, statistics, *_with_starts(where, rows), running_mean, running_var, running_mean.stride(0),
            momentum, eps, d, TRAINING=training, GATHERED=GATHERED, COLUMNS=narrow, **local,
        )  # fmt: skip
        graphs_per_model = len(rows) // models
        _apply[(*grid, blocks)](
            h, out, length, statistics, *where, scale, shift, scale.stride(0), graphs_per_model,
            h.stride(0), out.stride(0), d, L2=l2, RELU=relu, COLUMNS=columns, **local,
        )  # fmt: skip
        ctx.save_for_backward(h, length, statistics, scale)
        ctx.steps = (l2, relu, rows, clusters, columns, clean)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, length, statistics, scale = ctx.saved_tensors
        l2, relu, rows, clusters, columns, clean = ctx.steps
        grad = by_rows(grad)
        models, full = scale.shape
        d = min(h.shape[1], full)
        where = row_arguments(rows, clusters)
        local = {"LOCAL": clusters is not None, "ROWS": tiles_of(rows).rows}
        flags = {"L2": l2, "RELU": relu, "COLUMNS": columns, **local}
        graphs_per_model, grid = len(rows) // models, (len(tiles_of(rows).table),)
        partial = h.new_empty(len(tiles_of(rows).table), 2, d)
        _backward_sums[(*grid, triton.cdiv(d, columns))](
            grad,
            h,
            length,
            statistics,
            partial,
            *where,
            graphs_per_model,
            grad.stride(0),
            h.stride(0),
            d,
            **flags,
        )
        make = h.new_empty if d == full else h.new_zeros  # zero for columns not in the batch
        grad_scale, grad_shift = make((models, full)), make((models, full))
        narrow = min(columns, NARROW)
        _backward_gather[(models, triton.cdiv(d, narrow))](
            partial, grad_shift, grad_scale, *_with_starts(where, rows), full, d,
            GATHERED=GATHERED, COLUMNS=narrow, **local,
        )  # fmt: skip
        grad_h = new_buffer(h, h.shape, rows, clusters is not None, clean)
        _backward_apply[grid](
            grad, h, length, statistics, grad_shift, grad_scale, scale, grad_h, *where, scale.stride(0), full,
            graphs_per_model, grad.stride(0), h.stride(0), grad_h.stride(0), d, L2=l2, RELU=relu,
            LOCAL=clusters is not None, **whole_rows(tiles_of(rows).rows, d, clusters is not None),
        )  # fmt: skip
        return grad_h, grad_scale, grad_shift, *(None for _ in range(10))


def _with_starts(where: tuple[Tensor, ...], rows: Layout) -> tuple[Tensor, ...]:
    return where[0], tiles_of(rows).starts, *where[1:]
