"""The steps of the released code as Triton kernels: l2, optionally followed by ReLU and the node-index normalization.

l2 alone is one kernel forward and one backward. The node-index normalization has statistics for the i-th nodes of all
graphs of a model; with it there are three kernels forward and three backward, where the modules take about sixty. Sums
over graphs are in a fixed order, so that results are deterministic. The reference is `nn.norm.apply_steps`.
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
    new_buffer,
    row_arguments,
    rows_at_once,
    size_class,
    store_rows,
    tile_range,
    whole_rows,
)
from diffpool.backends.triton.tiles import tiles_of
from diffpool.layout import Layout

INDICES, GRAPHS = 16, 32  # node indices per program, and graphs whose rows are loaded at once


@triton.jit
def _forward(
    h, out, length, one, other, tiles, starts, sizes, counts, ldh, ldo, d,
    MOMENTS: tl.constexpr, LOCAL: tl.constexpr, ROWS: tl.constexpr, FIRST: tl.constexpr, SIZES: tl.constexpr,
):  # fmt: skip
    """The norms of the rows. The normalized rows; with MOMENTS, the sums and sums of squares after ReLU instead."""
    graph, first, end = tile_range(tiles, starts, sizes, ROWS)
    if first < end:
        limit = column_limit(graph, counts, d, LOCAL)
        number = size_class(limit, FIRST, SIZES)
        for size in tl.static_range(SIZES):
            if number == size:
                _forward_rows(
                    h, out, length, one, other, first, end, limit, ldh, ldo, MOMENTS, LOCAL, ROWS, FIRST << size
                )  # fmt: skip


@triton.jit
def _forward_rows(
    h, out, length, one, other, first, end, limit, ldh, ldo,
    MOMENTS: tl.constexpr, LOCAL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    SOME: tl.constexpr = rows_at_once(ROWS, COLUMNS)
    column = tl.arange(0, COLUMNS)
    for start in range(first, end, SOME):
        rows = start + tl.arange(0, SOME)
        here = rows < end
        x = load_rows(h, rows, here, column, limit, ldh, LOCAL)
        size = at_least(tl.sqrt(tl.sum(x * x, 1)), 1e-12)
        tl.store(length + rows, size, mask=here)
        x = x / size[:, None]
        if MOMENTS:
            x = at_least(x, 0.0)
            tl.store(one + rows, tl.sum(x, 1), mask=here)
            tl.store(other + rows, tl.sum(x * x, 1), mask=here)
        else:
            store_rows(out, x, rows, here, column, limit, ldo, LOCAL)


@triton.jit(do_not_specialize=["per_model", "largest"])
def _means(
    one, other, mean_one, mean_other, starts, sizes, per_model, largest, d,
    STATISTICS: tl.constexpr, GRAPHS: tl.constexpr, INDICES: tl.constexpr,
):  # fmt: skip
    """The means of two values over the entries of the i-th nodes; with STATISTICS, of the mean and 1 / sd instead."""
    model = tl.program_id(1)
    index = tl.program_id(0) * INDICES + tl.arange(0, INDICES)
    total = tl.zeros((INDICES,), dtype=tl.float64)
    second = tl.zeros((INDICES,), dtype=tl.float64)
    count = tl.zeros((INDICES,), dtype=tl.float64)
    for step in range(0, per_model, GRAPHS):
        number = step + tl.arange(0, GRAPHS)
        graph = model * per_model + number
        start = tl.load(starts + graph, mask=number < per_model, other=0)
        n = tl.load(sizes + graph, mask=number < per_model, other=0)
        there = index[None, :] < n[:, None]
        row = start[:, None] + index[None, :]
        total += tl.sum(tl.load(one + row, mask=there, other=0.0).to(tl.float64), 0)
        second += tl.sum(tl.load(other + row, mask=there, other=0.0).to(tl.float64), 0)
        count += tl.sum(there.to(tl.float64), 0)
    entries = tl.maximum(count, 1.0) * d
    a, b = total / entries, second / entries
    if STATISTICS:
        b = 1.0 / tl.sqrt(at_least(b - a * a, 0.0) + 1e-5)  # `NodeIndexNorm.eps`
    to = model * largest + index
    tl.store(mean_one + to, a.to(tl.float32), mask=index < largest)
    tl.store(mean_other + to, b.to(tl.float32), mask=index < largest)


@triton.jit
def _load_normal(
    h, length, mean, inverse, rows, here, at, column, d, ldh
):  # fmt: skip
    """The unit rows of h, their norms, the values after ReLU and normalization, and 1 / sd of each row."""
    x = load_rows(h, rows, here, column, d, ldh, False)
    size = tl.load(length + rows, mask=here, other=1.0)
    unit = x / size[:, None]
    m = tl.load(mean + at, mask=here, other=0.0)
    r = tl.load(inverse + at, mask=here, other=0.0)
    return unit, size, (at_least(unit, 0.0) - m[:, None]) * r[:, None], r


@triton.jit(do_not_specialize=["per_model", "largest"])
def _apply(
    h, out, length, mean, inverse, tiles, starts, sizes, per_model, largest, ldh, ldo, d,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    SOME: tl.constexpr = rows_at_once(ROWS, COLUMNS)
    graph, first, end = tile_range(tiles, starts, sizes, ROWS)
    base = graph // per_model * largest - tl.load(starts + graph)
    column = tl.arange(0, COLUMNS)
    for start in range(first, end, SOME):
        rows = start + tl.arange(0, SOME)
        here = rows < end
        _, _, y, _ = _load_normal(h, length, mean, inverse, rows, here, base + rows, column, d, ldh)
        store_rows(out, y, rows, here, column, d, ldo, False)


@triton.jit(do_not_specialize=["per_model", "largest"])
def _gradient_sums(
    grad, h, length, mean, inverse, one, other, tiles, starts, sizes, per_model, largest, ldg, ldh, d,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The sums over each row of the gradient, and of its product with the normalized values."""
    SOME: tl.constexpr = rows_at_once(ROWS, COLUMNS)
    graph, first, end = tile_range(tiles, starts, sizes, ROWS)
    base = graph // per_model * largest - tl.load(starts + graph)
    column = tl.arange(0, COLUMNS)
    for start in range(first, end, SOME):
        rows = start + tl.arange(0, SOME)
        here = rows < end
        _, _, y, _ = _load_normal(h, length, mean, inverse, rows, here, base + rows, column, d, ldh)
        g = load_rows(grad, rows, here, column, d, ldg, False)
        tl.store(one + rows, tl.sum(g, 1), mask=here)
        tl.store(other + rows, tl.sum(g * y, 1), mask=here)


@triton.jit(do_not_specialize=["per_model", "largest"])
def _backward(
    grad, h, length, mean, inverse, mean_g, mean_gy, out, tiles, starts, sizes, per_model, largest,
    ldg, ldh, ldo, d, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    SOME: tl.constexpr = rows_at_once(ROWS, COLUMNS)
    graph, first, end = tile_range(tiles, starts, sizes, ROWS)
    base = graph // per_model * largest - tl.load(starts + graph)
    column = tl.arange(0, COLUMNS)
    for start in range(first, end, SOME):
        rows = start + tl.arange(0, SOME)
        here = rows < end
        at = base + rows
        u, size, y, r = _load_normal(h, length, mean, inverse, rows, here, at, column, d, ldh)
        g = load_rows(grad, rows, here, column, d, ldg, False)
        a = tl.load(mean_g + at, mask=here, other=0.0)
        b = tl.load(mean_gy + at, mask=here, other=0.0)
        g = r[:, None] * (g - a[:, None] - y * b[:, None])
        g = tl.where(u <= 0, 0.0, g)
        store_rows(out, _of_unit(g, u, size), rows, here, column, d, ldo, False)


@triton.jit
def _of_unit(g, u, size):
    """The gradient of rows from the gradient of the unit rows `u`; a norm that is too small counts as a constant."""
    along = tl.where(size <= 1e-12, 0.0, tl.sum(g * u, 1))
    return (g - u * along[:, None]) / size[:, None]


@triton.jit
def _unit_backward(
    grad, h, length, out, tiles, starts, sizes, counts, ldg, ldh, ldo, d,
    LOCAL: tl.constexpr, ROWS: tl.constexpr, FIRST: tl.constexpr, SIZES: tl.constexpr,
):  # fmt: skip
    graph, first, end = tile_range(tiles, starts, sizes, ROWS)
    if first < end:
        limit = column_limit(graph, counts, d, LOCAL)
        number = size_class(limit, FIRST, SIZES)
        for size in tl.static_range(SIZES):
            if number == size:
                _unit_backward_rows(
                    grad, h, length, out, first, end, limit, ldg, ldh, ldo, LOCAL, ROWS, FIRST << size
                )  # fmt: skip


@triton.jit
def _unit_backward_rows(
    grad, h, length, out, first, end, limit, ldg, ldh, ldo,
    LOCAL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    SOME: tl.constexpr = rows_at_once(ROWS, COLUMNS)
    column = tl.arange(0, COLUMNS)
    for start in range(first, end, SOME):
        rows = start + tl.arange(0, SOME)
        here = rows < end
        size = tl.load(length + rows, mask=here, other=1.0)
        u = load_rows(h, rows, here, column, limit, ldh, LOCAL) / size[:, None]
        g = load_rows(grad, rows, here, column, limit, ldg, LOCAL)
        store_rows(out, _of_unit(g, u, size), rows, here, column, limit, ldo, LOCAL)


class UnitRows(torch.autograd.Function):
    """Rows divided by their l2 norm: [N, D] → [N, D].

    With `clusters`, the rows of graph g have the first k_g columns. With `clean`, columns that a row does not have and
    padding rows are zero; otherwise they are not written, here and in the gradient.
    """

    @staticmethod
    def forward(ctx: Any, h: Tensor, rows: Layout, clusters: Layout | None, clean: bool) -> Tensor:
        h = by_rows(h)
        local = clusters is not None
        out, length = new_buffer(h, h.shape, rows, local, clean), h.new_empty(len(h))
        tiles = tiles_of(rows)
        _forward[(len(tiles.table),)](
            h, out, length, length, length, *row_arguments(rows, clusters), h.stride(0), out.stride(0), h.shape[1],
            MOMENTS=False, LOCAL=local, **whole_rows(tiles.rows, h.shape[1], local),
        )  # fmt: skip
        ctx.save_for_backward(h, length)
        ctx.where = (rows, clusters, clean)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, length = ctx.saved_tensors
        rows, clusters, clean = ctx.where
        local, grad = clusters is not None, by_rows(grad)
        out, tiles = new_buffer(h, h.shape, rows, local, clean), tiles_of(rows)
        _unit_backward[(len(tiles.table),)](
            grad, h, length, out, *row_arguments(rows, clusters), grad.stride(0), h.stride(0), out.stride(0),
            h.shape[1], LOCAL=local, **whole_rows(tiles.rows, h.shape[1], local),
        )  # fmt: skip
        return out, None, None, None


class NodeIndexSteps(torch.autograd.Function):
    """l2, ReLU and the node-index normalization for M models: [N, D] → [N, D]; padding rows are zero."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, rows: Layout) -> Tensor:
        h = by_rows(h)
        (n, d), tiles = h.shape, tiles_of(rows)
        out = new_buffer(h, h.shape, rows, False, True)
        length, one, other = h.new_empty(3, n).unbind()
        mean, inverse = h.new_empty(2, rows.models * rows.largest).unbind()
        where = row_arguments(rows, None)
        _forward[(len(tiles.table),)](
            h, h, length, one, other, *where, h.stride(0), h.stride(0), d,
            MOMENTS=True, LOCAL=False, **whole_rows(tiles.rows, d, False),
        )  # fmt: skip
        ctx.options = _whole(tiles.rows, d)
        per_model = len(rows) // rows.models
        _mean_of_index(one, other, mean, inverse, rows, d, statistics=True)
        _apply[(len(tiles.table),)](
            h, out, length, mean, inverse, *where[:3], per_model, rows.largest, h.stride(0), out.stride(0), d,
            **ctx.options,
        )  # fmt: skip
        ctx.save_for_backward(h, length, mean, inverse)
        ctx.rows = rows
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, length, mean, inverse = ctx.saved_tensors
        rows, grad = ctx.rows, by_rows(grad)
        tiles, where = tiles_of(rows), row_arguments(rows, None)[:3]
        (n, d), per_model = h.shape, len(rows) // rows.models
        one, other = h.new_empty(2, n).unbind()
        mean_g, mean_gy = h.new_empty(2, len(mean)).unbind()
        _gradient_sums[(len(tiles.table),)](
            grad, h, length, mean, inverse, one, other, *where, per_model, rows.largest,
            grad.stride(0), h.stride(0), d, **ctx.options,
        )  # fmt: skip
        _mean_of_index(one, other, mean_g, mean_gy, rows, d, statistics=False)
        out = new_buffer(h, h.shape, rows, False, True)
        _backward[(len(tiles.table),)](
            grad, h, length, mean, inverse, mean_g, mean_gy, out, *where, per_model, rows.largest,
            grad.stride(0), h.stride(0), out.stride(0), d, **ctx.options,
        )  # fmt: skip
        return out, None


def _whole(tile: int, width: int) -> dict[str, int]:
    """Launch options of a kernel that loads whole rows without local columns."""
    options = whole_rows(tile, width, False)
    return {"ROWS": tile, "COLUMNS": options["FIRST"], "num_warps": options["num_warps"]}


def _mean_of_index(
    one: Tensor, other: Tensor, a: Tensor, b: Tensor, rows: Layout, d: int, statistics: bool
) -> None:
    """Write the means over the i-th nodes of each model's graphs to `a` and `b`: [M · largest]."""
    _means[(triton.cdiv(rows.largest, INDICES), rows.models)](
        one, other, a, b, rows.device_starts, rows.device_sizes, len(rows) // rows.models, rows.largest, d,
        STATISTICS=statistics, GRAPHS=GRAPHS, INDICES=INDICES,
    )  # fmt: skip
