"""The edge-conditioned convolution as Triton kernels: products with a weight matrix for each edge, averaged over edges.

With φ(e) = ReLU(e W + c) and φ_0 = 1, the result is Σ_r S_r Θ_r, where row i of S_r is the mean of φ_r(e_ji) x_j. One
kernel computes all S_r at once, so that one product with Θ follows; a loop over r would launch a thousand kernels in a
training step. φ is computed from the features of the edges whenever it is needed. The gradient of x is a product of the
same form with the transposed graph. The reference is `baselines.ecc.edge_conditioned.filtered`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.weak import WeakIdKeyDictionary

from diffpool.backends.triton.blocks import at_least, by_rows, precision
from diffpool.backends.triton.drawn import DrawnGraphs
from diffpool.graphs import Channel, SparseGraphs

MANY = 16  # edges of a row at once
FEW_ROWS, SHARED = 2**14, 8  # beyond this many rows, a program sums the gradients of several


@triton.jit
def _load_filter(
    weight, bias, model, channels, units, CHANNELS: tl.constexpr, UNITS: tl.constexpr
):  # fmt: skip
    """W and, in the row after its last one, c."""
    channel, unit = tl.arange(0, CHANNELS)[:, None], tl.arange(0, UNITS)[None, :]
    inside = unit < units
    w = tl.load(
        weight + (model * channels + channel) * units + unit,
        mask=(channel < channels) & inside,
        other=0.0,
    )
    c = tl.load(bias + model * units + unit, mask=inside, other=0.0)
    return tl.where(channel == channels, c, w)


@triton.jit
def _filter_units(features, edges, there, w, channels, CHANNELS: tl.constexpr):
    """The features of a block of edges, followed by a one, and e W + c."""
    channel = tl.arange(0, CHANNELS)[None, :]
    f = tl.load(
        features + edges[:, None] * channels + channel,
        mask=there[:, None] & (channel < channels),
        other=0.0,
    )
    f = tl.where((channel == channels) & there[:, None], 1.0, f)
    return f, tl.dot(f, w, input_precision="ieee")


@triton.jit
def _find_row(row, nodes, shift, indptr, DRAWN: tl.constexpr):
    """The first and last edge of a row of the batch, and the number to subtract from the sources of its edges."""
    node, moved = row, 0 * row
    if DRAWN:
        node, moved = tl.load(nodes + row), tl.load(shift + row)
    return tl.load(indptr + node), tl.load(indptr + node + 1), moved


@triton.jit(do_not_specialize=["per_model"])
def _sums(
    x, out, inverse, nodes, shift, indptr, indices, features, weight, bias,
    per_model, ldx, inputs, channels, units,
    DRAWN: tl.constexpr, MEAN: tl.constexpr, PRECISION: tl.constexpr,
    MANY: tl.constexpr, CHANNELS: tl.constexpr, UNITS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """One row of all S_r, as sums or means, and 1 / number of edges."""
    row = tl.program_id(0).to(tl.int64)
    first, end, moved = _find_row(row, nodes, shift, indptr, DRAWN)
    unit, column = tl.arange(0, UNITS), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    wanted = column < inputs
    w = _load_filter(weight, bias, row // per_model, channels, units, CHANNELS, UNITS)
    total = tl.zeros((UNITS, COLUMNS), dtype=tl.float32)
    for edge in range(first, end, MANY):
        edges = edge + tl.arange(0, MANY)
        there = edges < end
        _, values = _filter_units(features, edges, there, w, channels, CHANNELS)
        phi = tl.where(unit[None, :] == units, 1.0, at_least(values, 0.0))
        phi = tl.where(there[:, None] & (unit[None, :] <= units), phi, 0.0)
        source = tl.load(indices + edges, mask=there, other=0) - moved
        ends = tl.load(
            x + source[:, None] * ldx + column[None, :],
            mask=there[:, None] & wanted[None, :],
            other=0.0,
        )
        total = tl.dot(tl.trans(phi), ends, total, input_precision=PRECISION)
    if MEAN:
        one = 1.0 / tl.maximum(end - first, 1).to(tl.float32)
        total = total * one
        if tl.program_id(1) == 0:
            tl.store(inverse + row, one)
    to = out + (row * (units + 1) + unit[:, None]) * inputs + column[None, :]
    tl.store(to, total, mask=(unit <= units)[:, None] & wanted[None, :])


@triton.jit(do_not_specialize=["per_model", "parts"])
def _filter_gradient(
    x, grad, partial, nodes, shift, indptr, indices, features, weight, bias,
    per_model, parts, ldx, inputs, channels, units,
    DRAWN: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr,
    MANY: tl.constexpr, CHANNELS: tl.constexpr, UNITS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The gradients of W and c, summed over the edges of a part of a model's rows; `grad` is that of all S_r."""
    model = tl.program_id(1).to(tl.int64)
    unit, channel = tl.arange(0, UNITS), tl.arange(0, CHANNELS)
    w = _load_filter(weight, bias, model, channels, units, CHANNELS, UNITS)
    total = tl.zeros((CHANNELS, UNITS), dtype=tl.float32)
    begin = model * per_model + tl.program_id(0) * ROWS
    for row in range(begin, tl.minimum(begin + ROWS, (model + 1) * per_model)):
        first, end, moved = _find_row(row, nodes, shift, indptr, DRAWN)
        for edge in range(first, end, MANY):
            edges = edge + tl.arange(0, MANY)
            there = edges < end
            f, values = _filter_units(features, edges, there, w, channels, CHANNELS)
            source = tl.load(indices + edges, mask=there, other=0) - moved
            g = tl.zeros((MANY, UNITS), dtype=tl.float32)
            for step in range(0, inputs, COLUMNS):
                column = step + tl.arange(0, COLUMNS)
                wanted = column < inputs
                ends = tl.load(
                    x + source[:, None] * ldx + column[None, :],
                    mask=there[:, None] & wanted[None, :],
                    other=0.0,
                )
                of_sums = tl.load(
                    grad + (row * (units + 1) + unit[None, :]) * inputs + column[:, None],
                    mask=(unit < units)[None, :] & wanted[:, None],
                    other=0.0,
                )
                g = tl.dot(ends, of_sums, g, input_precision=PRECISION)
            g = tl.where(there[:, None] & (unit < units)[None, :] & (values > 0), g, 0.0)
            total = tl.dot(tl.trans(f), g, total, input_precision="ieee")
    to = partial + ((model * parts + tl.program_id(0)) * (channels + 1) + channel[:, None]) * units
    inside = (channel <= channels)[:, None] & (unit < units)[None, :]
    tl.store(to + unit[None, :], total, mask=inside)


class EdgeFeatures(NamedTuple):
    """All features of each edge, in the order of the entries of A, and in that of Aᵀ."""

    values: Tensor  # [E, C]
    values_t: Tensor  # [E, C]


_features: WeakIdKeyDictionary = WeakIdKeyDictionary()  # by the values of the first channel


def edge_features(channels: tuple[Channel, ...]) -> EdgeFeatures:
    """The channels as one matrix. Those of a data set are joined once, not in every step."""
    first = channels[0].values
    known = _features.get(first)
    if known is None or known.values.shape[1] != len(channels):
        joined = (torch.stack(values, 1).contiguous() for values in zip(*channels, strict=True))
        known = _features[first] = EdgeFeatures(*joined)
    return known


class Filtered(torch.autograd.Function):
    """The mean of Θ(e_ji) x_j over the edges to i: [N, in], [M, C, R], [M, R], [M, R + 1, in, out] → [M, N/M, out].

    The sums S are computed again for the gradient, because they take R + 1 times the memory of x.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, theta: Tensor, graphs: SparseGraphs
    ) -> Tensor:
        x, weight, bias = by_rows(x), weight.contiguous(), bias.contiguous()
        sums, inverse = _launch_sums(graphs, x, weight, bias)
        ctx.graphs = graphs
        ctx.save_for_backward(x, weight, bias, theta, inverse)
        return sums @ theta.flatten(1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, theta, inverse = ctx.saved_tensors
        graphs, models = ctx.graphs, len(weight)
        grad_x = grad_theta = grad_weight = grad_bias = None
        if ctx.needs_input_grad[3]:
            sums, _ = _launch_sums(graphs, x, weight, bias)
            grad_theta = (sums.mT @ grad).view(theta.shape)
        grad = grad * inverse.view(models, -1, 1)
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            of_sums = grad @ theta.flatten(1, 2).mT  # [M, N/M, (R + 1) · in]
            total = _launch_filter_gradient(graphs, x, of_sums, weight, bias)
            grad_weight, grad_bias = total[:, :-1], total[:, -1]
        if ctx.needs_input_grad[0]:
            rows = by_rows(grad.flatten(0, 1))
            back, _ = _launch_sums(graphs, rows, weight, bias, back=True)
            grad_x = (back @ theta.mT.flatten(1, 2)).flatten(0, 1)
        return grad_x, grad_weight, grad_bias, grad_theta, None


def _launch_sums(
    graphs: SparseGraphs, x: Tensor, weight: Tensor, bias: Tensor, back: bool = False
) -> tuple[Tensor, Tensor]:
    """All S_r [M, N/M, (R + 1) · in] and 1 / number of edges [N]; with `back`, sums over the edges from each node."""
    (n, inputs), (models, channels, units) = x.shape, weight.shape
    out, inverse = x.new_empty(models, n // models, (units + 1) * inputs), x.new_empty(n)
    columns = _columns(inputs)
    _sums[(n, triton.cdiv(inputs, columns))](
        x, out, inverse, *_structure(graphs, back), weight, bias, n // models, x.stride(0), inputs, channels, units,
        DRAWN=isinstance(graphs, DrawnGraphs), MEAN=not back, PRECISION=precision(),
        MANY=MANY, **_blocks(channels, units), COLUMNS=columns, num_warps=2,
    )  # fmt: skip
    return out, inverse


def _launch_filter_gradient(
    graphs: SparseGraphs, x: Tensor, grad: Tensor, weight: Tensor, bias: Tensor
) -> Tensor:
    """The gradient of W and, as its last row, of c, from that of all S_r: [M, C + 1, R]."""
    (n, inputs), (models, channels, units) = x.shape, weight.shape
    rows = 1 if n <= FEW_ROWS else SHARED
    parts = triton.cdiv(n // models, rows)
    partial = x.new_empty(models, parts, channels + 1, units)
    _filter_gradient[(parts, models)](
        x, grad, partial, *_structure(graphs), weight, bias, n // models, parts,
        x.stride(0), inputs, channels, units, DRAWN=isinstance(graphs, DrawnGraphs), PRECISION=precision(), ROWS=rows,
        MANY=MANY, **_blocks(channels, units), COLUMNS=_columns(inputs), num_warps=2,
    )  # fmt: skip
    return partial.sum(1)


def _structure(graphs: SparseGraphs, back: bool = False) -> tuple[Tensor, ...]:
    """The kernel arguments that describe the edges: nodes, shift, indptr, indices, features."""
    matrix = graphs.adj_t if back else graphs.adj
    values = edge_features(graphs.channels)[int(back)]
    nodes = shift = matrix.indptr  # not read
    if isinstance(graphs, DrawnGraphs):
        assert graphs.nodes is not None
        assert graphs.shift is not None
        nodes, shift = graphs.nodes, graphs.shift
    return nodes, shift, matrix.indptr, matrix.indices, values


def _columns(inputs: int) -> int:
    return min(max(triton.next_power_of_2(inputs), 16), 64)


def _blocks(channels: int, units: int) -> dict[str, int]:
    """Block sizes; products need at least 16."""
    return {
        "CHANNELS": max(triton.next_power_of_2(channels + 1), 16),
        "UNITS": max(triton.next_power_of_2(units + 1), 16),
    }
