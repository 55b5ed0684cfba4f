"""Layouts: which rows belong to which graph."""

from __future__ import annotations

import torch

from diffpool.layout import Layout, column_counts


def test_rows_of_no_graph_do_not_make_sizes_uniform() -> None:
    # each model has three rows, but the second graph of the first model has none of them
    layout = Layout.from_sizes([1, 0, 1, 1, 1, 1], models=2)
    assert layout.total == 6
    assert not layout.complete
    assert not layout.uniform
    counts = column_counts(layout, layout)
    assert counts is not None
    assert counts.tolist() == [1, 1, 0, 1, 1, 1]


def test_equal_sizes_are_uniform() -> None:
    layout = Layout.from_sizes([2, 2, 2])
    assert layout.uniform
    assert column_counts(layout, layout) is None
    assert torch.equal(layout.slot_of_row, torch.arange(6))
