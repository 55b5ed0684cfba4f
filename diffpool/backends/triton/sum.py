"""Sums over the rows of each graph as a Triton kernel, in a fixed order, so that results are deterministic."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from diffpool.layout import Layout


@triton.jit(do_not_specialize=["d"])
def _sums(h, out, starts, sizes, d, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    graph = tl.program_id(0).to(tl.int64)
    start, n = tl.load(starts + graph), tl.load(sizes + graph)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for step in range(0, n, ROWS):
        index = step + tl.arange(0, ROWS)
        total += tl.load(
            h + (start + index)[:, None] * d + column[None, :],
            mask=(index < n)[:, None] & (column < d)[None, :],
            other=0.0,
        )
    tl.store(out + graph * d + column, tl.sum(total, 0), mask=column < d)


class SumRows(torch.autograd.Function):
    """The sum over each graph's rows: [N, D] → [B, D]."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, layout: Layout) -> Tensor:
        ctx.layout = layout
        h = h.contiguous()
        out = h.new_empty(len(layout), h.shape[1])
        if out.numel() > 0:
            columns = min(triton.next_power_of_2(h.shape[1]), 64)
            _sums[(len(layout), triton.cdiv(h.shape[1], columns))](
                h, out, layout.device_starts, layout.device_sizes, h.shape[1], ROWS=1024 // columns, COLUMNS=columns
            )  # fmt: skip
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        layout = ctx.layout
        if not layout.complete:
            grad = torch.cat([grad, grad.new_zeros(1, grad.shape[1])])
        return grad[layout.graph_of_row], None
