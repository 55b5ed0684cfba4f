"""Linear layers of M models on ragged rows as Triton kernels: one forward, two backward.

If the outputs are local (an assignment), the rows of a graph have one output per cluster of the graph; inputs can be
local too. Only these columns are computed, and only rows that belong to a graph. The reference is `nn.Linear`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from diffpool.backends.triton.blocks import (
    DEPTH,
    add_product,
    add_transposed,
    any_order,
    by_rows,
    column_block,
    column_limit,
    load_tile,
    local_width,
    new_buffer,
    precision,
    reach,
    row_arguments,
)
from diffpool.backends.triton.tiles import tiles_of
from diffpool.layout import Layout, row_limits

# Sums over rows are divided into parts, which run in parallel and are then added up. Writing and reading this many
# bytes of a part takes as long as adding one row, measured on an H200.
ROW_BYTES = 75_000


@triton.jit(do_not_specialize=["per_model", "bias_model", "more"])
def _forward(
    x, y, weight, bias, out, tiles, starts, sizes, counts, per_model,
    ldx, ldy, ldw, ldo, weight_model, bias_model, inputs, more, outputs,
    MORE: tl.constexpr, LOCAL_IN: tl.constexpr, LOCAL_OUT: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, DEPTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """[X, Y] W + b: rows of a graph × outputs. MORE: there is a Y, whose columns may be local."""
    graph, rows, here, live = load_tile(tiles, starts, sizes, ROWS)
    limit = column_limit(graph, counts, outputs, LOCAL_OUT)
    if live & (tl.program_id(1) * COLUMNS < limit):
        model = graph // per_model
        columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        wanted = columns < limit
        readable, written = columns < outputs, columns < outputs
        if LOCAL_OUT:
            readable, written = columns < reach(limit, ldw), columns < reach(limit, ldo)
        weights = weight + model * weight_model
        total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        total = add_product(
            total, x, weights, rows, here, columns, readable, inputs, inputs, ldx, ldw, PRECISION, DEPTH
        )  # fmt: skip
        if MORE:
            k = column_limit(graph, counts, more, LOCAL_IN)
            last = k
            if LOCAL_IN:
                last = reach(k, ldy)
            total = add_product(
                total, y, weights + inputs * ldw, rows, here, columns, readable, k, last, ldy, ldw, PRECISION, DEPTH
            )  # fmt: skip
        total += tl.load(bias + model * bias_model + columns, mask=wanted, other=0.0)[None, :]
        tl.store(
            out + rows[:, None] * ldo + columns[None, :],
            tl.where(wanted[None, :], total, 0.0),
            mask=here[:, None] & written[None, :],
        )


@triton.jit(do_not_specialize=["per_model"])
def _backward_input(
    grad, weight, out, tiles, starts, sizes, counts, per_model,
    ldg, ldw, ldo, weight_model, inputs, outputs,
    LOCAL_IN: tl.constexpr, LOCAL_OUT: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, DEPTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """G Wᵀ: rows of a graph × inputs, which may be local."""
    graph, rows, here, live = load_tile(tiles, starts, sizes, ROWS)
    limit_in = column_limit(graph, counts, inputs, LOCAL_IN)
    limit_out = column_limit(graph, counts, outputs, LOCAL_OUT)
    if live & (tl.program_id(1) * COLUMNS < limit_in):
        columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        wanted = columns < limit_in
        readable, written = outputs, wanted
        if LOCAL_OUT:
            readable = reach(limit_out, tl.minimum(ldg, ldw))
        if LOCAL_IN:
            written = columns < reach(limit_in, ldo)
        weights = weight + (graph // per_model) * weight_model
        total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        total = add_transposed(
            total, grad, weights, rows, here, columns, wanted, limit_out, readable, ldg, ldw, PRECISION, DEPTH
        )  # fmt: skip
        tl.store(
            out + rows[:, None] * ldo + columns[None, :],
            total,  # zero in columns that are not wanted
            mask=here[:, None] & written[None, :],
        )


@triton.jit(do_not_specialize=["per_model", "rows_per_model", "weight_model", "parts", "per_part"])
def _backward_weight(
    x, grad, of_weight, limit_of_row, starts, sizes, counts, per_model,
    rows_per_model, ldx, ldg, ldw, weight_model, inputs, outputs, parts, per_part,
    LOCAL_IN: tl.constexpr, LOCAL_OUT: tl.constexpr, BIAS: tl.constexpr, PRECISION: tl.constexpr,
    DEPTH: tl.constexpr, INPUTS: tl.constexpr, COLUMNS: tl.constexpr, GRAPHS: tl.constexpr,
):  # fmt: skip
    """XᵀG: inputs × outputs of a model, summed over one part of its rows; an extra row is for the bias."""
    first_in, first_out = tl.program_id(0) * INPUTS, tl.program_id(1) * COLUMNS
    model, part = tl.program_id(2) // parts, tl.program_id(2) % parts
    begin = model.to(tl.int64) * rows_per_model
    # Stop after the last graph that has these columns: large graphs come first in a batch.
    end = begin
    for step in range(0, per_model, GRAPHS):
        number = step + tl.arange(0, GRAPHS)
        index = model * per_model + number
        n = tl.load(sizes + index, mask=number < per_model, other=0)
        has = n > 0
        if LOCAL_OUT:
            k = tl.load(counts + index, mask=number < per_model, other=0)
            has = has & (k > first_out)
            if LOCAL_IN:
                has = has & (k > first_in)
        last = tl.load(starts + index, mask=has, other=0) + n
        end = tl.maximum(end, tl.max(tl.where(has, last, 0), 0))
    share = (end - begin + parts * DEPTH - 1) // (parts * DEPTH) * DEPTH
    begin += part * share
    end = tl.minimum(end, begin + share)
    row_of_weight = first_in + tl.arange(0, INPUTS)
    columns = first_out + tl.arange(0, COLUMNS)
    total = tl.zeros((INPUTS, COLUMNS), dtype=tl.float32)
    sums = tl.zeros((DEPTH, COLUMNS), dtype=tl.float32)
    for first in range(begin, end, DEPTH):
        rows = first + tl.arange(0, DEPTH)
        here = rows < end
        left_mask = here[None, :] & (row_of_weight < inputs)[:, None]
        right_mask = here[:, None] & (columns < outputs)[None, :]
        if LOCAL_OUT:
            limit = tl.load(limit_of_row + rows, mask=here, other=0)
            right_mask = columns[None, :] < reach(limit, ldg)[:, None]
            if LOCAL_IN:
                left_mask = row_of_weight[:, None] < reach(limit, ldx)[None, :]
        left = tl.load(x + rows[None, :] * ldx + row_of_weight[:, None], mask=left_mask, other=0.0)
        right = tl.load(grad + rows[:, None] * ldg + columns[None, :], mask=right_mask, other=0.0)
        total = tl.dot(left, right, total, input_precision=PRECISION)
        if BIAS:
            sums += right
    to = of_weight + part * per_part + model * weight_model
    tl.store(
        to + row_of_weight[:, None] * ldw + columns[None, :],
        total,
        mask=(row_of_weight < inputs)[:, None] & (columns < outputs)[None, :],
    )
    if BIAS:  # noqa: SIM102 (one is compiled, the other run)
        if tl.program_id(0) == 0:
            to_bias = to + weight_model - ldw + columns
            tl.store(to_bias, tl.sum(sums, 0), mask=columns < outputs)


def _parts(rows: int, shape: tuple[int, ...]) -> int:
    """The number of parts of a sum over `rows` rows with a result of this shape."""
    best = (ROW_BYTES * rows / (4 * math.prod(shape))) ** 0.5
    return max(min(round(best), rows // 128, 8), 1)


class LocalLinear(torch.autograd.Function):
    """X W + b of M models, or [X, Y] W + b: [N, in], [N, more] → [N, out].

    With `clusters`, the outputs are local: the rows of graph g have the first k_g. With `local`, so is y. Columns that
    a row does not have are not written, here and in the gradients. Rows of no graph are written only with `clean`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        y: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        rows: Layout,
        clusters: Layout | None,
        local: bool,
        clean: bool,
    ) -> Tensor:
        x, y = by_rows(x), None if y is None else by_rows(y)
        outputs = weight.shape[2] if clusters is None else min(clusters.largest, weight.shape[2])
        width = outputs if clusters is None else local_width(clusters)
        ctx.shape = weight.shape
        ctx.where = (rows, clusters, local, clean)
        if weight.shape[2] % 4:  # align the rows of the weights for vectorized loads
            weight = F.pad(weight, (0, -weight.shape[2] % 16))
        ctx.save_for_backward(x, y, weight)
        out = new_buffer(x, (len(x), width), rows, clusters is not None, clean)
        block = column_block(outputs)
        second, count = (x, 0) if y is None else (y, min(y.shape[1], weight.shape[1] - x.shape[1]))
        with any_order():
            _forward[(len(tiles_of(rows).table), triton.cdiv(outputs, block))](
                x, second, weight, bias, out, *row_arguments(rows, clusters), len(rows) // rows.models,
                x.stride(0), second.stride(0), weight.stride(1), out.stride(0), weight.stride(0), bias.stride(0),
                x.shape[1], count, outputs, MORE=y is not None, LOCAL_IN=local, LOCAL_OUT=clusters is not None,
                PRECISION=precision(), ROWS=tiles_of(rows).rows, DEPTH=DEPTH, COLUMNS=block,
            )  # fmt: skip
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, y, weight = ctx.saved_tensors
        rows, clusters, local, clean = ctx.where
        grad, (models, all_inputs, all_outputs) = by_rows(grad), ctx.shape
        outputs = all_outputs if clusters is None else min(clusters.largest, all_outputs)
        graphs_per_model, where = len(rows) // rows.models, row_arguments(rows, clusters)
        limits = rows.graph_of_row if clusters is None else row_limits(rows, clusters)
        grads: list[Tensor | None] = []
        weight_grads: list[Tensor] = []  # in parts; the last row of the first is for the bias
        start = 0
        for number, matrix in enumerate((x, y)):
            if matrix is None or matrix.shape[1] == 0:
                grads.append(None if matrix is None else torch.zeros_like(matrix))
                continue
            count = min(matrix.shape[1], all_inputs - start)
            flags = {
                "LOCAL_IN": number == 1 and local,
                "LOCAL_OUT": clusters is not None,
                "PRECISION": precision(),
            }
            grad_input = None
            if ctx.needs_input_grad[number]:
                grad_input = new_buffer(matrix, matrix.shape, rows, number == 1 and local, clean)
                block = column_block(count)
                _backward_input[(len(tiles_of(rows).table), triton.cdiv(count, block))](
                    grad, weight[:, start:], grad_input, *where, graphs_per_model,
                    grad.stride(0), weight.stride(1), grad_input.stride(0), weight.stride(0), count, outputs,
                    ROWS=tiles_of(rows).rows, DEPTH=DEPTH, COLUMNS=block, **flags,
                )  # fmt: skip
            grads.append(grad_input)
            rows_per_model = rows.total // models
            if start == 0 or local:
                last = count if local and number == 0 else all_inputs - start
                shape = (models, last + (start == 0), all_outputs)
                parts = _parts(rows_per_model, shape)
                # Inputs and outputs that the batch does not have get zeros.
                full = outputs == all_outputs and not (local and count < last)
                weight_grads.append(
                    (weight.new_empty if full else weight.new_zeros)((parts, *shape))
                )
            to = weight_grads[-1] if local else weight_grads[-1][:, :, start:]
            block, input_block = column_block(outputs), min(column_block(count), 64)
            grid = (triton.cdiv(count, input_block), triton.cdiv(outputs, block), models * parts)
            with any_order():
                _backward_weight[grid](
                    matrix, grad, to, limits, *where[1:], graphs_per_model, rows_per_model, matrix.stride(0),
                    grad.stride(0), to.stride(2), to.stride(1), count, outputs, parts, to.stride(0), BIAS=start == 0,
                    DEPTH=DEPTH, INPUTS=input_block, COLUMNS=block, GRAPHS=64, **flags,
                )  # fmt: skip
            start += count
        sums = [g.sum(0) if len(g) > 1 else g[0] for g in weight_grads]
        grad_bias, sums[0] = sums[0][:, -1], sums[0][:, :-1]
        grad_weight = torch.cat(sums, 1) if len(sums) > 1 else sums[0]
        return *grads, grad_weight, grad_bias, None, None, None, None
