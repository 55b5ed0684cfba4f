"""Exact color refinement of all graphs at once: sort random hashes of signatures, then compare the signatures."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from diffpool.data import RawGraphs

BLOCK = 1 << 20  # neighbors processed together


@dataclass(frozen=True, eq=False)
class Signatures:
    """What determines a node's next color: its own color and the multiset of its neighbors' colors."""

    own: np.ndarray  # [n] int64
    indptr: np.ndarray  # [n + 1] int64
    around: np.ndarray  # [neighbors] int32, sorted within each node

    @classmethod
    def from_colors(cls, raw: RawGraphs, colors: np.ndarray) -> Signatures:
        """The signatures of all nodes, given their colors [N]."""
        around = np.empty(raw.num_edges, np.int32)
        bound = int(colors.max(initial=0)) + 1
        for nodes, edges in raw.blocks():
            count = np.diff(raw.indptr[nodes.start : nodes.stop + 1])
            row = np.repeat(np.arange(len(count)) * bound, count)
            around[edges] = np.sort(row + colors[raw.source[edges]]) - row
        return cls(colors, raw.indptr, around)

    def __len__(self) -> int:
        return len(self.own)

    def rows(self, chosen: np.ndarray) -> Signatures:
        count = np.diff(self.indptr)[chosen]
        indptr = np.concatenate([[0], np.cumsum(count)])
        index = np.arange(indptr[-1]) + np.repeat(self.indptr[chosen] - indptr[:-1], count)
        return Signatures(self.own[chosen], indptr, self.around[index])

    def followed_by(self, other: Signatures) -> Signatures:
        return Signatures(
            np.concatenate([self.own, other.own]),
            np.concatenate([self.indptr, other.indptr[1:] + self.indptr[-1]]),
            np.concatenate([self.around, other.around]),
        )


def next_colors(
    signatures: Signatures, known: Signatures | None = None
) -> tuple[np.ndarray, Signatures]:
    """The next colors, equal exactly where signatures are equal: [n] int64. And one signature of each color, in order.

    `known` has the signatures of existing colors; new colors get the next numbers.
    """
    count = 0 if known is None else len(known)
    combined = signatures if known is None else known.followed_by(signatures)
    first, inverse = group_equal(combined)
    new = first >= count
    number = first.copy()  # known signatures come first and are distinct
    number[new] = count + np.arange(new.sum())
    chosen = np.concatenate([np.arange(count), first[new]])
    return number[inverse][count:], combined.rows(chosen)


def hashes(signatures: Signatures, seed: int) -> np.ndarray:
    """Hash each signature to a sum of random numbers, one for each color, modulo 2^64: [n] uint64."""
    bound = int(max(signatures.own.max(initial=0), signatures.around.max(initial=0))) + 1
    own_hash, around_hash = np.random.default_rng(seed).integers(
        2**64, size=(2, bound), dtype=np.uint64
    )
    sums = own_hash[signatures.own]
    for start, stop, edges in _blocks(signatures):
        ends = np.concatenate([[np.uint64(0)], np.cumsum(around_hash[signatures.around[edges]])])
        indptr = signatures.indptr[start : stop + 1] - edges.start
        sums[start:stop] += ends[indptr[1:]] - ends[indptr[:-1]]
    return sums


def group_equal(
    signatures: Signatures, hash_with: Callable[[Signatures, int], np.ndarray] = hashes
) -> tuple[np.ndarray, np.ndarray]:
    """The first node of each group of equal signatures, and the group of each node: [n].

    Signatures are grouped by hash, and then compared with the first of their group. In the unlikely event of a
    collision, they are hashed with the next seed.
    """
    for seed in itertools.count():
        _, first, inverse = np.unique(
            hash_with(signatures, seed), return_index=True, return_inverse=True
        )
        if _all_equal(signatures, first[inverse]):
            return first, inverse
    raise AssertionError  # unreachable


def _all_equal(signatures: Signatures, other: np.ndarray) -> bool:
    """Whether every node has the same signature as the node `other` [n]."""
    count, own = np.diff(signatures.indptr), signatures.own
    if not (np.array_equal(own, own[other]) and np.array_equal(count, count[other])):
        return False
    for start, stop, edges in _blocks(signatures):
        shift = signatures.indptr[other[start:stop]] - signatures.indptr[start:stop]
        index = np.arange(edges.start, edges.stop) + np.repeat(shift, count[start:stop])
        if not np.array_equal(signatures.around[edges], signatures.around[index]):
            return False
    return True


def _blocks(signatures: Signatures) -> list[tuple[int, int, slice]]:
    """Blocks of nodes: the first node, the end, and the slice of their neighbors."""
    indptr, found, start = signatures.indptr, [], 0
    while start < len(signatures):
        stop = int(np.searchsorted(indptr, indptr[start] + BLOCK, side="right")) - 1
        stop = min(max(stop, start + 1), len(signatures))
        found.append((start, stop, slice(int(indptr[start]), int(indptr[stop]))))
        start = stop
    return found
