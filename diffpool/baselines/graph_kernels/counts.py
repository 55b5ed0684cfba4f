"""How often each graph has each thing that a kernel counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

Entries = tuple[np.ndarray, np.ndarray, np.ndarray]  # graph, key, count
MOST = 2**62  # numbers below it are exact in int64, with room for a sum


@dataclass(frozen=True, eq=False)
class Counts:
    """Sparse rows: graph g has `keys[i]` `counts[i]` times, for i from `indptr[g]` to `indptr[g + 1]`; no key twice."""

    indptr: np.ndarray  # [B + 1] int64
    keys: np.ndarray  # [entries] int64, at least 0
    counts: np.ndarray  # [entries] float64

    @classmethod
    def from_entries(
        cls, graphs: int, graph: np.ndarray, keys: np.ndarray, counts: np.ndarray | None = None
    ) -> Counts:
        """From entries in any order: `graph` [n] and `keys` [n]; those of the same graph and key are added up."""
        names, bound = None, int(keys.max(initial=0)) + 1
        if graphs * bound >= MOST:
            names, keys = np.unique(keys, return_inverse=True)
            bound = len(names)
        both, sums = add_up(graph * bound + keys, counts)
        graph = both // bound
        keys = both - graph * bound
        indptr = np.concatenate([[0], np.cumsum(np.bincount(graph, minlength=graphs))])
        return cls(indptr.astype(np.int64), keys if names is None else names[keys], sums)

    @classmethod
    def joined(cls, graphs: int, parts: Sequence[Entries]) -> Counts:
        """From several such lists of entries."""
        nothing = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
        columns = zip(nothing, *parts, strict=True)
        return cls.from_entries(graphs, *(np.concatenate(column) for column in columns))

    @property
    def graph(self) -> np.ndarray:
        """[entries]: the graph of each."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def different_keys(self) -> np.ndarray:
        """Sorted."""
        if self.keys.max(initial=0) < 4 * len(self.keys):  # quicker than sorting
            return np.flatnonzero(np.bincount(self.keys))
        return np.unique(self.keys)

    def columns(self, known: np.ndarray) -> csr_array:
        """[B, K] float64: a column for each of the known keys, which are sorted; others are left out."""
        if len(known) and known[-1] == len(known) - 1:  # all numbers from 0, as colors are
            place, seen = self.keys, self.keys < len(known)
        else:
            place = np.searchsorted(known, self.keys)
            seen = place < len(known)
            seen[seen] = known[place[seen]] == self.keys[seen]
        indptr = np.concatenate([[0], np.cumsum(seen)])[self.indptr]
        shape = (len(self), len(known))
        return csr_array((self.counts[seen], place[seen], indptr), shape=shape)

    def sum(self, power: int) -> np.ndarray:
        """[B]: the sum of the powers of a graph's counts."""
        ends = np.concatenate([[0.0], np.cumsum(self.counts**power)])  # whole numbers: exact
        return ends[self.indptr[1:]] - ends[self.indptr[:-1]]


def add_up(keys: np.ndarray, counts: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The different keys, sorted, and how often each came, or the sum of its counts; without those whose sum is 0."""
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
    """Where a run of equal values starts."""
    new = np.ones(len(values), bool)
    new[1:] = values[1:] != values[:-1]
    return np.flatnonzero(new)
