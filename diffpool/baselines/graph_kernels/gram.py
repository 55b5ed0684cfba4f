"""Products of sparse feature maps, XYᵀ as a dense matrix, in blocks; and the cosine normalization."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy.sparse import csr_array

Watch = Callable[[float], None]  # is told the share that is done, from 0 to 1

DENSE = 0.07  # a column that more graphs have than this share is multiplied as a dense one: so both cost the same
PANEL = 1 << 26  # numbers of dense columns in memory
BLOCK = 1 << 23  # numbers of the result that are made at a time
EXACT = 2**24  # whole numbers below it are exact in float32


def add_product(x: csr_array, y: csr_array | None, out: np.ndarray, watch: Watch) -> None:
    """Add XYᵀ to `out` [n, m]. Without Y it is XXᵀ, of which the diagonal and what is below it are left undefined.

    Columns that many graphs have are multiplied as dense matrices, the others as sparse ones. XXᵀ leaves out columns
    that only one graph has: they add to the diagonal only.
    """
    alone, y = y is None, x if y is None else y
    pairs = _per_column(x) * _per_column(y)  # [K]
    dense = pairs > DENSE**2 * x.shape[0] * y.shape[0]
    rare = (pairs > (1 if alone else 0)) & ~dense
    single = min(_squared(x), _squared(y)) < EXACT
    x, y = (part.astype(np.float32 if single else np.float64) for part in (x, y))
    share = _work(pairs, dense, x.shape[0] * y.shape[0])
    _add_dense(x[:, dense], y[:, dense], out, alone, part_of(watch, 0, share))
    _add_sparse(x[:, rare], y[:, rare], out, alone, part_of(watch, share, 1))


def _per_column(x: csr_array) -> np.ndarray:
    return np.bincount(x.indices, minlength=x.shape[1]).astype(np.float64)


def _squared(x: csr_array) -> float:
    """The largest squared norm of a row."""
    ends = np.concatenate([[0.0], np.cumsum(x.data**2)])
    return float((ends[x.indptr[1:]] - ends[x.indptr[:-1]]).max(initial=0))


def _work(pairs: np.ndarray, dense: np.ndarray, size: int) -> float:
    """The share of the time that the dense columns take, about."""
    quick, slow = DENSE**2 * size * int(dense.sum()), float(pairs[~dense].sum())
    return quick / max(quick + slow, 1.0)


def _add_dense(x: csr_array, y: csr_array, out: np.ndarray, alone: bool, watch: Watch) -> None:
    total = x.shape[1]
    width = max(PANEL // max(x.shape[0] + y.shape[0], 1), 1)
    for start in range(0, total, width):
        a = x[:, start : start + width].toarray()
        b = a if alone else y[:, start : start + width].toarray()
        for rows in row_blocks(*out.shape):
            first = rows.start if alone else 0
            out[rows, first:] += a[rows] @ b[first:].T
        watch(min((start + width) / total, 1.0))


def _add_sparse(x: csr_array, y: csr_array, out: np.ndarray, alone: bool, watch: Watch) -> None:
    if x.nnz and y.nnz:
        transposed = y.T.tocsr()  # [K, m]
        for rows in row_blocks(*out.shape):
            first = rows.start if alone else 0
            columns = y[first:].T.tocsr() if alone else transposed
            out[rows, first:] += (x[rows] @ columns).toarray()
            watch(rows.stop / len(out))


def row_blocks(rows: int, columns: int) -> Iterator[slice]:
    """Some rows at a time, so that they have `BLOCK` numbers about."""
    step = max(BLOCK // max(columns, 1), 1)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def normalize(gram: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> None:
    """Divide K(i, j) by √(K(i, i) · K(j, j)), in place; `rows` and `columns` have the K(i, i) and the K(j, j)."""
    rows, columns = np.where(rows > 0, rows, 1.0), np.where(columns > 0, columns, 1.0)
    for block in row_blocks(*gram.shape):
        gram[block] /= np.sqrt(rows[block, None] * columns)


def normalize_alone(gram: np.ndarray, diagonal: np.ndarray) -> None:
    """The same for K [n, n] of which what is above the diagonal is known, and the diagonal [n]; all of K is written."""
    normalize(gram, diagonal, diagonal)
    for rows in row_blocks(*gram.shape):
        gram[rows, : rows.start] = gram[: rows.start, rows].T
        square = gram[rows, rows]
        square[:] = np.triu(square, 1) + np.triu(square, 1).T
    np.fill_diagonal(gram, (diagonal > 0).astype(np.float64))


def part_of(watch: Watch, start: float, end: float) -> Watch:
    """Tells `watch` of a part of the work, that from `start` to `end`."""
    return lambda share: watch(start + (end - start) * share)


def nobody(share: float) -> None:
    """A `Watch` that does nothing."""
