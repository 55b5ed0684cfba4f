"""Checksums of the data sets that the published results were measured on."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator

import numpy as np

from diffpool.data.categories import Categories
from diffpool.data.raw import EDGE_TABLES, GRAPH_TABLES, NODE_TABLES, RawGraphs

# `content_hash` of each data set in results/.
KNOWN_CONTENT = {
    "COLLAB": "dd2687b7eaaf89f74d94809850c05c11c5db17710dbc6e323e2e1f4dad3d8954",
    "DD": "3e579d9a2f8d2b998d6fe026e5d8b1a81c211f53e42f5cdaa5612071a2620613",
    "ENZYMES": "9a76bd67eab1d67cb7fe4cf4f91f3233127a7e8ad6bae972e6f3bf31d6f5ec31",
    "PROTEINS": "ff5788d31750bcd889205df8b0d9985e9440c8c252af61ddd4d96365d74c8cdf",
    "REDDIT-MULTI-12K-sub1111": "90ad5bb0900d5f995ce243160a8d6effadd87d94156f456a90e3fe3bada04ae3",
}


def content_hash(raw: RawGraphs) -> str:
    """SHA-256 of the graphs, labels and attributes.

    It does not depend on compression, line endings, spaces, or the order of the edges.
    """
    digest = hashlib.sha256()
    for name, array in _arrays(raw):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _arrays(raw: RawGraphs) -> Iterator[tuple[str, np.ndarray]]:
    yield "sizes", raw.sizes.astype("<i8")
    yield "indptr", raw.indptr.astype("<i8")
    yield "source", raw.source.astype("<u4")  # takes half the time of 8 bytes
    for field in (*NODE_TABLES, *EDGE_TABLES, *GRAPH_TABLES):
        table = getattr(raw, field)
        if isinstance(table, Categories):
            yield f"{field} {table.names}", table.codes.astype("<i4")
        elif table is not None:
            yield field, table.astype("<f8") + 0.0  # -0 is 0


def warn_if_different(raw: RawGraphs) -> None:
    """Warn if a data set of this name is known and its content differs."""
    known = KNOWN_CONTENT.get(raw.name)
    if known is not None and (found := content_hash(raw)) != known:
        warnings.warn(
            f"{raw.name} differs from the data set of this name that the results of this package were measured on (the "
            f"SHA-256 of its content is {found[:16]}…, not {known[:16]}…): do not compare accuracies. If it was "
            "downloaded, --refresh downloads it again",
            stacklevel=3,
        )
