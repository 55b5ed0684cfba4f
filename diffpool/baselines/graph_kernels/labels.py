"""The initial node labels of a kernel as integers that agree between fitted and later graphs."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from diffpool.data import Categories, RawGraphs
from diffpool.errors import DataError, SettingError

LABELS = ("auto", "labels", "degree", "none")
Known = dict[Hashable, int]  # label → number
LABEL_BITS = 20  # bits per label in a key with several labels


def choose_labels(raw: RawGraphs, labels: str, otherwise: str) -> str:
    """Resolve "auto" for these graphs: their node labels, or `otherwise` if they have none."""
    if labels not in LABELS:
        raise SettingError(
            f"expected labels to be {', '.join(LABELS[:-1])} or {LABELS[-1]}, got {labels!r}: the default is auto"
        )
    if labels == "auto":
        return otherwise if raw.node_labels is None else "labels"
    if labels == "labels" and raw.node_labels is None:
        raise SettingError(
            f"labels='labels' needs node labels, but {raw.name} has none: use 'degree' or 'none'"
        )
    return labels


def number_labels(raw: RawGraphs, labels: str, known: Known) -> np.ndarray:
    """The number of each node's label: [N] int64. A new label gets the next number and is added to `known`."""
    if labels == "none":
        known.setdefault((), 0)
        return np.zeros(raw.num_nodes, np.int64)
    if labels == "degree":
        values, inverse = np.unique(np.diff(raw.indptr), return_inverse=True)
        names: list[Hashable] = values.tolist()
    else:
        names, inverse = _names(raw, known)
    numbers = [known.setdefault(name, len(known)) for name in names]
    return np.array(numbers, np.int64)[inverse]


def _names(raw: RawGraphs, known: Known) -> tuple[list[Hashable], np.ndarray]:
    """The distinct node labels, as tuples with one string per column, and the index of each node's label: [N]."""
    table = raw.node_labels
    if raw.num_nodes == 0:
        return [], np.empty(0, np.int64)
    width = next((len(name) for name in known if isinstance(name, tuple)), None)
    columns = 0 if table is None else table.columns
    if table is None or columns != (width or columns):
        raise DataError(
            f"expected {width} node label columns in {raw.name}, as in the fitted graphs, got {columns}: "
            "all graphs need the same columns"
        )
    if columns == 1:  # np.unique by rows is slow
        rows, inverse = np.unique(table.codes[:, 0], return_inverse=True)
        rows = rows[:, None]
    else:
        rows, inverse = np.unique(table.codes, axis=0, return_inverse=True)
    names: list[Hashable] = [
        tuple(table.names[c][code] for c, code in enumerate(row)) for row in rows.tolist()
    ]
    return names, inverse.reshape(-1)


def with_numbers(raw: RawGraphs, numbers: np.ndarray) -> RawGraphs:
    """The graphs with these numbers as node labels and no other data; they must fit into `LABEL_BITS`."""
    if numbers.max(initial=0) >= 1 << LABEL_BITS:
        raise DataError(
            f"expected at most {1 << LABEL_BITS} distinct node labels in {raw.name}, got more: "
            "use labels='none'"
        )
    return replace(
        raw,
        edge_weights=None,
        edge_labels=None,
        edge_attributes=None,
        node_labels=Categories(numbers[:, None].astype(np.int32), ((),)),
        node_attributes=None,
        classes=None,
        targets=None,
    )
