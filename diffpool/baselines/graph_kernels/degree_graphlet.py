"""The graphlet kernel behind the numbers of the DiffPool paper, as far as can be told: labels with degrees.

As in the code of Morris, Kersting and Mutzel, "Glocalized Weisfeiler-Lehman graph kernels" (ICDM 2017), which the
paper's numbers seem to come from. It is not that of Shervashidze et al. (2009): see docs/kernels.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from diffpool.baselines.graph_kernels.base import GraphKernel
from diffpool.baselines.graph_kernels.counts import Counts
from diffpool.baselines.graph_kernels.gram import Watch, nobody
from diffpool.baselines.graph_kernels.graphlet import TRIANGLE, of_three
from diffpool.baselines.graph_kernels.labels import (
    LABEL_BITS,
    Known,
    choose_labels,
    number_labels,
    with_numbers,
)
from diffpool.data import RawGraphs


class DegreeGraphlet(GraphKernel):
    """Counts the connected subgraphs of three nodes by the labels and degrees of the three, in no order.

    A degree is that in the whole graph. Which node of a path is the middle one is not told. Without labels the degrees
    are left out too: then this is `Graphlet`.

    Args:
        labels: "labels", "degree", "none", or "auto": labels, else none.
    """

    def __init__(self, labels: str = "auto"):
        self.labels = labels

    def _learn(self, raw: RawGraphs, watch: Watch) -> Iterator[Counts]:
        self.labels_ = choose_labels(raw, self.labels, otherwise="none")
        self.known_labels_: Known = {}
        self.known_pairs_: Known = {}  # of a label's number and a degree
        yield self._counts(raw, self.known_labels_, self.known_pairs_, watch)

    def _apply(self, raw: RawGraphs) -> Iterator[Counts]:
        yield self._counts(raw, dict(self.known_labels_), dict(self.known_pairs_), nobody)

    def _counts(self, raw: RawGraphs, labels: Known, pairs: Known, watch: Watch) -> Counts:
        numbers = number_labels(raw, self.labels_, labels)
        if self.labels_ != "none":
            numbers = _with_degrees(numbers, np.diff(raw.indptr), pairs)
        return _without_order(of_three(with_numbers(raw, numbers), watch))


def _with_degrees(labels: np.ndarray, degrees: np.ndarray, known: Known) -> np.ndarray:
    """[N] int64: the number of each node's label and degree. A pair that is not known gets the next number."""
    bound = int(degrees.max(initial=0)) + 1
    found, inverse = np.unique(labels * bound + degrees, return_inverse=True)
    names = zip((found // bound).tolist(), (found % bound).tolist(), strict=True)
    return np.array([known.setdefault(name, len(known)) for name in names], np.int64)[inverse]


def _without_order(counts: Counts) -> Counts:
    """The same with the three labels of each key sorted."""
    ones, keys = (1 << LABEL_BITS) - 1, counts.keys
    three = np.sort([keys >> shift * LABEL_BITS & ones for shift in (2, 1, 0)], axis=0)
    sorted_keys = (three[0] << 2 * LABEL_BITS) + (three[1] << LABEL_BITS) + three[2]
    return Counts.from_entries(
        len(counts), counts.graph, (keys & TRIANGLE) + sorted_keys, counts.counts
    )
