"""The Triton kernels on the CPU, by Triton's interpreter, in a process of its own: equal to the loop over graphs."""

from __future__ import annotations

from interpreter import needs_triton, says_equal

CODE = """
import torch
from diffpool.backends import select as native
from diffpool.backends.triton import blocks as cuda_blocks
native.suits_triton = lambda *tensors: False  # the slow twins
from diffpool.layout import Layout, aligned
from diffpool.segment import nn, nt, tn

generator = torch.Generator().manual_seed(0)


def randn(*shape):
    return torch.randn(shape, generator=generator)


def beyond(t, limits):
    # Local columns: zeros behind them up to a multiple of four, and anything there.
    column = torch.arange(aligned(t.shape[1]))
    wide = torch.where(column < (limits[:, None] + 3) // 4 * 4, 0.0, torch.nan)
    return torch.where(column < limits[:, None], torch.nn.functional.pad(t, (0, len(column) - t.shape[1])), wide)


for sizes, clusters in (
    ([5, 0, 40, 1, 70], [2, 0, 9, 1, 35]),
    ([3, 2], [1, 4]),
    ([33], [32]),
    ([0, 0], [3, 2]),
):
    rows, columns = Layout.from_sizes(sizes), Layout.from_sizes(clusters)
    width, total, k = columns.largest, rows.total, columns.total
    mask = torch.arange(width) < columns.sizes[rows.graph_of_row][:, None]
    s = randn(total, width) * mask
    for d in (1, 7, 64, 100):
        for form, slow, a, b in (
            ("nn", nn, s, randn(k, d)),
            ("tn", tn, s, randn(total, d)),
            ("nt", nt, randn(total, d), randn(k, d)),
        ):
            expected = slow(a, b, rows, columns)
            ours = cuda_blocks.product(form, a, b, expected.shape, rows, columns)
            torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)
    inner = torch.arange(width) < columns.sizes[columns.graph_of_row][:, None]
    square = randn(k, width) * inner
    for form, slow, a, b in (
        ("nn", nn, s, square),
        ("tn", tn, s, randn(total, width) * mask),
        ("nt", nt, randn(total, width) * mask, square),
    ):
        expected = slow(a, b, rows, columns, square=True)
        ours = cuda_blocks.product(form, a, b, expected.shape, rows, columns, columns)
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)
        more = cuda_blocks.product(form, a, b, expected.shape, rows, columns, columns, out=ours.clone())
        torch.testing.assert_close(more, 2 * expected, rtol=1e-4, atol=1e-4)
    # Columns that are local to other clusters: those of S with A in front of it, and of the gradients.
    adj = randn(total, rows.largest) * (torch.arange(rows.largest) < rows.sizes[rows.graph_of_row][:, None])
    other = randn(total, width) * mask
    for form, slow, a, b in (("nn", nn, adj, s), ("tn", tn, adj, s), ("nt", nt, other, s)):
        expected = slow(a, b, rows, rows)
        a, b = (t if t is adj else beyond(t, columns.sizes[rows.graph_of_row]) for t in (a, b))
        ours = cuda_blocks.product(form, a, b, expected.shape, rows, rows, columns)
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)
    # A multiple of another matrix beside a product.
    a, b, other, factor = randn(total, 7), randn(k, 7), randn(total, width), randn(len(sizes))
    ours = cuda_blocks.product("nt", a, b, (total, width), rows, columns, scale=factor, extra=other)
    expected = nt(a, b, rows, columns) + other * mask * factor[rows.graph_of_row][:, None]
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)
# Rows of no graph are zero, whatever was in memory there.
rows, columns = Layout.from_sizes([3, 2, 40, 0], models=2), Layout.from_sizes([2, 1, 5, 0], models=2)
for form, a, b in (("nn", randn(80, 5), randn(10, 9)), ("tn", randn(80, 5), randn(80, 9))):
    over = columns if form == "tn" else rows
    out = cuda_blocks.product(form, a, b, (over.total, 9), rows, columns)
    assert not over.complete
    assert (out[~over.real] == 0).all()
    assert (out[over.real] != 0).all()
print("equal")
"""


@needs_triton
def test_the_kernels_equal_the_loop_over_graphs() -> None:
    says_equal(CODE)
