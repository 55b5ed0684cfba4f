"""Products of ragged blocks as Triton kernels: all graphs in one launch, without padding.

A program computes one tile of the result, which lies within one graph; `tiles.Tiles` lists the tiles. Columns that a
graph does not have are neither computed nor read, so the cost of one large graph does not spread to the rest
of the batch. Columns are read up to the next multiple of four, because four are loaded at once; every kernel that
writes a local matrix writes zeros there. The reference is `segment.block_product`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import torch
import triton
import triton.language as tl
from torch import Tensor

from diffpool.backends.triton.tiles import aligned, tiles_of
from diffpool.layout import Layout

DEPTH = 32  # block size of the inner dimension of a product


@triton.jit
def tile_range(tiles, starts, sizes, ROWS: tl.constexpr):
    """The graph, first row and end row (exclusive) of this program's tile. An unused tile has first ≥ end."""
    graph = tl.load(tiles + 2 * tl.program_id(0))
    first = tl.load(tiles + 2 * tl.program_id(0) + 1)
    return graph, first, tl.minimum(tl.load(starts + graph) + tl.load(sizes + graph), first + ROWS)


@triton.jit
def load_tile(tiles, starts, sizes, ROWS: tl.constexpr):
    """The graph and rows of this program's tile, which rows belong to the graph, and whether there are any."""
    graph, first, end = tile_range(tiles, starts, sizes, ROWS)
    rows = first + tl.arange(0, ROWS)
    return graph, rows, rows < end, first < end


@triton.jit
def at_least(x, bound):
    """The maximum of both; NaN stays NaN, unlike with `tl.maximum`."""
    return tl.where(x < bound, bound, x)


@triton.jit
def reach(k, ld):
    """The number of columns of a local matrix that are read and written: k, rounded up to a multiple of four."""
    return tl.minimum((k + 3) // 4 * 4, ld)


@triton.jit
def local_columns(graph, counts, ldb, width, LOCAL: tl.constexpr):
    """The number of columns of a product that count, that are read from the second factor, and that are written."""
    limit, readable, last = width, width, width
    if LOCAL:
        k = tl.load(counts + graph)
        limit, readable, last = tl.minimum(k, width), reach(k, ldb), reach(k, width)
    return limit, readable, last


@triton.jit
def column_limit(graph, counts, width, LOCAL: tl.constexpr):
    """The number of columns of the rows of a graph: at most `width`, and given by `counts` if they are local."""
    k = tl.load(counts + graph)
    if LOCAL:
        return tl.minimum(k, width)
    else:
        return width + 0 * k


@triton.jit
def load_rows(matrix, rows, here, column, limit, ld, LOCAL: tl.constexpr):
    """Load a block of rows and columns; columns from `limit` on are zero."""
    pointers = matrix + rows[:, None] * ld + column[None, :]
    if LOCAL:
        x = tl.load(pointers, mask=here[:, None] & (column < reach(limit, ld))[None, :], other=0.0)
        return tl.where((column < limit)[None, :], x, 0.0)
    else:
        return tl.load(pointers, mask=here[:, None] & (column < limit)[None, :], other=0.0)


@triton.jit
def store_rows(matrix, x, rows, here, column, limit, ld, LOCAL: tl.constexpr):
    """Store a block of rows and columns; local columns are followed by zeros."""
    pointers = matrix + rows[:, None] * ld + column[None, :]
    if LOCAL:
        x = tl.where((column < limit)[None, :], x, 0.0)
        tl.store(pointers, x, mask=here[:, None] & (column < reach(limit, ld))[None, :])
    else:
        tl.store(pointers, x, mask=here[:, None] & (column < limit)[None, :])


@triton.jit
def add_product(
    total, a, b, rows, here, columns, wanted, many, readable, lda, ldb, PRECISION: tl.constexpr, DEPTH: tl.constexpr
):  # fmt: skip
    """Add A B to `total`: a block of rows of a × columns of b, summed over the first `many` columns of a and rows of b.

    The first `readable` ≥ `many` columns of a are read; the extra ones are multiplied by zero.
    """
    for step in range(0, many, DEPTH):
        inner = step + tl.arange(0, DEPTH)
        there = inner < many
        left = tl.load(
            a + rows[:, None] * lda + inner[None, :],
            mask=here[:, None] & (inner < readable)[None, :],
            other=0.0,
        )
        right = tl.load(
            b + inner[:, None] * ldb + columns[None, :],
            mask=there[:, None] & wanted[None, :],
            other=0.0,
        )
        total = tl.dot(left, right, total, input_precision=PRECISION)
    return total


@triton.jit
def add_transposed(
    total, a, b, rows, here, columns, wanted, many, readable, lda, ldb, PRECISION: tl.constexpr, DEPTH: tl.constexpr
):  # fmt: skip
    """Add A Bᵀ to `total`: a block of rows of a × rows of b, summed over the first `many` columns of both.

    The first `readable` ≥ `many` columns of both are read; in the extra ones, a or b is zero.
    """
    for step in range(0, many, DEPTH):
        inner = step + tl.arange(0, DEPTH)
        there = inner < readable
        left = tl.load(
            a + rows[:, None] * lda + inner[None, :], mask=here[:, None] & there[None, :], other=0.0
        )
        right = tl.load(
            b + columns[None, :] * ldb + inner[:, None],
            mask=there[:, None] & wanted[None, :],
            other=0.0,
        )
        total = tl.dot(left, right, total, input_precision=PRECISION)
    return total


@triton.jit
def _nn(
    a, b, out, tiles, row_start, row_size, column_start, column_size, counts, scale, extra,
    lde, lda, ldb, ldo, width, depth,
    LOCAL: tl.constexpr, ADD: tl.constexpr, SCALED: tl.constexpr, SYMMETRIC: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, DEPTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A_g B_g: rows of a graph × columns of b, summed over its clusters."""
    graph, rows, here, live = load_tile(tiles, row_start, row_size, ROWS)
    k = tl.load(column_size + graph)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    limit, readable, last = local_columns(graph, counts, ldb, width, LOCAL)
    if live & (tl.program_id(1) * COLUMNS < limit):
        wanted = columns < limit
        block = b + tl.load(column_start + graph) * ldb
        total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        total = add_product(
            total, a, block, rows, here, columns, columns < readable, k, reach(k, lda), lda, ldb, PRECISION, DEPTH
        )  # fmt: skip
        if SCALED:
            total = total * tl.load(scale + rows, mask=here, other=0.0)[:, None]
        total = tl.where(wanted[None, :], total, 0.0)
        to = out + rows[:, None] * ldo + columns[None, :]
        if ADD:
            total += tl.load(to, mask=here[:, None] & wanted[None, :], other=0.0)
        inside = here[:, None] & (columns < last)[None, :]
        tl.store(to, total, mask=inside)


@triton.jit
def _tn(
    a, b, out, tiles, row_start, row_size, column_start, column_size, counts, scale, extra,
    lde, lda, ldb, ldo, width, depth,
    LOCAL: tl.constexpr, ADD: tl.constexpr, SCALED: tl.constexpr, SYMMETRIC: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, DEPTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A_gᵀ B_g: clusters of a graph × columns of b, summed over its rows. Half of a symmetric result is mirrored."""
    graph, clusters, here, live = load_tile(tiles, column_start, column_size, ROWS)
    start, k = tl.load(column_start + graph), tl.load(column_size + graph)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    limit, readable, last = local_columns(graph, counts, ldb, width, LOCAL)
    first = tl.multiple_of(tl.load(tiles + 2 * tl.program_id(0) + 1) - start, 32)
    index = first + tl.arange(0, ROWS)
    needed = live & (tl.program_id(1) * COLUMNS < limit)
    if SYMMETRIC:
        needed = needed & (tl.program_id(1) * COLUMNS + COLUMNS > first)
    if needed:
        wanted = columns < limit
        begin, n = tl.load(row_start + graph), tl.load(row_size + graph)
        total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        for step in range(0, n, DEPTH):
            inner = step + tl.arange(0, DEPTH)
            left = tl.load(
                a + (begin + inner)[None, :] * lda + index[:, None],
                mask=(index < reach(k, lda))[:, None] & (inner < n)[None, :],
                other=0.0,
            )
            right = tl.load(
                b + (begin + inner)[:, None] * ldb + columns[None, :],
                mask=(inner < n)[:, None] & (columns < readable)[None, :],
                other=0.0,
            )
            total = tl.dot(left, right, total, input_precision=PRECISION)
        total = tl.where(wanted[None, :], total, 0.0)
        to = out + clusters[:, None] * ldo + columns[None, :]
        if ADD:
            total += tl.load(to, mask=here[:, None] & wanted[None, :], other=0.0)
        inside = here[:, None] & (columns < last)[None, :]
        if SYMMETRIC:
            inside = inside & (columns[None, :] >= index[:, None])
            mirrored = out + (start + columns)[None, :] * ldo + index[:, None]
            tl.store(mirrored, total, mask=inside & wanted[None, :])
        tl.store(to, total, mask=inside)


@triton.jit
def _nt(
    a, b, out, tiles, row_start, row_size, column_start, column_size, counts, scale, extra,
    lde, lda, ldb, ldo, width, depth,
    LOCAL: tl.constexpr, ADD: tl.constexpr, SCALED: tl.constexpr, SYMMETRIC: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, DEPTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A_g B_gᵀ: rows of a graph × its clusters, summed over columns. SCALED: plus a multiple of another matrix."""
    graph, rows, here, live = load_tile(tiles, row_start, row_size, ROWS)
    start, k = tl.load(column_start + graph), tl.load(column_size + graph)
    clusters = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    limit = tl.minimum(k, width)
    if live & (tl.program_id(1) * COLUMNS < limit):
        wanted = clusters < limit
        end, readable = depth, depth
        if LOCAL:
            count = tl.load(counts + graph)
            end, readable = tl.minimum(count, depth), reach(count, tl.minimum(lda, ldb))
        total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        total = add_transposed(
            total, a, b + start * ldb, rows, here, clusters, wanted, end, readable, lda, ldb, PRECISION, DEPTH
        )  # fmt: skip
        inside = here[:, None] & wanted[None, :]
        if SCALED:
            more = tl.load(extra + rows[:, None] * lde + clusters[None, :], mask=inside, other=0.0)
            total += more * tl.load(scale + graph)
        to = out + rows[:, None] * ldo + clusters[None, :]
        if ADD:
            total += tl.load(to, mask=inside, other=0.0)
        tl.store(to, total, mask=here[:, None] & (clusters < reach(k, width))[None, :])


def product(
    form: str,
    a: Tensor,
    b: Tensor,
    shape: Sequence[int],
    rows: Layout,
    columns: Layout,
    local: Layout | None = None,
    out: Tensor | None = None,
    clean: bool = True,
    scale: Tensor | None = None,
    extra: Tensor | None = None,
    symmetric: bool = False,
) -> Tensor:
    """One of the products of `segment` in float32.

    Optional arguments:
        local: the columns of b are local: a graph has as many as it has rows in this layout.
        out: add the product to this matrix.
        clean: set padding rows and columns that a graph does not have to zero; otherwise they are not written.
        scale: for "nn", multiply the rows of the result by `scale` [N]; for "nt", see `extra`.
        extra: for "nt", add this matrix, with the block of each graph multiplied by `scale` [B].
        symmetric: the result of a square "tn" is symmetric.
    """
    add = out is not None
    over = columns if form == "tn" else rows
    if out is None:
        out = new_buffer(a, shape, over, form == "nt" or local is not None, clean)
    if out.numel() == 0:
        return out
    a, b = by_rows(a), by_rows(b)
    other = a if extra is None else by_rows(extra)
    strides = (a.stride(0), b.stride(0), out.stride(0), shape[1], a.shape[1])
    block = column_block(shape[1])
    where = block_arguments(form, rows, columns)
    counts = (columns if local is None else local).device_sizes
    grid = (len(tiles_of(over).table), triton.cdiv(shape[1], block))
    kernel = {"nn": _nn, "tn": _tn, "nt": _nt}[form]
    with nullcontext() if form == "nt" else any_order():
        kernel[grid](
            a, b, out, *where, counts, a if scale is None else scale, other, other.stride(0), *strides,
            LOCAL=local is not None, ADD=add, SCALED=scale is not None, SYMMETRIC=symmetric, PRECISION=precision(),
            ROWS=tiles_of(over).rows, DEPTH=DEPTH, COLUMNS=block,
        )  # fmt: skip
    return out


def block_arguments(form: str, rows: Layout, columns: Layout) -> tuple[Tensor, ...]:
    """The kernel arguments that describe blocks: tiles of the result, starts and sizes of rows and columns."""
    tiles = tiles_of(columns).table if form == "tn" else tiles_of(rows).table
    return (
        tiles,
        rows.device_starts,
        rows.device_sizes,
        columns.device_starts,
        columns.device_sizes,
    )


def row_arguments(rows: Layout, clusters: Layout | None) -> tuple[Tensor, ...]:
    """The kernel arguments that describe rows: tiles, starts, sizes, and the number of local columns of each graph."""
    counts = rows.device_sizes if clusters is None else clusters.device_sizes
    return tiles_of(rows).table, rows.device_starts, rows.device_sizes, counts


def local_width(clusters: Layout) -> int:
    """The width of a matrix with local columns; its rows are aligned for vectorized loads."""
    return aligned(clusters.largest)


@triton.jit(do_not_specialize=["n"])
def _zero_rest(out, real, n, ld, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Set padding rows to zero."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    rest = (rows < n) & (tl.load(real + rows, mask=rows < n, other=1) == 0)
    if tl.max(rest.to(tl.int32), 0) > 0:
        for step in range(0, width, COLUMNS):
            columns = step + tl.arange(0, COLUMNS)
            zero = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
            to = out + rows[:, None] * ld + columns[None, :]
            tl.store(to, zero, mask=rest[:, None] & (columns < width)[None, :])


def new_buffer(
    like: Tensor, shape: Sequence[int], rows: Layout, local: bool, clean: bool
) -> Tensor:
    """A new matrix for a kernel that writes the rows of graphs, and only the columns that a graph has if `local`.

    With `clean`, everything that the kernel does not write is zero.
    """
    if clean and local:
        return like.new_zeros(*shape)
    out = like.new_empty(*shape)
    if clean and rows.real is not None and out.numel() > 0:
        n, width = shape
        _zero_rest[(triton.cdiv(n, 64),)](
            out, rows.real.view(torch.uint8), n, out.stride(0), width, ROWS=64, COLUMNS=64
        )
    return out


def by_rows(t: Tensor) -> Tensor:
    """The matrix with contiguous rows."""
    return t if t.stride(1) == 1 else t.contiguous()


FIRST = 64  # columns of the smallest size class


def whole_rows(tile: int, width: int, local: bool) -> dict[str, int]:
    """Launch options of a kernel that loads whole rows, as many at a time as fit into registers.

    Local columns have size classes, each twice as wide as the one before (`size_class`), because most graphs are small
    even in a batch with large ones.
    """
    # at least the columns that other kernels read (`reach`), also if the matrix has one or two
    columns = max(triton.next_power_of_2(width), 4 if local else 1)
    first = min(FIRST, columns) if local else columns
    warps = min(max(8, columns // 512), 32) if columns > 64 else 4
    sizes = (columns // first).bit_length()
    return {"ROWS": tile, "FIRST": first, "SIZES": sizes, "num_warps": warps}


@triton.jit
def size_class(limit, FIRST: tl.constexpr, SIZES: tl.constexpr):
    """The smallest size class that holds `limit` columns; class i has FIRST · 2ⁱ columns."""
    number = 0 * limit
    for size in tl.static_range(SIZES - 1):
        number += (limit > (FIRST << size)).to(number.dtype)
    return number


@triton.constexpr_function
def rows_at_once(rows: int, columns: int) -> int:
    """The number of whole rows that a program keeps in registers."""
    return min(rows, max(2048 // columns, 1))


def column_block(width: int) -> int:
    """The number of columns of the result per program."""
    if width >= 256 and precision() == "tf32":
        return 128
    return 64 if width > 32 else 32 if width > 16 else 16


@contextmanager
def any_order() -> Iterator[None]:
    """Compile kernels with tensor core instructions that accept factors in any memory order.

    Hopper's instructions (wgmma) require TF32 factors that are contiguous along the summed dimension, as in A Bᵀ. For
    other products Triton copies the factors four bytes at a time, which is three times slower than using the older
    instructions.
    """
    name = "DISABLE_MMA_V3"  # read by Triton's compiler
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def precision() -> str:
    """The precision of float32 products: "ieee", unless PyTorch is set to allow TF32.

    Triton's third option, "tf32x3", is three times slower than "ieee" on an H200.
    """
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
