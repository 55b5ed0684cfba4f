"""Row indexing as a Triton kernel, which loads several rows at once.

The reference is x[index].
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from diffpool.backends.triton.tiles import aligned


@triton.jit(do_not_specialize=["n"])
def _gather(x, numbers, out, n, ld, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    source = tl.load(numbers + rows, mask=rows < n, other=0)
    mask = (rows < n)[:, None] & (column < ld)[None, :]
    found = tl.load(x + source[:, None] * ld + column[None, :], mask=mask, other=0.0)
    tl.store(out + rows[:, None] * ld + column[None, :], found, mask=mask)


def gather(x: Tensor, index: Tensor) -> Tensor:
    """x[index]: [N, D] with an `aligned` D, [R] → [R, D]; x is contiguous and has no gradient."""
    assert x.is_contiguous()
    assert x.shape[1] == aligned(x.shape[1])
    out = x.new_empty(len(index), x.shape[1])
    if out.numel() > 0:
        columns = min(triton.next_power_of_2(x.shape[1]), 64)
        _gather[(triton.cdiv(len(index), 32), triton.cdiv(x.shape[1], columns))](
            x, index, out, len(index), x.shape[1], ROWS=32, COLUMNS=columns
        )
    return out
