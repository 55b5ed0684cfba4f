"""Labelings of the nodes of a graph by its structure alone: isomorphic graphs get the same labels.

Only the order of the labels matters: the node with the largest label comes first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from diffpool.errors import DataError, SettingError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

TOLERANCE = 1e-9  # centralities that differ by less than this fraction of the largest are equal


def label(adjacency: csr_array, labeling: str) -> np.ndarray:
    """The label of each node of an undirected graph, from 0; indistinguishable nodes share a label: [n] int64."""
    if labeling not in _LABELINGS:
        raise SettingError(
            f"expected the labeling to be one of {', '.join(LABELINGS)}, got {labeling!r}"
        )
    return _LABELINGS[labeling](adjacency)


def weisfeiler_lehman(adjacency: csr_array) -> np.ndarray:
    """The stable colors of 1-dimensional Weisfeiler-Lehman, in an order that isomorphic graphs share: [n] int64.

    All nodes start with the same color. New colors are ordered lexicographically by the node's own color, then by those
    of its neighbors in descending order, so the first round orders the nodes by degree.
    """
    n, count = adjacency.shape[0], np.diff(adjacency.indptr)
    row = np.repeat(np.arange(n), count)
    firsts = adjacency.indptr[:-1] + np.arange(n)  # a word starts with the node's own color
    around = np.arange(len(row)) + row + 1
    ends = (4 * np.append(firsts, len(row) + n)).tolist()
    letters = np.empty(len(row) + n, ">u4")  # big-endian, so that bytes compare like numbers
    colors, number = np.zeros(n, np.int64), min(n, 1)
    while True:
        smaller = number - 1 - colors[adjacency.indices]
        letters[around] = number - 1 - (np.sort(row * number + smaller) - row * number)
        letters[firsts] = colors
        text = letters.tobytes()
        words = [text[start:end] for start, end in itertools.pairwise(ends)]
        color_of = {word: color for color, word in enumerate(sorted(set(words)))}
        if len(color_of) == number:
            return colors
        number = len(color_of)
        colors = np.array([color_of[word] for word in words], np.int64)


def betweenness(adjacency: csr_array) -> np.ndarray:
    """The rank of each node's betweenness centrality, the smallest 0: [n] int64."""
    n = adjacency.shape[0]
    row = np.repeat(np.arange(n), np.diff(adjacency.indptr))
    once = row < adjacency.indices
    edges = np.stack([row[once], adjacency.indices[once]], 1)
    centrality = np.array(igraph().Graph(n, edges).betweenness())
    order = np.argsort(centrality)
    # Equal centralities differ in their last digits, because they are summed in the order of the nodes.
    apart = np.diff(centrality[order]) > TOLERANCE * centrality.max(initial=0)
    labels = np.zeros(n, np.int64)
    labels[order[1:]] = np.cumsum(apart)
    return labels


_LABELINGS: dict[str, Callable[[csr_array], np.ndarray]] = {
    "wl": weisfeiler_lehman,
    "betweenness": betweenness,
}
LABELINGS = tuple(_LABELINGS)


def igraph() -> Any:
    """The igraph package, for betweenness centrality and BLISS."""
    try:
        import igraph
    except ImportError as error:
        raise DataError(
            "PATCHY-SAN needs igraph, which is not installed: pip install 'diffpool[patchy-san]'"
        ) from error
    return igraph
