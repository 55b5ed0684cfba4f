"""The labels that a kernel starts from, as numbers that mean the same in the fitted graphs and in later ones."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from diffpool.data import Categories, RawGraphs
from diffpool.errors import DataError, SettingError

LABELS = ("auto", "labels", "degree", "none")
Known = dict[Hashable, int]  # label → number
LABEL_BITS = 20  # of a key that has more than one label


def choose_labels(raw: RawGraphs, labels: str, otherwise: str) -> str:
    """What `labels` means for these graphs: "auto" is their node labels or, without any, `otherwise`."""
    if labels not in LABELS:
        raise SettingError(
            f"expected labels of {', '.join(LABELS)}, got {labels!r}: leave it out for auto"
        )
    if labels == "auto":
        return otherwise if raw.node_labels is None else "labels"
    if labels == "labels" and raw.node_labels is None:
        raise SettingError(
            f"expected labels that {raw.name} has, got labels: its nodes have none; try degree or none"
        )
    return labels


def number_labels(raw: RawGraphs, labels: str, known: Known) -> np.ndarray:
    """[N] int64: the number of each node's label. A label that is not known gets the next number and is added."""
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
    """The different labels of the nodes, each as a tuple with a word for each column, and [N]: which one a node has."""
    table = raw.node_labels
    if raw.num_nodes == 0:
        return [], np.empty(0, np.int64)
    width = next((len(name) for name in known if isinstance(name, tuple)), None)
    columns = 0 if table is None else table.columns
    if table is None or columns != (width or columns):
        raise DataError(
            f"expected {width} columns of node labels in {raw.name} as in the fitted graphs, got {columns}: "
            "give all graphs the same"
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
    """The graphs with nothing but these numbers as node labels, all of `LABEL_BITS`."""
    if numbers.max(initial=0) >= 1 << LABEL_BITS:
        raise DataError(
            f"expected at most {1 << LABEL_BITS} different node labels in {raw.name}, got more: "
            "choose labels='none'"
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
