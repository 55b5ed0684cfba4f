"""The products of ragged blocks on a GPU, as Triton kernels: every graph's block in one launch, nothing padded.

A program computes a tile of the result that lies in one graph; `segment.Layout.tiles` lists them. The slow twin is the
loop over graphs in `segment`. Under `TRITON_INTERPRET=1` the kernels run on the CPU, which is how they are tested
without a GPU.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from diffpool.native import TILE


@triton.jit
def _nn(
    a, b, out, tiles, row_start, row_size, column_start, column_size,
    lda, ldb, ldo, width,
    SQUARE: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A_g B_g: rows of a graph × columns of b, over its clusters."""
    graph = tl.load(tiles + 2 * tl.program_id(0))
    first = tl.load(tiles + 2 * tl.program_id(0) + 1)
    rows = first + tl.arange(0, ROWS)
    k = tl.load(column_size + graph)
    here = rows < tl.load(row_start + graph) + tl.load(row_size + graph)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    wanted = columns < (k if SQUARE else width)
    start = tl.load(column_start + graph)
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    step = 0
    while step < k:
        inner = step + tl.arange(0, DEPTH)
        left = tl.load(
            a + rows[:, None] * lda + inner[None, :],
            mask=here[:, None] & (inner < k)[None, :],
            other=0.0,
        )
        right = tl.load(
            b + (start + inner)[:, None] * ldb + columns[None, :],
            mask=(inner < k)[:, None] & wanted[None, :],
            other=0.0,
        )
        total += tl.dot(left, right, input_precision=PRECISION)
        step += DEPTH
    tl.store(
        out + rows[:, None] * ldo + columns[None, :],
        total,
        mask=here[:, None] & (columns < width)[None, :],
    )


@triton.jit
def _tn(
    a, b, out, tiles, row_start, row_size, column_start, column_size,
    lda, ldb, ldo, width,
    SQUARE: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A_gᵀ B_g: clusters of a graph × columns of b, over its rows."""
    graph = tl.load(tiles + 2 * tl.program_id(0))
    first = tl.load(tiles + 2 * tl.program_id(0) + 1)
    clusters = first + tl.arange(0, ROWS)
    start, k = tl.load(column_start + graph), tl.load(column_size + graph)
    here = clusters < start + k
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    wanted = columns < (k if SQUARE else width)
    begin, n = tl.load(row_start + graph), tl.load(row_size + graph)
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    step = 0
    while step < n:
        inner = step + tl.arange(0, DEPTH)
        left = tl.load(
            a + (begin + inner)[None, :] * lda + (clusters - start)[:, None],
            mask=here[:, None] & (inner < n)[None, :],
            other=0.0,
        )
        right = tl.load(
            b + (begin + inner)[:, None] * ldb + columns[None, :],
            mask=(inner < n)[:, None] & wanted[None, :],
            other=0.0,
        )
        total += tl.dot(left, right, input_precision=PRECISION)
        step += DEPTH
    tl.store(
        out + clusters[:, None] * ldo + columns[None, :],
        total,
        mask=here[:, None] & (columns < width)[None, :],
    )


@triton.jit
def _nt(
    a, b, out, tiles, row_start, row_size, column_start, column_size,
    lda, ldb, ldo, width, depth,
    SQUARE: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A_g B_gᵀ: rows of a graph × its clusters, over the columns of both; zero right of its clusters."""
    graph = tl.load(tiles + 2 * tl.program_id(0))
    first = tl.load(tiles + 2 * tl.program_id(0) + 1)
    rows = first + tl.arange(0, ROWS)
    start, k = tl.load(column_start + graph), tl.load(column_size + graph)
    here = rows < tl.load(row_start + graph) + tl.load(row_size + graph)
    clusters = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    wanted = clusters < k
    end = k if SQUARE else depth
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    step = 0
    while step < end:
        inner = step + tl.arange(0, DEPTH)
        left = tl.load(
            a + rows[:, None] * lda + inner[None, :],
            mask=here[:, None] & (inner < end)[None, :],
            other=0.0,
        )
        right = tl.load(
            b + (start + clusters)[None, :] * ldb + inner[:, None],
            mask=(inner < end)[:, None] & wanted[None, :],
            other=0.0,
        )
        total += tl.dot(left, right, input_precision=PRECISION)
        step += DEPTH
    tl.store(
        out + rows[:, None] * ldo + clusters[None, :],
        total,
        mask=here[:, None] & (clusters < width)[None, :],
    )


def product(
    form: str,
    a: Tensor,
    b: Tensor,
    shape: tuple[int, int],
    where: tuple[Tensor, ...],
    square: bool,
    complete: bool = True,
) -> Tensor:
    """One of the products of `segment` in float32.

    `where`: the tiles of the result, and starts and sizes of the graphs' rows and columns. `complete`: every row of the
    result belongs to a graph; the others are zero.
    """
    out = a.new_empty(shape) if complete else a.new_zeros(shape)
    if out.numel() == 0:
        return out
    a, b = a.contiguous(), b.contiguous()
    strides = (a.stride(0), b.stride(0), out.stride(0), shape[1])
    wide = 64 if shape[1] > 32 else 32 if shape[1] > 16 else 16
    grid = (len(where[0]), triton.cdiv(shape[1], wide))
    precision = "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
    options = {"SQUARE": square, "PRECISION": precision, "ROWS": TILE, "DEPTH": 32, "COLUMNS": wide}
    if form == "nt":
        _nt[grid](a, b, out, *where, *strides, a.shape[1], **options)
    else:
        {"nn": _nn, "tn": _tn}[form][grid](a, b, out, *where, *strides, **options)
    return out
