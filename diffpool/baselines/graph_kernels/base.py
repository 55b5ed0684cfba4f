"""The base class of graph kernels: explicit sparse feature maps, and Gram matrices with scikit-learn's interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array, hstack
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from diffpool.baselines.graph_kernels.counts import Counts
from diffpool.baselines.graph_kernels.gram import (
    Watch,
    add_product,
    ignore_progress,
    normalize,
    normalize_symmetric,
    part_of,
)
from diffpool.data import RawGraphs, as_raw
from diffpool.errors import DataError


@dataclass(frozen=True, eq=False)
class Level:
    """One part of the feature map of the fitted graphs. The kernel is the sum over its levels."""

    known: np.ndarray  # [K] int64: the keys that have a column, sorted
    max_counts: np.ndarray  # [K]: the largest count in each column
    features: csr_array  # [B, ·]: the feature map


class GraphKernel(TransformerMixin, BaseEstimator, ABC):
    """A kernel between graphs with cosine normalization: K(G, G) = 1, or 0 if G has no features.

    Accepts graphs in every form that `diffpool.data.as_raw` reads. Edges are undirected: missing reverse edges are
    added. Node attributes, edge weights, edge labels and edge attributes are ignored.
    """

    def fit(self, graphs: Any, y: Any = None) -> Self:
        """Learn the features of these graphs; `y` is ignored."""
        raw = _read(graphs)
        self.levels_, squared = [], np.zeros(len(raw))
        for counts in self._learn(raw, ignore_progress):
            self.levels_.append(self._level(counts))
            squared += self._squared(counts)
        self.squared_ = squared  # [B]: K(G, G) before normalization
        return self

    def transform(self, graphs: Any) -> np.ndarray:
        """The kernel between these graphs and the fitted ones: [n, fitted] float64."""
        check_is_fitted(self, "levels_")
        raw = _read(graphs)
        out, squared = np.zeros((len(raw), len(self.squared_))), np.zeros(len(raw))
        for level, counts in zip(self.levels_, self._apply(raw), strict=True):
            features = self._features(counts.columns(level.known), level.max_counts)
            add_product(features, level.features, out, ignore_progress)
            squared += self._squared(counts)
        normalize(out, squared, self.squared_)
        return out

    def fit_transform(self, graphs: Any, y: Any = None) -> np.ndarray:
        """The kernel between all of these graphs: [n, n] float64, symmetric."""
        self.fit(graphs)
        out = np.zeros((len(self.squared_),) * 2)
        features = hstack([level.features for level in self.levels_], format="csr")
        add_product(features, None, out, ignore_progress)
        normalize_symmetric(out, self.squared_)
        return out

    def gram_by_level(self, raw: RawGraphs, watch: Watch = ignore_progress) -> list[np.ndarray]:
        """The Gram matrices [n, n] of the first level, the first two, … all levels; the kernel itself is not fitted."""
        learner = self.__class__(**self.get_params())
        grams: list[np.ndarray] = []
        diagonals: list[np.ndarray] = []
        levels, raw = self._num_levels, _read(raw)
        for i, counts in enumerate(learner._learn(raw, part_of(watch, 0, FEATURES / levels))):
            grams.append(grams[-1].copy() if grams else np.zeros((len(raw),) * 2))
            squared = self._squared(counts)
            diagonals.append(diagonals[-1] + squared if diagonals else squared)
            start = i / levels if i else FEATURES / levels
            rest = part_of(watch, start, (i + 1) / levels)
            add_product(self._level(counts).features, None, grams[-1], rest)
        for gram, diagonal in zip(grams, diagonals, strict=True):
            normalize_symmetric(gram, diagonal)
        watch(1.0)
        return grams

    def _level(self, counts: Counts) -> Level:
        known = counts.unique_keys()
        columns = counts.columns(known)
        max_counts = np.zeros(len(known))
        np.maximum.at(max_counts, columns.indices, columns.data)
        return Level(known, max_counts, self._features(columns, max_counts))

    @property
    def _num_levels(self) -> int:
        return 1

    @abstractmethod
    def _learn(self, raw: RawGraphs, watch: Watch) -> Iterator[Counts]:
        """Yield the counts of these graphs level by level, and learn new keys."""

    @abstractmethod
    def _apply(self, raw: RawGraphs) -> Iterator[Counts]:
        """The same with the learned keys; new keys differ from them and from each other."""

    def _features(self, columns: csr_array, max_counts: np.ndarray) -> csr_array:
        """The feature map: counts [B, K], largest counts in the fitted graphs [K] → [B, ·]."""
        return columns

    def _squared(self, counts: Counts) -> np.ndarray:
        """K(G, G) before normalization: [B]."""
        return counts.sum(2)


FEATURES = 0.8  # approximate fraction of the first level's time spent on its features


def _read(graphs: Any) -> RawGraphs:
    raw = as_raw(graphs)
    if len(raw) == 0:
        raise DataError("expected at least one graph, got none: were all of them filtered out?")
    return raw.undirected()
