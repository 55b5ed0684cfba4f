"""A H on a GPU for graphs drawn from a data set, as a Triton kernel: the edges are read where the data set has them.

Row r of the batch is node `nodes[r]` of the data set, and the numbers of the data set's nodes minus `shift[r]` are
those of the batch. So nothing of the edges is copied to make a batch. The slow twin is `SparseGraphs.propagate`.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from diffpool.cuda.blocks import by_rows, reach


@triton.jit
def _add_edges(
    total, edges, end, h, indices, values, scale, moved, columns, here, ldh,
    WEIGHTED: tl.constexpr, SCALED: tl.constexpr,
):  # fmt: skip
    """Add to `total` the rows of h at the other ends of these edges."""
    there = edges < end
    source = tl.load(indices + edges, mask=there, other=0) - moved
    rows = tl.load(
        h + source[:, None] * ldh + columns[None, :], mask=there[:, None] & here[None, :], other=0.0
    )
    if WEIGHTED:
        rows = rows * tl.load(values + edges, mask=there, other=0.0)[:, None]
    if SCALED:
        rows = rows * tl.load(scale + source, mask=there, other=0.0)[:, None]
    return total + tl.sum(rows, 0)


@triton.jit(do_not_specialize=["graphs"])
def _rows(
    h, out, nodes, shift, indptr, indices, values, scale, graph_of_row, counts, ldh, ldo, d, graphs,
    WEIGHTED: tl.constexpr, SCALED: tl.constexpr, BACK: tl.constexpr, LOCAL: tl.constexpr, ADD: tl.constexpr,
    MANY: tl.constexpr, EDGES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """One row of the result: the sum over its edges, MANY at a time as long as there are so many."""
    row = tl.program_id(0).to(tl.int64)
    limit = d
    if LOCAL:
        graph = tl.load(graph_of_row + row)
        k = tl.load(counts + graph, mask=graph < graphs, other=0).to(tl.int32)
        limit = reach(k, ldh)
    if tl.program_id(1) * COLUMNS < limit:
        columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        here = columns < limit
        node = tl.load(nodes + row)
        first, end = tl.load(indptr + node), tl.load(indptr + node + 1)
        moved = tl.load(shift + row)
        total = tl.zeros((COLUMNS,), dtype=tl.float32)
        many = first + (end - first) // MANY * MANY
        for edge in range(first, many, MANY):
            total = _add_edges(
                total, edge + tl.arange(0, MANY), end, h, indices, values, scale, moved, columns, here, ldh,
                WEIGHTED, SCALED and BACK,
            )  # fmt: skip
        for edge in range(many, end, EDGES):
            total = _add_edges(
                total, edge + tl.arange(0, EDGES), end, h, indices, values, scale, moved, columns, here, ldh,
                WEIGHTED, SCALED and BACK,
            )  # fmt: skip
        if SCALED and not BACK:
            total = total * tl.load(scale + row)
        to = out + row * ldo + columns
        if ADD:
            total += tl.load(to, mask=here, other=0.0)
        tl.store(to, total, mask=here)


def spmm(
    h: Tensor,
    nodes: Tensor,
    shift: Tensor,
    indptr: Tensor,
    indices: Tensor,
    values: Tensor | None,
    scale: Tensor | None = None,
    back: bool = False,
    local: tuple[Tensor, Tensor] | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """A H: [N, D] → [N, D] in float32.

    `scale` [N] multiplies the rows of the result, or with `back` those of h. `local`: the graph of each row, and how
    many columns each graph has; others are not written. With `out` the result is added to it.
    """
    h = by_rows(h)
    add = out is not None
    if out is None:
        out = h.new_empty(h.shape)
    if h.numel() == 0:
        return out
    n, d = h.shape
    wide = min(triton.next_power_of_2(d), 128 if local else 256)
    weights = indices if values is None else values
    graph_of_row, counts = (nodes, nodes) if local is None else local
    _rows[(n, triton.cdiv(d, wide))](
        h, out, nodes, shift, indptr, indices, weights, h if scale is None else scale, graph_of_row, counts,
        h.stride(0), out.stride(0), d, len(counts), WEIGHTED=values is not None, SCALED=scale is not None, BACK=back,
        LOCAL=local is not None, ADD=add, MANY=64, EDGES=8, COLUMNS=wide, num_warps=4 if wide > 128 else 2,
    )  # fmt: skip
    return out
