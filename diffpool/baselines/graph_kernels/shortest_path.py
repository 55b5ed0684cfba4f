"""The shortest-path kernel: Borgwardt and Kriegel, "Shortest-path kernels on graphs" (ICDM 2005)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from diffpool.baselines.graph_kernels.base import GraphKernel
from diffpool.baselines.graph_kernels.bitsets import Word, distances, words
from diffpool.baselines.graph_kernels.counts import Counts, Entries, add_up
from diffpool.baselines.graph_kernels.gram import Watch, ignore_progress
from diffpool.baselines.graph_kernels.labels import (
    LABEL_BITS,
    Known,
    choose_labels,
    number_labels,
    with_numbers,
)
from diffpool.data import RawGraphs


class ShortestPath(GraphKernel):
    """Counts (label, label, distance) over all unordered pairs of distinct nodes with a path between them.

    The distance is the number of edges.

    Args:
        labels: "labels", "degree", "none" (distances only), or "auto": labels if any, else none.
    """

    def __init__(self, labels: str = "auto"):
        self.labels = labels

    def _learn(self, raw: RawGraphs, watch: Watch) -> Iterator[Counts]:
        self.labels_ = choose_labels(raw, self.labels, otherwise="none")
        self.known_labels_: Known = {}
        numbers = number_labels(raw, self.labels_, self.known_labels_)
        yield _counts(with_numbers(raw, numbers), watch)

    def _apply(self, raw: RawGraphs) -> Iterator[Counts]:
        numbers = number_labels(raw, self.labels_, dict(self.known_labels_))
        yield _counts(with_numbers(raw, numbers), ignore_progress)


def _counts(raw: RawGraphs, watch: Watch) -> Counts:
    """The pairs of graphs with integer node labels."""
    work, total = 0.0, max(float((raw.sizes.astype(np.float64) ** 2).sum()), 1.0)
    parts: list[Entries] = []
    for word in words(raw):
        parts.append(_count_pairs(word))
        work += 64.0 * word.graphs.num_nodes
        watch(min(work / total, 1.0))
    return Counts.from_parts(len(raw), parts)


def _count_pairs(word: Word) -> Entries:
    """The pairs whose earlier node is in this word."""
    node, other, distance = distances(word)
    graph, label = word.graph, word.labels
    labels, longest = int(label.max(initial=0)) + 1, int(distance.max(initial=0)) + 1
    both = (graph * longest)[node] + distance
    if labels > 1:
        a, b = label[node], label[other]
        both = (both * labels + np.minimum(a, b)) * labels + np.maximum(a, b)
    bins = len(word.graphs) * longest * labels**2
    found, counts = _tally(both, bins)
    found, b = np.divmod(found, labels)
    found, a = np.divmod(found, labels)
    graph, distance = np.divmod(found, longest)
    # key: distance, label, label
    return word.graph_numbers[graph], (distance << 2 * LABEL_BITS) + (a << LABEL_BITS) + b, counts


def _tally(keys: np.ndarray, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct keys, all below `bins`, and how often each occurs: by counting where that is faster than sorting."""
    if bins > 4 * len(keys):
        return add_up(keys)
    counts = np.bincount(keys, minlength=bins)
    found = np.flatnonzero(counts)
    return found, counts[found].astype(np.float64)
