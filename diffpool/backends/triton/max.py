"""The maximum over the rows of each graph as Triton kernels: one forward, one backward.

Equal maxima share the gradient. The reference is `segment.max_rows`.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from diffpool.backends.triton.blocks import by_rows, new_buffer
from diffpool.layout import Layout


@triton.jit
def _forward(h, out, starts, sizes, ldh, d, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    graph = tl.program_id(0).to(tl.int64)
    start, n = tl.load(starts + graph), tl.load(sizes + graph)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    highest = tl.full((ROWS, COLUMNS), float("-inf"), dtype=tl.float32)
    for step in range(0, n, ROWS):
        index = step + tl.arange(0, ROWS)
        x = tl.load(
            h + (start + index)[:, None] * ldh + column[None, :],
            mask=(index < n)[:, None] & (column < d)[None, :],
            other=float("-inf"),
        )
        highest = tl.where((x > highest) | (x != x), x, highest)  # NaN stays NaN
    largest = tl.max(tl.where(highest != highest, float("-inf"), highest), 0)
    damaged = tl.max((highest != highest).to(tl.int32), 0) > 0
    largest = tl.where(damaged, float("nan"), tl.where(n > 0, largest, 0.0))
    tl.store(out + graph * d + column, largest, mask=column < d)


@triton.jit
def _backward(
    grad, h, out, grad_h, starts, sizes, ldh, ldo, d, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    graph = tl.program_id(0).to(tl.int64)
    start, n = tl.load(starts + graph), tl.load(sizes + graph)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    wanted = column < d
    largest = tl.load(out + graph * d + column, mask=wanted, other=0.0)
    equal = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for step in range(0, n, ROWS):
        index = step + tl.arange(0, ROWS)
        here = (index < n)[:, None] & wanted[None, :]
        x = tl.load(h + (start + index)[:, None] * ldh + column[None, :], mask=here, other=0.0)
        equal += (here & (x == largest[None, :])).to(tl.float32)
    g = tl.load(grad + graph * d + column, mask=wanted, other=0.0)
    share = g / tl.maximum(tl.sum(equal, 0), 1.0)
    for step in range(0, n, ROWS):
        index = step + tl.arange(0, ROWS)
        here = (index < n)[:, None] & wanted[None, :]
        x = tl.load(h + (start + index)[:, None] * ldh + column[None, :], mask=here, other=0.0)
        to = grad_h + (start + index)[:, None] * ldo + column[None, :]
        tl.store(to, tl.where(x == largest[None, :], share[None, :], 0.0), mask=here)


class MaxRows(torch.autograd.Function):
    """The maximum over each graph's rows: [N, D] → [B, D]; zero for an empty graph."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, layout: Layout) -> Tensor:
        h = by_rows(h)
        out = h.new_empty(len(layout), h.shape[1])
        grid, options = _launch(h, layout)
        _forward[grid](
            h, out, layout.device_starts, layout.device_sizes, h.stride(0), h.shape[1], **options
        )
        ctx.layout = layout
        ctx.save_for_backward(h, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        h, out = ctx.saved_tensors
        layout = ctx.layout
        grad_h = new_buffer(h, h.shape, layout, False, True)
        grid, options = _launch(h, layout)
        _backward[grid](
            grad.contiguous(), h, out, grad_h, layout.device_starts, layout.device_sizes,
            h.stride(0), grad_h.stride(0), h.shape[1], **options,
        )  # fmt: skip
        return grad_h, None


def _launch(h: Tensor, layout: Layout) -> tuple[tuple[int, int], dict[str, int]]:
    """The grid and options of both kernels: a graph and a block of columns per program."""
    columns = min(triton.next_power_of_2(h.shape[1]), 64)
    options = {"ROWS": 1024 // columns, "COLUMNS": columns}
    return (len(layout), triton.cdiv(h.shape[1], columns)), options
