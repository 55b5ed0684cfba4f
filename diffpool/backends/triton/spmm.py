"""A H for graphs drawn from a data set, as a Triton kernel that reads the edges from the data set.

Row r of the batch is node `nodes[r]` of the data set. Its neighbor i in the data set is row i − `shift[r]` of the
batch. So a batch needs no copy of the edges. The reference is `SparseGraphs.propagate`.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from diffpool.backends.triton.blocks import by_rows, reach
from diffpool.backends.triton.tiles import aligned

ANY = 2**62  # no limit on the number of edges
# Edges per row of A. If nearly all rows are short, a program computes many rows at once; otherwise one row. The few
# longer rows are computed by a separate launch.
SHORT, LONG = 32, 512


@triton.jit
def _add_edges(
    total, first, last, end, h, indices, values, scale, moved, columns, here, ldh,
    WEIGHTED: tl.constexpr, SCALED: tl.constexpr, MANY: tl.constexpr,
):  # fmt: skip
    """Add to `total` the rows of h at the sources of the edges from `first` to `last`, MANY at a time."""
    for edge in range(first, last, MANY):
        edges = edge + tl.arange(0, MANY)
        there = edges < end
        source = tl.load(indices + edges, mask=there, other=0) - moved
        rows = tl.load(
            h + source[:, None] * ldh + columns[None, :],
            mask=there[:, None] & here[None, :],
            other=0.0,
        )
        if WEIGHTED:
            rows = rows * tl.load(values + edges, mask=there, other=0.0)[:, None]
        if SCALED:
            rows = rows * tl.load(scale + source, mask=there, other=0.0)[:, None]
        total += tl.sum(rows, 0)
    return total


@triton.jit(do_not_specialize=["graphs", "n"])
def _short_rows(
    h, out, more, nodes, shift, indptr, indices, values, scale, graph_of_row, counts, ldh, ldo, ldm, d, graphs, n,
    WEIGHTED: tl.constexpr, SCALED: tl.constexpr, BACK: tl.constexpr, LOCAL: tl.constexpr, ADD: tl.constexpr,
    MORE: tl.constexpr, MAX_EDGES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A block of rows with up to MAX_EDGES edges each: add the first edge of each row, then the second, and so on."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = rows < n
    limit = tl.zeros((ROWS,), dtype=tl.int32) + d
    if LOCAL:
        graph = tl.load(graph_of_row + rows, mask=inside, other=graphs)
        k = tl.load(counts + graph, mask=graph < graphs, other=0).to(tl.int32)
        limit = reach(k, ldh)
    if tl.program_id(1) * COLUMNS < tl.max(limit, 0):
        columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        node = tl.load(nodes + rows, mask=inside, other=0)
        first = tl.load(indptr + node, mask=inside, other=0)
        count = tl.load(indptr + node + 1, mask=inside, other=0) - first
        wanted = inside & (count <= MAX_EDGES)
        count = tl.where(wanted, count, 0)
        moved = tl.load(shift + rows, mask=inside, other=0)
        here = columns[None, :] < limit[:, None]
        total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        source = tl.load(indices + first, mask=count > 0, other=0) - moved
        for step in range(0, tl.max(count, 0)):
            there = step < count
            x = tl.load(
                h + source[:, None] * ldh + columns[None, :], mask=there[:, None] & here, other=0.0
            )
            if WEIGHTED:
                x = x * tl.load(values + first + step, mask=there, other=0.0)[:, None]
            if SCALED and BACK:
                x = x * tl.load(scale + source, mask=there, other=0.0)[:, None]
            source = tl.load(indices + first + step + 1, mask=step + 1 < count, other=0) - moved
            total += x
        if SCALED and not BACK:
            total = total * tl.load(scale + rows, mask=inside, other=0.0)[:, None]
        to = out + rows[:, None] * ldo + columns[None, :]
        mask = wanted[:, None] & here
        if ADD:
            total += tl.load(to, mask=mask, other=0.0)
        if MORE:
            total += tl.load(more + rows[:, None] * ldm + columns[None, :], mask=mask, other=0.0)
        tl.store(to, total, mask=mask)


@triton.jit(do_not_specialize=["graphs"])
def _rows(
    h, out, more, nodes, shift, indptr, indices, values, scale, graph_of_row, counts, ldh, ldo, ldm, d, graphs,
    long_rows,
    WEIGHTED: tl.constexpr, SCALED: tl.constexpr, BACK: tl.constexpr, LOCAL: tl.constexpr, ADD: tl.constexpr,
    MORE: tl.constexpr, LISTED: tl.constexpr, MAX_EDGES: tl.constexpr,
    MANY: tl.constexpr, REST: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """One row of the result: the sum over its edges, first MANY at a time, then REST at a time.

    Computes every row with up to MAX_EDGES edges; with LISTED, the rows in `long_rows`, where −1 means no row.
    """
    row = tl.program_id(0).to(tl.int64)
    listed = row >= 0
    if LISTED:
        row = tl.load(long_rows + row)
        listed = row >= 0
        row = tl.maximum(row, 0)
    limit = d
    if LOCAL:
        graph = tl.load(graph_of_row + row)
        k = tl.load(counts + graph, mask=graph < graphs, other=0).to(tl.int32)
        limit = reach(k, ldh)
    node = tl.load(nodes + row)
    first, end = tl.load(indptr + node), tl.load(indptr + node + 1)
    if listed & (tl.program_id(1) * COLUMNS < limit) & (end - first <= MAX_EDGES):
        columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        here = columns < limit
        moved = tl.load(shift + row)
        total = tl.zeros((COLUMNS,), dtype=tl.float32)
        full_end = first + (end - first) // MANY * MANY
        total = _add_edges(
            total, first, full_end, end, h, indices, values, scale, moved, columns, here, ldh,
            WEIGHTED, SCALED and BACK, MANY,
        )  # fmt: skip
        total = _add_edges(
            total, full_end, end, end, h, indices, values, scale, moved, columns, here, ldh,
            WEIGHTED, SCALED and BACK, REST,
        )  # fmt: skip
        if SCALED and not BACK:
            total = total * tl.load(scale + row)
        to = out + row * ldo + columns
        if ADD:
            total += tl.load(to, mask=here, other=0.0)
        if MORE:
            total += tl.load(more + row * ldm + columns, mask=here, other=0.0)
        tl.store(to, total, mask=here)


def _can_read_aligned(h: Tensor) -> bool:
    """Whether the memory of h can be read up to the aligned number of columns."""
    (n, d), ld = h.shape, h.stride(0)
    end = h.storage_offset() + (n - 1) * ld + aligned(d)
    return aligned(d) <= ld and 4 * end <= h.untyped_storage().nbytes()


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
    addend: Tensor | None = None,
    max_edges: int = ANY,
    long_rows: Tensor | None = None,
) -> Tensor:
    """A H: [N, D] → [N, D] in float32.

    Optional arguments:
        scale: multiply the rows of the result by this [N]; with `back`, the rows of h.
        local: the graph of each row and the number of columns of each graph; other columns are not written.
        out: add the result to this matrix.
        addend: also add this matrix [N, D].
        max_edges: the maximum number of edges of rows that are not in `long_rows`.
        long_rows: all rows with more edges, padded with −1; None if there are none.
    """
    h = by_rows(h)
    add = out is not None
    n, d = h.shape
    if out is None:
        wide = aligned(d)
        out = h.new_empty(n, wide)[:, :d]
        d = wide if n > 0 and _can_read_aligned(h) else d
    if h.numel() == 0:
        return out
    other = out if addend is None else by_rows(addend)
    weights = indices if values is None else values
    graph_of_row, counts = (nodes, nodes) if local is None else local
    inputs = (
        h, out, other, nodes, shift, indptr, indices, weights, h if scale is None else scale, graph_of_row, counts,
        h.stride(0), out.stride(0), other.stride(0), d, len(counts),
    )  # fmt: skip
    flags = {
        "WEIGHTED": values is not None,
        "SCALED": scale is not None,
        "BACK": back,
        "LOCAL": local is not None,
        "ADD": add,
        "MORE": addend is not None,
    }
    if max_edges <= SHORT:
        wide = min(triton.next_power_of_2(d), 64)
        _short_rows[(triton.cdiv(n, 32), triton.cdiv(d, wide))](
            *inputs, n, **flags, MAX_EDGES=max_edges, ROWS=32, COLUMNS=wide
        )
    else:
        wide = min(triton.next_power_of_2(d), 128 if local else 256)
        _rows[(n, triton.cdiv(d, wide))](
            *inputs, nodes, **flags, LISTED=False, MAX_EDGES=max_edges, MANY=64, REST=8, COLUMNS=wide,
            num_warps=4 if wide > 128 else 2,
        )  # fmt: skip
    if long_rows is not None:
        _rows[(len(long_rows), triton.cdiv(d, 32))](
            *inputs, long_rows, **flags, LISTED=True, MAX_EDGES=ANY, MANY=256, REST=256, COLUMNS=32, num_warps=8
        )  # fmt: skip
    return out
