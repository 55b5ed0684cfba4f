"""A H on a GPU for graphs drawn from a data set, as a Triton kernel: the edges are read where the data set has them.

Row r of the batch is node `nodes[r]` of the data set, and the numbers of the data set's nodes minus `shift[r]` are
those of the batch. So nothing of the edges is copied to make a batch. The slow twin is `SparseGraphs.propagate`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _rows(
    h,
    out,
    nodes,
    shift,
    indptr,
    indices,
    values,
    d,
    WEIGHTED: tl.constexpr,
    EDGES: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One row of the result: the sum over its edges, some at a time."""
    row = tl.program_id(0)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    here = columns < d
    node = tl.load(nodes + row)
    first, end = tl.load(indptr + node), tl.load(indptr + node + 1)
    moved = tl.load(shift + row)
    total = tl.zeros((COLUMNS,), dtype=tl.float32)
    edge = first
    while edge < end:
        edges = edge + tl.arange(0, EDGES)
        there = edges < end
        source = tl.load(indices + edges, mask=there, other=0) - moved
        rows = tl.load(
            h + source[:, None] * d + columns[None, :],
            mask=there[:, None] & here[None, :],
            other=0.0,
        )
        if WEIGHTED:
            rows = rows * tl.load(values + edges, mask=there, other=0.0)[:, None]
        total += tl.sum(rows, 0)
        edge += EDGES
    tl.store(out + row * d + columns, total, mask=here)


def spmm(
    h: Tensor, nodes: Tensor, shift: Tensor, indptr: Tensor, indices: Tensor, values: Tensor | None
) -> Tensor:
    """A H: [N, D] → [N, D] in float32."""
    out = torch.empty_like(h)
    if h.numel() == 0:
        return out
    n, d = h.shape
    wide = min(triton.next_power_of_2(d), 128)
    weights = indices if values is None else values
    _rows[(n, triton.cdiv(d, wide))](
        h, out, nodes, shift, indptr, indices, weights, d, WEIGHTED=values is not None, EDGES=8, COLUMNS=wide
    )  # fmt: skip
    return out
