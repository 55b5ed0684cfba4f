"""Labellings of the nodes of one graph, by its structure alone: isomorphic graphs get the same labels.

Of a labelling only the order counts: the node with the largest label comes first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from diffpool.errors import DataError, SettingError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

TOLERANCE = 1e-9  # centralities that differ by less, relative to the largest, are equal


def label(adjacency: csr_array, labelling: str) -> np.ndarray:
    """[n] int64 from 0: the label of each node of an undirected graph; equal where it cannot tell nodes apart."""
    if labelling not in _LABELLINGS:
        raise SettingError(
            f"expected one of the labellings {', '.join(LABELLINGS)}, got {labelling!r}: choose one"
        )
    return _LABELLINGS[labelling](adjacency)


def weisfeiler_lehman(adjacency: csr_array) -> np.ndarray:
    """[n] int64: the stable colors of 1-dimensional Weisfeiler-Lehman, in an order that isomorphic graphs share.

    All nodes start with one color. Colors are compared by a node's last color, then by those of its neighbors, the
    largest first, as words are in a dictionary: so the first round orders the nodes by degree.
    """
    n, count = adjacency.shape[0], np.diff(adjacency.indptr)
    row = np.repeat(np.arange(n), count)
    own = adjacency.indptr[:-1] + np.arange(n)  # where the word of each node begins: its own color
    around = np.arange(len(row)) + row + 1
    ends = (4 * np.append(own, len(row) + n)).tolist()
    letters = np.empty(len(row) + n, ">u4")  # big-endian, so that bytes are compared as numbers are
    colors, number = np.zeros(n, np.int64), min(n, 1)
    while True:
        smaller = number - 1 - colors[adjacency.indices]
        letters[around] = number - 1 - (np.sort(row * number + smaller) - row * number)
        letters[own] = colors
        text = letters.tobytes()
        words = [text[start:end] for start, end in itertools.pairwise(ends)]
        place = {word: color for color, word in enumerate(sorted(set(words)))}
        if len(place) == number:
            return colors
        number = len(place)
        colors = np.array([place[word] for word in words], np.int64)


def betweenness(adjacency: csr_array) -> np.ndarray:
    """[n] int64: the nodes' betweenness centralities by size, the smallest 0."""
    n = adjacency.shape[0]
    row = np.repeat(np.arange(n), np.diff(adjacency.indptr))
    once = row < adjacency.indices
    edges = np.stack([row[once], adjacency.indices[once]], 1)
    centrality = np.array(igraph().Graph(n, edges).betweenness())
    order = np.argsort(centrality)
    # Equal ones differ in their last digits, for they are sums in the order of the nodes.
    apart = np.diff(centrality[order]) > TOLERANCE * centrality.max(initial=0)
    labels = np.zeros(n, np.int64)
    labels[order[1:]] = np.cumsum(apart)
    return labels


_LABELLINGS: dict[str, Callable[[csr_array], np.ndarray]] = {
    "wl": weisfeiler_lehman,
    "betweenness": betweenness,
}
LABELLINGS = tuple(_LABELLINGS)


def igraph() -> Any:
    """The package, which has betweenness centrality and BLISS."""
    try:
        import igraph
    except ImportError as error:
        raise DataError(
            "expected igraph, which prepares graphs for PATCHY-SAN, got none: pip install 'diffpool[patchy-san]'"
        ) from error
    return igraph
