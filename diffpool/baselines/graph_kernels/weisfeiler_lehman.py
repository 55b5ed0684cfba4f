"""The Weisfeiler-Lehman subtree kernel and the Weisfeiler-Lehman optimal assignment kernel.

Shervashidze et al., "Weisfeiler-Lehman graph kernels" (JMLR 2011); Kriege, Giscard and Wilson, "On valid optimal
assignment kernels" (NIPS 2016). Both count the colors of h rounds of color refinement. The first multiplies the counts
of two graphs; the second takes their minimum, which is the value of the best assignment between the nodes of the two
graphs, where a pair of nodes is worth the number of rounds in which they have the same color.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array

from diffpool.baselines.graph_kernels.base import GraphKernel
from diffpool.baselines.graph_kernels.counts import Counts
from diffpool.baselines.graph_kernels.gram import Watch
from diffpool.baselines.graph_kernels.labels import Known, choose_labels, number_labels
from diffpool.baselines.graph_kernels.refinement import Signatures, next_colors
from diffpool.data import RawGraphs
from diffpool.errors import SettingError


class WeisfeilerLehman(GraphKernel):
    """The subtree kernel: the sum over colors of the product of their counts in two graphs.

    Args:
        h: rounds of refinement; the colors of all rounds from 0 to h are counted.
        labels: the colors of round 0: "labels", "degree", "none" (all equal), or "auto": labels if any, else degrees.
    """

    def __init__(self, h: int = 5, labels: str = "auto"):
        self.h = h
        self.labels = labels

    @property
    def _num_levels(self) -> int:
        return self.h + 1

    def _learn(self, raw: RawGraphs, watch: Watch) -> Iterator[Counts]:
        if not isinstance(self.h, int | np.integer) or self.h < 0:
            raise SettingError(
                f"expected a nonnegative integer for h, got {self.h!r}: 5 is a common choice"
            )
        self.labels_ = choose_labels(raw, self.labels, otherwise="degree")
        self.known_labels_: Known = {}
        self.known_: list[Signatures] = []  # for each round from 1 on: a signature of each color
        colors = number_labels(raw, self.labels_, self.known_labels_)
        yield _counts(raw, colors)
        for _ in range(self.h):
            colors, known = next_colors(Signatures.from_colors(raw, colors))
            self.known_.append(known)
            yield _counts(raw, colors)

    def _apply(self, raw: RawGraphs) -> Iterator[Counts]:
        colors = number_labels(raw, self.labels_, dict(self.known_labels_))
        yield _counts(raw, colors)
        for known in self.known_:
            colors, _ = next_colors(Signatures.from_colors(raw, colors), known)
            yield _counts(raw, colors)


class WeisfeilerLehmanAssignment(WeisfeilerLehman):
    """The optimal assignment kernel: the sum over colors of the smaller count of two graphs. Same arguments.

    The minimum is a product of features: a color with count c becomes a 1 in each of c columns.
    """

    def _features(self, columns: csr_array, max_counts: np.ndarray) -> csr_array:
        # column of each color
        first = np.concatenate([[0], np.cumsum(max_counts)]).astype(np.int64)
        count = np.minimum(columns.data, max_counts[columns.indices]).astype(np.int64)
        ends = np.concatenate([[0], np.cumsum(count)])
        index = np.arange(ends[-1]) + np.repeat(first[columns.indices] - ends[:-1], count)
        shape = (columns.shape[0], int(first[-1]))
        return csr_array((np.ones(len(index)), index, ends[columns.indptr]), shape=shape)

    def _squared(self, counts: Counts) -> np.ndarray:
        return counts.sum(1)


def _counts(raw: RawGraphs, colors: np.ndarray) -> Counts:
    return Counts.from_entries(len(raw), np.repeat(np.arange(len(raw)), raw.sizes), colors)
