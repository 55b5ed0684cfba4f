"""What all kernels share: an explicit sparse feature map for each level, and Gram matrices in scikit-learn's manner."""

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
    nobody,
    normalize,
    normalize_alone,
    part_of,
)
from diffpool.data import RawGraphs, as_raw
from diffpool.errors import DataError


@dataclass(frozen=True, eq=False)
class Level:
    """One part of the feature map of the fitted graphs; the kernel is the sum over its levels."""

    known: np.ndarray  # [K] int64: the keys that have a column, sorted
    most: np.ndarray  # [K]: the largest count in each column
    features: csr_array  # [B, ·]: what is multiplied


class GraphKernel(TransformerMixin, BaseEstimator, ABC):
    """A kernel between graphs, normalized to the cosine: K(G, G) = 1, and 0 if G has nothing that it counts.

    Graphs come in every form that `diffpool.data.as_raw` reads. Edges are undirected: a missing reverse is added. Node
    attributes, edge weights, edge labels and edge attributes are not used.
    """

    def fit(self, graphs: Any, y: Any = None) -> Self:
        """Learn the features of these graphs; `y` is not used."""
        raw = _read(graphs)
        self.levels_, squared = [], np.zeros(len(raw))
        for counts in self._learn(raw, nobody):
            self.levels_.append(self._level(counts))
            squared += self._squared(counts)
        self.squared_ = squared  # [B]: K(G, G) before the normalization
        return self

    def transform(self, graphs: Any) -> np.ndarray:
        """The kernel between these graphs and the fitted ones: [n, fitted] float64."""
        check_is_fitted(self, "levels_")
        raw = _read(graphs)
        out, squared = np.zeros((len(raw), len(self.squared_))), np.zeros(len(raw))
        for level, counts in zip(self.levels_, self._apply(raw), strict=True):
            new = self._features(counts.columns(level.known), level.most)
            add_product(new, level.features, out, nobody)
            squared += self._squared(counts)
        normalize(out, squared, self.squared_)
        return out

    def fit_transform(self, graphs: Any, y: Any = None) -> np.ndarray:
        """The kernel between all of these graphs: [n, n] float64, symmetric."""
        self.fit(graphs)
        out = np.zeros((len(self.squared_),) * 2)
        everything = hstack([level.features for level in self.levels_], format="csr")
        add_product(everything, None, out, nobody)
        normalize_alone(out, self.squared_)
        return out

    def gram_by_level(self, raw: RawGraphs, watch: Watch = nobody) -> list[np.ndarray]:
        """The Gram matrices [n, n] of the first level, of the first two, … of all; nothing stays fitted."""
        learner = self.__class__(**self.get_params())
        grams: list[np.ndarray] = []
        diagonals: list[np.ndarray] = []
        levels, raw = self._num_levels, _read(raw)
        for i, counts in enumerate(learner._learn(raw, part_of(watch, 0, FEATURES / levels))):
            grams.append(grams[-1].copy() if grams else np.zeros((len(raw),) * 2))
            squared = self._squared(counts)
            diagonals.append(diagonals[-1] + squared if diagonals else squared)
            start = i / levels if i else FEATURES / levels
            done = part_of(watch, start, (i + 1) / levels)
            add_product(self._level(counts).features, None, grams[-1], done)
        for gram, diagonal in zip(grams, diagonals, strict=True):
            normalize_alone(gram, diagonal)
        watch(1.0)
        return grams

    def _level(self, counts: Counts) -> Level:
        known = counts.different_keys()
        columns = counts.columns(known)
        most = np.zeros(len(known))
        np.maximum.at(most, columns.indices, columns.data)
        return Level(known, most, self._features(columns, most))

    @property
    def _num_levels(self) -> int:
        return 1

    @abstractmethod
    def _learn(self, raw: RawGraphs, watch: Watch) -> Iterator[Counts]:
        """What is counted in these graphs, level by level; keys that are new are learnt."""

    @abstractmethod
    def _apply(self, raw: RawGraphs) -> Iterator[Counts]:
        """The same with the keys that were learnt; others are different from them and from each other."""

    def _features(self, columns: csr_array, most: np.ndarray) -> csr_array:
        """The feature map: [B, K] counts, [K] largest counts in the fitted graphs → [B, ·]."""
        return columns

    def _squared(self, counts: Counts) -> np.ndarray:
        """[B]: K(G, G) before the normalization."""
        return counts.sum(2)


FEATURES = 0.8  # the share of the first level's time that its features take, about


def _read(graphs: Any) -> RawGraphs:
    raw = as_raw(graphs)
    if len(raw) == 0:
        raise DataError("expected at least one graph, got none: was everything filtered?")
    return raw.undirected()
