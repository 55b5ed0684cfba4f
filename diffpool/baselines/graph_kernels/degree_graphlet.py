"""A graphlet kernel with labels and degrees, which probably gave the numbers in the DiffPool paper.

It follows the code of Morris, Kersting and Mutzel, "Glocalized Weisfeiler-Lehman graph kernels" (ICDM 2017). It is not
the kernel of Shervashidze et al. (2009): see docs/kernels.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from diffpool.baselines.graph_kernels.base import GraphKernel
from diffpool.baselines.graph_kernels.counts import Counts
from diffpool.baselines.graph_kernels.gram import Watch, ignore_progress
from diffpool.baselines.graph_kernels.graphlet import TRIANGLE, count_triples
from diffpool.baselines.graph_kernels.labels import (
    LABEL_BITS,
    Known,
    choose_labels,
    number_labels,
    with_numbers,
)
from diffpool.data import RawGraphs


class DegreeGraphlet(GraphKernel):
    """Counts connected subgraphs of three nodes by the unordered labels and degrees of their nodes.

    Degrees are those in the whole graph. The middle node of a path is not distinguished. Without labels, degrees are
    ignored as well, and the kernel equals `Graphlet`.

    Args:
        labels: "labels", "degree", "none", or "auto": labels if any, else none.
    """

    def __init__(self, labels: str = "auto"):
        self.labels = labels

    def _learn(self, raw: RawGraphs, watch: Watch) -> Iterator[Counts]:
        self.labels_ = choose_labels(raw, self.labels, otherwise="none")
        self.known_labels_: Known = {}
        self.known_pairs_: Known = {}  # (number of a label, degree) → number
        yield self._counts(raw, self.known_labels_, self.known_pairs_, watch)

    def _apply(self, raw: RawGraphs) -> Iterator[Counts]:
        yield self._counts(raw, dict(self.known_labels_), dict(self.known_pairs_), ignore_progress)

    def _counts(self, raw: RawGraphs, labels: Known, pairs: Known, watch: Watch) -> Counts:
        numbers = number_labels(raw, self.labels_, labels)
        if self.labels_ != "none":
            numbers = _with_degrees(numbers, np.diff(raw.indptr), pairs)
        return _without_order(count_triples(with_numbers(raw, numbers), watch))


def _with_degrees(labels: np.ndarray, degrees: np.ndarray, known: Known) -> np.ndarray:
    """The number of each node's (label, degree) pair; a new pair gets the next number: [N] int64."""
    bound = int(degrees.max(initial=0)) + 1
    found, inverse = np.unique(labels * bound + degrees, return_inverse=True)
    names = zip((found // bound).tolist(), (found % bound).tolist(), strict=True)
    return np.array([known.setdefault(name, len(known)) for name in names], np.int64)[inverse]


def _without_order(counts: Counts) -> Counts:
    """Sort the three labels of each key."""
    ones, keys = (1 << LABEL_BITS) - 1, counts.keys
    three = np.sort([keys >> shift * LABEL_BITS & ones for shift in (2, 1, 0)], axis=0)
    sorted_keys = (three[0] << 2 * LABEL_BITS) + (three[1] << LABEL_BITS) + three[2]
    return Counts.from_entries(
        len(counts), counts.graph, (keys & TRIANGLE) + sorted_keys, counts.counts
    )
