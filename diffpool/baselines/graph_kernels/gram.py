"""Products XYᵀ of sparse feature maps as dense matrices, computed in blocks, and cosine normalization."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy.sparse import csr_array

Watch = Callable[[float], None]  # called with the fraction done, from 0 to 1

DENSE = 0.07  # columns with a larger fraction of nonzeros are multiplied as dense ones; here both cost the same
PANEL = 1 << 26  # values of dense columns in memory
BLOCK = 1 << 23  # values of the result computed at a time
EXACT = 2**24  # integers below it are exact in float32


def add_product(x: csr_array, y: csr_array | None, out: np.ndarray, watch: Watch) -> None:
    """Add XYᵀ to `out` [n, m]; without Y add XXᵀ, but leave the diagonal and the lower triangle undefined.

    Columns with many nonzeros are multiplied as dense matrices, the others as sparse ones. XXᵀ skips columns with a
    single nonzero, which contribute to the diagonal only.
    """
    symmetric, y = y is None, x if y is None else y
    pairs = _per_column(x) * _per_column(y)  # [K]
    dense = pairs > DENSE**2 * x.shape[0] * y.shape[0]
    rare = (pairs > (1 if symmetric else 0)) & ~dense
    single = min(_squared(x), _squared(y)) < EXACT
    x, y = (part.astype(np.float32 if single else np.float64) for part in (x, y))
    fraction = _dense_fraction(pairs, dense, x.shape[0] * y.shape[0])
    _add_dense(x[:, dense], y[:, dense], out, symmetric, part_of(watch, 0, fraction))
    _add_sparse(x[:, rare], y[:, rare], out, symmetric, part_of(watch, fraction, 1))


def _per_column(x: csr_array) -> np.ndarray:
    return np.bincount(x.indices, minlength=x.shape[1]).astype(np.float64)


def _squared(x: csr_array) -> float:
    """The largest squared norm of a row."""
    ends = np.concatenate([[0.0], np.cumsum(x.data**2)])
    return float((ends[x.indptr[1:]] - ends[x.indptr[:-1]]).max(initial=0))


def _dense_fraction(pairs: np.ndarray, dense: np.ndarray, size: int) -> float:
    """The approximate fraction of the time spent on dense columns."""
    dense_cost, sparse_cost = DENSE**2 * size * int(dense.sum()), float(pairs[~dense].sum())
    return dense_cost / max(dense_cost + sparse_cost, 1.0)


def _add_dense(x: csr_array, y: csr_array, out: np.ndarray, symmetric: bool, watch: Watch) -> None:
    total = x.shape[1]
    width = max(PANEL // max(x.shape[0] + y.shape[0], 1), 1)
    for start in range(0, total, width):
        a = x[:, start : start + width].toarray()
        b = a if symmetric else y[:, start : start + width].toarray()
        for rows in row_blocks(*out.shape):
            first = rows.start if symmetric else 0
            out[rows, first:] += a[rows] @ b[first:].T
        watch(min((start + width) / total, 1.0))


def _add_sparse(x: csr_array, y: csr_array, out: np.ndarray, symmetric: bool, watch: Watch) -> None:
    if x.nnz and y.nnz:
        transposed = y.T.tocsr()  # [K, m]
        for rows in row_blocks(*out.shape):
            first = rows.start if symmetric else 0
            columns = y[first:].T.tocsr() if symmetric else transposed
            out[rows, first:] += (x[rows] @ columns).toarray()
            watch(rows.stop / len(out))


def row_blocks(rows: int, columns: int) -> Iterator[slice]:
    """Slices of rows with about `BLOCK` values each."""
    step = max(BLOCK // max(columns, 1), 1)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def normalize(gram: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> None:
    """Divide K(i, j) by √(K(i, i) · K(j, j)) in place, given K(i, i) as `rows` and K(j, j) as `columns`."""
    rows, columns = np.where(rows > 0, rows, 1.0), np.where(columns > 0, columns, 1.0)
    for block in row_blocks(*gram.shape):
        gram[block] /= np.sqrt(rows[block, None] * columns)


def normalize_symmetric(gram: np.ndarray, diagonal: np.ndarray) -> None:
    """Normalize a symmetric K [n, n] given its upper triangle and its diagonal [n], and fill in the rest."""
    normalize(gram, diagonal, diagonal)
    for rows in row_blocks(*gram.shape):
        gram[rows, : rows.start] = gram[: rows.start, rows].T
        square = gram[rows, rows]
        square[:] = np.triu(square, 1) + np.triu(square, 1).T
    np.fill_diagonal(gram, (diagonal > 0).astype(np.float64))


def part_of(watch: Watch, start: float, end: float) -> Watch:
    """Map the progress of a part of the work to the range from `start` to `end`."""
    return lambda fraction: watch(start + (end - start) * fraction)


def ignore_progress(fraction: float) -> None:
    """A `Watch` that does nothing."""
