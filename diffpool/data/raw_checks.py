"""Checks of `RawGraphs` that were made by hand. Graphs from `from_edges` and from the readers always pass them."""

from __future__ import annotations

import numpy as np

from diffpool.data.categories import Categories
from diffpool.data.raw import (
    EDGE_TABLES,
    GRAPH_TABLES,
    NODE_TABLES,
    NUMBERS,
    RawGraphs,
    check_range,
)
from diffpool.edge_checks import check_csr
from diffpool.errors import DataError

ADVICE = "Build the graphs with RawGraphs.from_edges."


def check_raw(raw: RawGraphs) -> None:
    """Raise a DataError unless every field is as described in the docstring of `RawGraphs`."""
    for field in ("sizes", "indptr", "source"):
        array = getattr(raw, field)
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu":
            raise DataError(f"expected {field} as an array of integers [·]. {ADVICE}")
    check_csr(raw.sizes, raw.indptr, raw.source, raw.edge_weights, None)
    ascending = np.diff(raw.source) > 0
    ascending[raw.indptr[(raw.indptr > 0) & (raw.indptr < raw.num_edges)] - 1] = True
    if not ascending.all():
        edge = int(np.argmin(ascending)) + 1
        raise DataError(
            f"expected edges sorted by target and then source, without duplicates, got edge {edge} out of order. "
            + ADVICE
        )
    rows = {NODE_TABLES: raw.num_nodes, EDGE_TABLES: raw.num_edges, GRAPH_TABLES: len(raw)}
    for fields, expected in rows.items():
        for field in fields:
            _check_table(raw, field, expected)
    present = {field: getattr(raw, field) for field in NUMBERS}
    if any(table is not None for table in present.values()):
        check_range(raw.sizes, raw.target, present)
    if raw.edge_weights is not None and (raw.edge_weights < 0).any():
        raise DataError("expected edge weights of at least 0, got others: remove or replace them.")
    if not raw.directed and not raw.is_symmetric():
        raise DataError(f"expected directed=True, because an edge has no reverse. {ADVICE}")


def _check_table(raw: RawGraphs, field: str, expected: int) -> None:
    table = getattr(raw, field)
    if table is None:
        return
    if len(table) != expected:
        raise DataError(
            f"expected one row of {field} for each of {expected} {_unit(field)}s, got {len(table)}."
        )
    if not isinstance(table, Categories):
        dimensions = 1 if field == "edge_weights" else 2
        if table.ndim != dimensions or table.dtype.kind not in "fiu":
            raise DataError(
                f"expected {field} as an array of numbers with {dimensions} dimensions, got {table.dtype} "
                f"{list(table.shape)}."
            )
        return
    if table.codes.ndim != 2 or table.codes.shape[1] != len(table.names):
        raise DataError(
            f"expected a column of codes for each of the {len(table.names)} lists of names of {field}."
        )
    for codes, names in zip(table.codes.T, table.names, strict=True):
        if len(codes) and (codes.min() < 0 or codes.max() >= len(names)):
            wrong = codes.min() if codes.min() < 0 else codes.max()
            raise DataError(
                f"expected codes of {field} from 0 to {len(names) - 1}, one for each name, got {wrong}."
            )


def _unit(field: str) -> str:
    return "node" if field in NODE_TABLES else "edge" if field in EDGE_TABLES else "graph"
