"""The pooling of a level as Triton kernels: S, X', A', the degrees of A' and both losses.

Only the clusters that each graph has are computed. For an undirected graph and P = AS, the gradient of A' = SᵀP with
respect to S is P(G + Gᵀ): one product instead of three. The reference is `equations.pool`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from diffpool.backends.triton.blocks import (
    DEPTH,
    add_product,
    add_transposed,
    at_least,
    block_arguments,
    by_rows,
    column_block,
    load_rows,
    load_tile,
    local_width,
    new_buffer,
    precision,
    product,
    reach,
    row_arguments,
    rows_at_once,
    size_class,
    store_rows,
    tile_range,
    whole_rows,
)
from diffpool.backends.triton.drawn import DrawnGraphs
from diffpool.backends.triton.mean import Sums, add_to_sum
from diffpool.backends.triton.tiles import tiles_of
from diffpool.graphs import SparseGraphs
from diffpool.layout import Layout
from diffpool.segment import spmm_forward

# Columns per block. Sums over columns are collected in a block and reduced after the loop: a reduction inside the loop
# breaks Triton's compiler (3.6) in one of these kernels.
WIDE = 64


@triton.jit
def _softmax(
    logits, s, entropy, tiles, starts, sizes, counts, ldl, lds,
    ROWS: tl.constexpr, FIRST: tl.constexpr, SIZES: tl.constexpr,
):  # fmt: skip
    """S and the entropy of each row."""
    graph, first, end = tile_range(tiles, starts, sizes, ROWS)
    if first < end:
        k = tl.load(counts + graph)
        number = size_class(k, FIRST, SIZES)
        for size in tl.static_range(SIZES):
            if number == size:
                _softmax_rows(logits, s, entropy, first, end, k, ldl, lds, ROWS, FIRST << size)


@triton.jit
def _softmax_rows(
    logits, s, entropy, first, end, k, ldl, lds, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    SOME: tl.constexpr = rows_at_once(ROWS, COLUMNS)
    column = tl.arange(0, COLUMNS)
    inside = (column < k)[None, :]
    for start in range(first, end, SOME):
        rows = start + tl.arange(0, SOME)
        here = rows < end
        x = load_rows(logits, rows, here, column, k, ldl, True)
        x = x - tl.max(tl.where(inside, x, -float("inf")), 1)[:, None]
        p = tl.where(inside, tl.exp(x), 0.0)
        total = tl.sum(p, 1)
        p = p / total[:, None]
        store_rows(s, p, rows, here, column, k, lds, True)
        spread = tl.where(p <= 0, 0.0, p * (tl.log(total)[:, None] - x))
        tl.store(entropy + rows, tl.sum(spread, 1), mask=here)


@triton.jit
def _softmax_backward(
    s, grad, out, of_entropy, tiles, starts, sizes, counts, lds, ldo,
    ROWS: tl.constexpr, FIRST: tl.constexpr, SIZES: tl.constexpr,
):  # fmt: skip
    """The gradient of the logits, from the gradients of S and of the mean entropy of each graph."""
    graph, first, end = tile_range(tiles, starts, sizes, ROWS)
    if first < end:
        k = tl.load(counts + graph)
        share = tl.load(of_entropy + graph) / tl.load(sizes + graph).to(tl.float32)
        number = size_class(k, FIRST, SIZES)
        for size in tl.static_range(SIZES):
            if number == size:
                _softmax_backward_rows(
                    s, grad, out, share, first, end, k, lds, ldo, ROWS, FIRST << size
                )


@triton.jit
def _softmax_backward_rows(
    s, grad, out, share, first, end, k, lds, ldo, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    SOME: tl.constexpr = rows_at_once(ROWS, COLUMNS)
    column = tl.arange(0, COLUMNS)
    for start in range(first, end, SOME):
        rows = start + tl.arange(0, SOME)
        here = rows < end
        p = load_rows(s, rows, here, column, k, lds, True)
        g = load_rows(grad, rows, here, column, k, lds, True)
        g -= share * (tl.log(at_least(p, 1.1754944e-38)) + 1)
        along = tl.sum(p * g, 1)
        store_rows(out, p * (g - along[:, None]), rows, here, column, k, ldo, True)


@triton.jit
def _row_sums(
    adj, gram, degree, inverse, diagonal, of_adj, of_gram, tiles, starts, sizes, ld,
    DEGREES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The degree, diagonal and sum of squares of each row of A', and the sum of squares of each row of SᵀS."""
    graph, rows, here, live = load_tile(tiles, starts, sizes, ROWS)
    if live:
        k = tl.load(sizes + graph)
        index = rows - tl.load(starts + graph)
        totals = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        on_diagonal = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        square = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        other = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        for step in range(0, k, COLUMNS):
            column = step + tl.arange(0, COLUMNS)
            a = load_rows(adj, rows, here, column, k, ld, True)
            square += a * a
            if DEGREES:
                totals += a
                on_diagonal += tl.where(column[None, :] == index[:, None], a, 0.0)
                g = load_rows(gram, rows, here, column, k, ld, True)
                other += g * g
        tl.store(of_adj + rows, tl.sum(square, 1), mask=here)
        if DEGREES:
            total = tl.sum(totals, 1)
            positive = total > 1e-12  # below this, the gradient could overflow
            tl.store(degree + rows, total, mask=here)
            tl.store(
                inverse + rows,
                tl.where(positive, 1.0 / tl.where(positive, total, 1.0), 0.0),
                mask=here,
            )
            tl.store(diagonal + rows, tl.sum(on_diagonal, 1), mask=here)
            tl.store(of_gram + rows, tl.sum(other, 1), mask=here)


@triton.jit
def _segment_sum(values, start, size, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), dtype=tl.float64)
    for step in range(0, size, BLOCK):
        index = step + tl.arange(0, BLOCK)
        total += tl.load(values + start + index, mask=index < size, other=0.0).to(tl.float64)
    return tl.sum(total, 0)


@triton.jit
def _losses(
    norms, entropies, diagonal, of_gram, link, entropy, inverse_link, starts, sizes, column_starts, counts,
    OF_GRAPH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Both losses of a graph, and 1 / link loss for the gradient: 0 if the loss is within rounding error of 0."""
    graph = tl.program_id(0)
    start, n = tl.load(starts + graph), tl.load(sizes + graph)
    first, k = tl.load(column_starts + graph), tl.load(counts + graph)
    if OF_GRAPH:  # noqa: SIM108 (one side is compiled)
        norm = tl.load(norms + graph).to(tl.float64)
    else:
        norm = _segment_sum(norms, start, n, BLOCK)
    largest = norm + _segment_sum(of_gram, first, k, BLOCK)
    squared = largest - 2 * _segment_sum(diagonal, first, k, BLOCK)
    zero = squared <= 8 * 1.1920929e-07 * largest + 1.1754944e-38
    root = tl.sqrt(tl.where(zero, 1.0, squared))
    tl.store(link + graph, tl.where(zero, 0.0, root).to(tl.float32))
    tl.store(inverse_link + graph, tl.where(zero, 0.0, 1.0 / root).to(tl.float32))
    mean = _segment_sum(entropies, start, n, BLOCK) / tl.maximum(n, 1).to(tl.float64)
    tl.store(entropy + graph, mean.to(tl.float32))


@triton.jit
def _pooled_gradient(
    of_adj, of_degree, of_inverse, inverse, of_link, out, tiles, starts, sizes, ldg, ldo,
    ADJ: tl.constexpr, SYMMETRIC: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Ā'ᵀ, the transposed gradient of A', from A', its degrees, and its trace in the link loss.

    If A is symmetric, Ā' + Ā'ᵀ.
    """
    graph, rows, here, live = load_tile(tiles, starts, sizes, ROWS)
    start, k = tl.load(starts + graph), tl.load(sizes + graph)
    if live & (tl.program_id(1) * COLUMNS < k):
        index = rows - start
        column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        wanted = column < k
        mask = here[:, None] & wanted[None, :]
        one = tl.load(inverse + start + column, mask=wanted, other=0.0)
        of_column = tl.load(of_degree + start + column, mask=wanted, other=0.0)
        of_column -= tl.load(of_inverse + start + column, mask=wanted, other=0.0) * one * one
        g = tl.zeros((ROWS, COLUMNS), dtype=tl.float32) + of_column[None, :]
        of_trace = tl.load(of_link + graph)
        if ADJ:
            g += tl.load(
                of_adj + (start + column)[None, :] * ldg + index[:, None], mask=mask, other=0.0
            )
        if SYMMETRIC:
            one = tl.load(inverse + rows, mask=here, other=0.0)
            of_row = tl.load(of_degree + rows, mask=here, other=0.0)
            of_row -= tl.load(of_inverse + rows, mask=here, other=0.0) * one * one
            g += of_row[:, None]
            of_trace = 2 * of_trace
            if ADJ:
                g += tl.load(of_adj + rows[:, None] * ldg + column[None, :], mask=mask, other=0.0)
        g -= tl.where(column[None, :] == index[:, None], of_trace, 0.0)
        store_rows(out, g, rows, here, column, k, ldo, True)


@triton.jit
def _assignment_gradient(
    z, of_x, p, of_adj, s, gram, of_link, out, tiles, row_start, row_size, column_start, column_size,
    ldz, ldx, ldp, ld, ldo, depth,
    SYMMETRIC: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, DEPTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The gradient of S: 2c S SᵀS + P Ā'ᵀ + Z X̄'ᵀ, where X̄' is the gradient of X'.

    A symmetric factor is read as its transpose, because tensor cores prefer contiguous rows.
    """
    graph, rows, here, live = load_tile(tiles, row_start, row_size, ROWS)
    start, k = tl.load(column_start + graph), tl.load(column_size + graph)
    if live & (tl.program_id(1) * COLUMNS < k):
        columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        wanted, readable = columns < k, columns < reach(k, ld)
        total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        total = add_transposed(
            total, s, gram + start * ld, rows, here, columns, wanted, k, reach(k, ld), ldp, ld, PRECISION, DEPTH
        )  # fmt: skip
        total = total * (2 * tl.load(of_link + graph))
        if SYMMETRIC:
            total = add_transposed(
                total, p, of_adj + start * ld, rows, here, columns, wanted, k, reach(k, ld), ldp, ld, PRECISION, DEPTH
            )  # fmt: skip
        else:
            total = add_product(
                total, p, of_adj + start * ld, rows, here, columns, readable, k, reach(k, ld), ldp, ld, PRECISION, DEPTH
            )  # fmt: skip
        total = add_transposed(
            total, z, of_x + start * ldx, rows, here, columns, wanted, depth, depth, ldz, ldx, PRECISION, DEPTH
        )  # fmt: skip
        store_rows(out, total, rows, here, columns, k, ldo, True)


class Pool(torch.autograd.Function):
    """S, X', A', its degrees and their inverses, and both losses, from logits [N, W], Z [N, D] and A.

    `adj` and `sums` come from `shared_adj` for dense graphs; `adj` is None for edge lists, which may be `symmetric`.
    Only the columns of a graph's clusters are read from the logits and written to their gradient; with `clean`, the
    rest of the gradient is zero.
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        z: Tensor,
        adj: Tensor | None,
        graphs: Any,
        clusters: Layout,
        symmetric: bool,
        sums: Sums,
        clean: bool,
    ) -> tuple[Tensor, ...]:
        rows, width = graphs.layout, local_width(clusters)
        logits, z = by_rows(logits), by_rows(z)
        s = new_buffer(logits, (len(logits), width), rows, local=True, clean=tiles_of(rows).clean)
        entropies = logits.new_empty(len(logits))
        fine = row_arguments(rows, clusters)
        _softmax[(len(tiles_of(rows).table),)](
            logits,
            s,
            entropies,
            *fine,
            logits.stride(0),
            s.stride(0),
            **whole_rows(tiles_of(rows).rows, width, local=True),
        )
        if adj is None:
            p = _propagate_local(graphs, s, clusters)
        else:
            p = product("nn", adj, s, s.shape, rows, rows, clusters, clean=tiles_of(rows).clean)
        x = product("tn", s, z, (clusters.total, z.shape[1]), rows, clusters)
        square = (clusters.total, width)
        zeros = tiles_of(clusters).clean
        pooled = product(
            "tn", s, p, square, rows, clusters, clusters, None, zeros, symmetric=symmetric
        )
        gram = product("tn", s, s, square, rows, clusters, clusters, None, zeros, symmetric=True)
        degree, inverse, diagonal, adj_squares, gram_squares = logits.new_zeros(
            5, clusters.total
        ).unbind()
        coarse = (tiles_of(clusters).table, clusters.device_starts, clusters.device_sizes)
        _row_sums[(len(tiles_of(clusters).table),)](
            pooled, gram, degree, inverse, diagonal, adj_squares, gram_squares, *coarse, width,
            DEGREES=True, ROWS=tiles_of(clusters).rows, COLUMNS=WIDE,
        )  # fmt: skip
        norms = graphs.squared_norm if adj is None else _squares(adj, rows)
        link, entropy, inverse_link = logits.new_empty(3, len(rows)).unbind()
        if len(rows) > 0:
            _losses[(len(rows),)](
                norms, entropies, diagonal, gram_squares, link, entropy, inverse_link, rows.device_starts,
                rows.device_sizes, clusters.device_starts, clusters.device_sizes, OF_GRAPH=adj is None, BLOCK=128,
            )  # fmt: skip
        ctx.graphs, ctx.clusters = graphs, clusters
        ctx.columns, ctx.symmetric, ctx.sums, ctx.clean = logits.shape[1], symmetric, sums, clean
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(z, adj, s, p, gram, inverse, inverse_link)
        narrow = slice(None, clusters.largest)
        return s[:, narrow], x, pooled[:, narrow], degree, inverse, link, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        z, adj, s, p, gram, inverse, inverse_link = ctx.saved_tensors
        graphs, clusters, symmetric = ctx.graphs, ctx.clusters, ctx.symmetric
        rows, width = graphs.layout, s.shape[1]
        grad_s, grad_x, grad_pooled, grad_degree, grad_inverse, grad_link, grad_entropy = grads
        zeros = s.new_zeros(max(clusters.total, len(rows)))
        grad_link = zeros[: len(rows)] if grad_link is None else grad_link * inverse_link
        grad_x = z.new_zeros(clusters.total, z.shape[1]) if grad_x is None else by_rows(grad_x)
        coarse = (tiles_of(clusters).table, clusters.device_starts, clusters.device_sizes)
        block = column_block(width)
        given = gram if grad_pooled is None else by_rows(grad_pooled)
        full_grad_pooled = torch.empty_like(gram)
        _pooled_gradient[(len(tiles_of(clusters).table), triton.cdiv(width, block))](
            given, zeros if grad_degree is None else grad_degree, zeros if grad_inverse is None else grad_inverse,
            inverse, grad_link, full_grad_pooled, *coarse, given.stride(0), full_grad_pooled.stride(0),
            ADJ=grad_pooled is not None, SYMMETRIC=symmetric, ROWS=tiles_of(clusters).rows, COLUMNS=block,
        )  # fmt: skip
        total_grad_s = torch.empty_like(s)
        _assignment_gradient[(len(tiles_of(rows).table), triton.cdiv(width, block))](
            z, grad_x, p, full_grad_pooled, s, gram, grad_link, total_grad_s, *block_arguments("nn", rows, clusters),
            z.stride(0), grad_x.stride(0), s.stride(0), width,
            total_grad_s.stride(0), z.shape[1], SYMMETRIC=symmetric, PRECISION=precision(),
            ROWS=tiles_of(rows).rows, DEPTH=DEPTH, COLUMNS=block,
        )  # fmt: skip
        grad_adj = None
        if not symmetric:
            grad_p = product(
                "nt",
                s,
                full_grad_pooled,
                s.shape,
                rows,
                clusters,
                clusters,
                clean=tiles_of(rows).clean,
            )
            if adj is None:
                _add_back_local(graphs, grad_p, clusters, total_grad_s)
            else:
                product("tn", adj, grad_p, s.shape, rows, rows, clusters, out=total_grad_s)
                adj_product = partial(
                    product, "nt", grad_p, s, adj.shape, rows, rows, clusters,
                    clean=tiles_of(rows).clean, scale=grad_link, extra=adj,
                )  # fmt: skip
                grad_adj = add_to_sum(ctx.sums, adj_product)
        if grad_s is not None:
            total_grad_s[:, : clusters.largest] += grad_s
        make = s.new_zeros if ctx.clean else s.new_empty
        grad_logits = make(len(s), ctx.columns)
        _softmax_backward[(len(tiles_of(rows).table),)](
            s, total_grad_s, grad_logits, zeros if grad_entropy is None else grad_entropy.contiguous(),
            tiles_of(rows).table, rows.device_starts, rows.device_sizes, clusters.device_sizes, s.stride(0),
            grad_logits.stride(0), **whole_rows(tiles_of(rows).rows, width, local=True),
        )  # fmt: skip
        grad_z = product("nn", s, grad_x, z.shape, rows, clusters)
        return grad_logits, grad_z, grad_adj, None, None, None, None, None


def _propagate_local(graphs: SparseGraphs, s: Tensor, clusters: Layout) -> Tensor:
    """A S for local columns, without gradient: local [N, W] → local [N, W]."""
    if isinstance(graphs, DrawnGraphs):
        local = (graphs.layout.graph_of_row, clusters.device_sizes)
        return graphs.product(graphs.adj, s, local=local)
    a = graphs.adj
    return spmm_forward(s, a.indptr, a.indices, a.values)


def _add_back_local(graphs: SparseGraphs, grad: Tensor, clusters: Layout, out: Tensor) -> None:
    """Add AᵀG to `out`, both local [N, W]."""
    if isinstance(graphs, DrawnGraphs):
        local = (graphs.layout.graph_of_row, clusters.device_sizes)
        graphs.product(graphs.adj_t, grad, local=local, out=out)
    else:
        a = graphs.adj_t
        out += spmm_forward(grad, a.indptr, a.indices, a.values)


def _squares(adj: Tensor, rows: Layout) -> Tensor:
    """The sum of squares of each row of dense blocks: [K]."""
    out = adj.new_zeros(len(adj))
    _row_sums[(len(tiles_of(rows).table),)](
        adj, adj, out, out, out, out, out, tiles_of(rows).table, rows.device_starts, rows.device_sizes, adj.stride(0),
        DEGREES=False, ROWS=tiles_of(rows).rows, COLUMNS=WIDE,
    )  # fmt: skip
    return out
