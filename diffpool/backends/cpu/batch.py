"""Batches of graphs: which row belongs to which graph, and the edges of graphs selected from a data set."""

from __future__ import annotations

import torch
from torch import Tensor

from diffpool.backends import kernel
from diffpool.backends.cpu import _kernels  # type: ignore[attr-defined]
from diffpool.layout import Layout
from diffpool.segment import Csr


def _readable(*tensors: Tensor) -> bool:
    return all(t.is_cpu and t.dtype == torch.int64 and t.is_contiguous() for t in tensors)


def _accepts_tables(sizes: Tensor, models: int, rows: int) -> bool:
    return _readable(sizes)


@kernel("layout.row_tables", "cpu", _accepts_tables)
def row_tables(sizes: Tensor, models: int, rows: int) -> tuple[Tensor, Tensor]:
    """Fill the table row by row."""
    starts, tables = torch.empty_like(sizes), sizes.new_empty(3, models * rows)
    _kernels.row_tables(models, rows, len(sizes), sizes, starts, tables)
    return starts, tables


def _accepts_selection(matrix: Csr, starts: Tensor, layout: Layout) -> bool:
    return _readable(matrix.indptr, matrix.indices, starts)


@kernel("graphs.select_rows", "cpu", _accepts_selection)
def select_rows(matrix: Csr, starts: Tensor, layout: Layout) -> tuple[Tensor, Csr, Tensor]:
    """Copy the rows one by one."""
    indptr, indices, n = matrix.indptr, matrix.indices, layout.total
    words = (len(indptr) - 1, indptr, indices, n, len(starts), layout.sizes, layout.starts, starts)
    count = _kernels.count_entries(*words)
    rows, ends, entries, columns = map(indptr.new_empty, (n, n + 1, count, count))
    _kernels.select_rows(*words, rows, entries, ends, columns)
    values = None if matrix.values is None else matrix.values.index_select(0, entries)
    return rows, Csr(ends, columns, values), entries
