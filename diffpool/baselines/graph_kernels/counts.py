"""Sparse counts: how often each graph has each feature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

Entries = tuple[np.ndarray, np.ndarray, np.ndarray]  # graph, key, count
MAX_KEY = 2**62  # keys below it do not overflow int64 when added


@dataclass(frozen=True, eq=False)
class Counts:
    """CSR rows: graph g has `keys[i]` `counts[i]` times, for i in `indptr[g]` … `indptr[g + 1] − 1`; no duplicates."""

    indptr: np.ndarray  # [B + 1] int64
    keys: np.ndarray  # [entries] int64, nonnegative
    counts: np.ndarray  # [entries] float64

    @classmethod
    def from_entries(
        cls, graphs: int, graph: np.ndarray, keys: np.ndarray, counts: np.ndarray | None = None
    ) -> Counts:
        """From entries in any order; entries with the same graph and key are added up."""
        names, bound = None, int(keys.max(initial=0)) + 1
        if graphs * bound >= MAX_KEY:
            names, keys = np.unique(keys, return_inverse=True)
            bound = len(names)
        both, sums = add_up(graph * bound + keys, counts)
        graph = both // bound
        keys = both - graph * bound
        indptr = np.concatenate([[0], np.cumsum(np.bincount(graph, minlength=graphs))])
        return cls(indptr.astype(np.int64), keys if names is None else names[keys], sums)

    @classmethod
    def from_parts(cls, graphs: int, parts: Sequence[Entries]) -> Counts:
        """From several lists of entries."""
        empty = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
        columns = zip(empty, *parts, strict=True)
        return cls.from_entries(graphs, *(np.concatenate(column) for column in columns))

    @property
    def graph(self) -> np.ndarray:
        """The graph of each entry: [entries]."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def unique_keys(self) -> np.ndarray:
        """The distinct keys, sorted."""
        if self.keys.max(initial=0) < 4 * len(self.keys):  # faster than sorting
            return np.flatnonzero(np.bincount(self.keys))
        return np.unique(self.keys)

    def columns(self, known: np.ndarray) -> csr_array:
        """A column for each of the known keys, which are sorted; other keys are dropped: [B, K] float64."""
        if len(known) and known[-1] == len(known) - 1:  # consecutive from 0, like colors
            column, seen = self.keys, self.keys < len(known)
        else:
            column = np.searchsorted(known, self.keys)
            seen = column < len(known)
            seen[seen] = known[column[seen]] == self.keys[seen]
        indptr = np.concatenate([[0], np.cumsum(seen)])[self.indptr]
        shape = (len(self), len(known))
        return csr_array((self.counts[seen], column[seen], indptr), shape=shape)

    def sum(self, power: int) -> np.ndarray:
        """The sum of the powers of each graph's counts: [B]."""
        ends = np.concatenate([[0.0], np.cumsum(self.counts**power)])  # integers, so exact
        return ends[self.indptr[1:]] - ends[self.indptr[:-1]]


def add_up(keys: np.ndarray, counts: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The distinct keys, sorted, and how often each occurs, or the sum of its counts; keys with sum 0 are dropped."""
    if counts is None:
        keys = np.sort(keys)
        first = run_starts(keys)
        return keys[first], np.diff(first, append=len(keys)).astype(np.float64)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = run_starts(keys)
    sums = np.add.reduceat(counts[order], first) if len(first) else np.empty(0)
    kept = sums != 0
    return keys[first][kept], sums[kept].astype(np.float64)


def run_starts(values: np.ndarray) -> np.ndarray:
    """The index at which each run of equal values starts."""
    new = np.ones(len(values), bool)
    new[1:] = values[1:] != values[:-1]
    return np.flatnonzero(new)
