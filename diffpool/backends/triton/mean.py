"""D⁻¹A H for dense blocks: one product forward, two products and a pass over the gradient backward.

The reference is `graphs.propagate_mean`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from diffpool.backends.triton.blocks import by_rows, load_tile, product
from diffpool.backends.triton.tiles import tiles_of
from diffpool.graphs import DenseGraphs
from diffpool.layout import Layout


@triton.jit
def _scaled(
    grad, out, inverse, scaled, of_inverse, tiles, starts, sizes, ldg, d, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """The gradients of A H and of D⁻¹."""
    _, rows, here, live = load_tile(tiles, starts, sizes, ROWS)
    if live:
        one = tl.load(inverse + rows, mask=here, other=0.0)
        total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        for step in range(0, d, COLUMNS):
            column = step + tl.arange(0, COLUMNS)
            mask = here[:, None] & (column < d)[None, :]
            g = tl.load(grad + rows[:, None] * ldg + column[None, :], mask=mask, other=0.0)
            total += g * tl.load(out + rows[:, None] * d + column[None, :], mask=mask, other=0.0)
            tl.store(scaled + rows[:, None] * d + column[None, :], g * one[:, None], mask=mask)
        total_of_row = tl.sum(total, 1)
        some = one > 0
        tl.store(
            of_inverse + rows,
            tl.where(some, total_of_row / tl.where(some, one, 1.0), 0.0),
            mask=here,
        )


Sums = dict[int, Tensor]  # gradients of A, by backward pass


@dataclass(eq=False)
class _Attached:
    """Cached values of dense graphs."""

    mean: tuple[Tensor, Tensor] | None = None  # features of the level and their mean
    shared: dict[int, tuple[Tensor, Sums]] = field(default_factory=dict)  # by stream


_attached: WeakKeyDictionary[DenseGraphs, _Attached] = WeakKeyDictionary()


def known_mean(
    graphs: DenseGraphs, h: Tensor, compute: Callable[[DenseGraphs, Tensor], Tensor]
) -> Tensor:
    """D⁻¹A H; cached for the input features of a level, because both networks need it."""
    attached = _attached.setdefault(graphs, _Attached())
    if attached.mean is not None and attached.mean[0] is h:
        return attached.mean[1]
    mean = compute(graphs, h)
    if attached.mean is None:
        attached.mean = (h, mean)
    return mean


def shared_adj(graphs: DenseGraphs) -> tuple[Tensor, Sums]:
    """A for functions that add up its gradient in place, and the sums."""
    shared = _attached.setdefault(graphs, _Attached()).shared
    adj = graphs.adj
    # One per stream, because two streams are not synchronized.
    stream = torch.cuda.current_stream(adj.device).cuda_stream if adj.is_cuda else 0
    wanted = adj.requires_grad and torch.is_grad_enabled()
    known = shared.get(stream)
    if known is None or known[0].requires_grad != wanted:
        sums: Sums = {}
        known = shared[stream] = (Shared.apply(adj, sums), sums)
    return known


class Shared(torch.autograd.Function):
    """A, for use only in functions that add up its gradient with `add_to_sum`.

    Autograd would need an extra pass over memory for each function.
    """

    @staticmethod
    def forward(ctx: Any, adj: Tensor, sums: Sums) -> Tensor:
        ctx.sums = sums
        return adj.view_as(adj)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        ctx.sums.clear()
        return grad, None


def add_to_sum(sums: Sums, product_into: Callable[..., Tensor]) -> Tensor | None:
    """Add a product to the gradient of A in this backward pass; the first call returns the sum, later calls None."""
    this_pass = torch._C._current_graph_task_id()
    known = sums.get(this_pass)
    total = product_into(out=known)
    if known is not None:
        return None
    sums[this_pass] = total
    return total


class DenseMean(torch.autograd.Function):
    """D⁻¹A H: local [K, W], [K, D], [K] → [K, D]. The D⁻¹ of a row without neighbors gets no gradient.

    `adj` and `sums` come from `shared_adj`.
    """

    @staticmethod
    def forward(
        ctx: Any, adj: Tensor, h: Tensor, inverse: Tensor, layout: Layout, sums: Sums
    ) -> Tensor:
        out = product("nn", adj, h, h.shape, layout, layout, scale=inverse)
        ctx.layout, ctx.sums = layout, sums
        ctx.save_for_backward(adj, h, inverse, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        adj, h, inverse, out = ctx.saved_tensors
        layout, grad = ctx.layout, by_rows(grad)
        scaled, grad_inverse = torch.empty_like(out), torch.zeros_like(inverse)
        columns = min(triton.next_power_of_2(out.shape[1]), 64)
        _scaled[(len(tiles_of(layout).table),)](
            grad, out, inverse, scaled, grad_inverse, tiles_of(layout).table, layout.device_starts, layout.device_sizes,
            grad.stride(0), out.shape[1], ROWS=tiles_of(layout).rows, COLUMNS=columns,
        )  # fmt: skip
        grad_h = product("tn", adj, scaled, h.shape, layout, layout)
        adj_product = partial(
            product, "nt", scaled, h, adj.shape, layout, layout, clean=tiles_of(layout).clean
        )
        return add_to_sum(ctx.sums, adj_product), grad_h, grad_inverse, None, None
