"""Sets of nodes as bits: 64 nodes of each of many graphs at a time, one word for each node.

Word w of a graph stands for its nodes 64 w to 64 w + 63. What is done with a word of each node of many graphs at once
is one operation on arrays: breadth-first search from 64 nodes of every graph, or the common neighbors of every edge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from diffpool.data import RawGraphs

BLOCK = 1 << 16  # nodes and edges that are looked at together: they stay in the cache
BITS = 64
ALL = np.uint64(2**64 - 1)


@dataclass(frozen=True, eq=False)
class Word:
    """Word `number` of some graphs, all of which have it."""

    graphs: RawGraphs  # with numbers as node labels
    which: np.ndarray  # [B]: the graphs' numbers in the data set
    number: int

    @property
    def graph(self) -> np.ndarray:
        """[N]: the graph of each node, among these."""
        return np.repeat(np.arange(len(self.graphs)), self.graphs.sizes)

    @property
    def place(self) -> np.ndarray:
        """[N]: the place of each node in its graph, less that of the word's first node."""
        starts = np.repeat(self.graphs.starts, self.graphs.sizes)
        return np.arange(self.graphs.num_nodes) - starts - BITS * self.number

    @property
    def labels(self) -> np.ndarray:
        """[N] int64"""
        assert self.graphs.node_labels is not None
        return self.graphs.node_labels.codes[:, 0].astype(np.int64)

    def first_nodes(self) -> np.ndarray:
        """[N]: the node of bit 0 in each node's graph."""
        return np.repeat(self.graphs.starts, self.graphs.sizes) + BITS * self.number


def words(raw: RawGraphs) -> Iterator[Word]:
    """Every word of every graph, for graphs of similar size together."""
    order = np.argsort(raw.sizes, kind="stable")
    ends = np.cumsum((raw.sizes + raw.edge_counts)[order])
    start = 0
    while start < len(order):
        limit = BLOCK + (ends[start - 1] if start else 0)
        stop = max(int(np.searchsorted(ends, limit, side="right")), start + 1)
        which, number = order[start:stop], 0
        graphs = raw.select(which)
        while len(which):
            yield Word(graphs, which, number)
            number += 1
            larger = graphs.sizes > BITS * number
            if not larger.all():
                graphs, which = graphs[larger] if larger.any() else graphs, which[larger]
        start = stop


def own_bits(place: np.ndarray) -> np.ndarray:
    """[N] uint64: the bit of the node itself, 0 if it is in another word."""
    bits = np.zeros(len(place), np.uint64)
    here = (place >= 0) & (place < BITS)
    bits[here] = np.uint64(1) << place[here].astype(np.uint64)
    return bits


def bits_before(place: np.ndarray) -> np.ndarray:
    """[N] uint64: the bits of the nodes before the node."""
    bits = np.where(place >= BITS, ALL, np.uint64(0))
    here = (place > 0) & (place < BITS)
    bits[here] = (np.uint64(1) << place[here].astype(np.uint64)) - np.uint64(1)
    return bits


def distances(word: Word) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each pair of a node and an earlier one in this word with a path between them: the two, and the distance."""
    place = word.place
    planes = _distance_planes(word.graphs, own_bits(place))
    later = np.flatnonzero(place > 0)
    before = bits_before(place[later])
    distance = np.zeros(len(later) * BITS, np.min_scalar_type((1 << len(planes)) - 1))
    for digit, plane in enumerate(planes):
        bits = _unpacked(plane[later] & before).astype(distance.dtype, copy=False)
        distance |= bits << distance.dtype.type(digit)
    pairs = np.flatnonzero(distance)
    node = later[pairs >> 6]
    return node, word.first_nodes()[node] + (pairs & 63), distance[pairs]


def _distance_planes(graphs: RawGraphs, reached: np.ndarray) -> list[np.ndarray]:
    """Digit by digit, in binary: the distance of each node from the nodes of the word; 0 if there is no path.

    All searches go one step at a time: what is reached next is what a neighbor of it was reached from.
    """
    linked = np.flatnonzero(np.diff(graphs.indptr))
    starts = graphs.indptr[linked]
    frontier, distance = reached, 0
    planes: list[np.ndarray] = []
    while len(linked):
        new = np.zeros_like(reached)
        new[linked] = np.bitwise_or.reduceat(frontier[graphs.source], starts)
        new &= ~reached
        if not new.any():
            break
        distance += 1
        if distance.bit_length() > len(planes):
            planes.append(np.zeros_like(reached))
        for digit, plane in enumerate(planes):
            if distance >> digit & 1:
                plane |= new
        reached, frontier = reached | new, new
    return planes


def neighbors(word: Word) -> np.ndarray:
    """[N] uint64: the neighbors of each node that are in this word."""
    bits = own_bits(word.place)[word.graphs.source]  # [E]
    inside = np.flatnonzero(bits)
    target = word.graphs.target[inside]
    out = np.zeros(word.graphs.num_nodes, np.uint64)
    if len(inside):
        starts = np.flatnonzero(np.diff(target, prepend=-1))  # sorted by target
        out[target[starts]] = np.bitwise_or.reduceat(bits[inside], starts)
    return out


def members(bits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of sets [n] uint64: for each member the set that it is in, and its place in the word."""
    filled = np.flatnonzero(bits)
    found = np.flatnonzero(_unpacked(bits[filled]))
    return filled[found >> 6], found & 63


def count_bits(bits: np.ndarray) -> np.ndarray:
    """[n]: the members of each set; NumPy 1 has no function for it."""
    halves = [np.uint64(mask) for mask in (2**64 // 3, 2**64 // 5, 2**64 // 17, 2**64 // 255)]
    bits = bits - (bits >> np.uint64(1) & halves[0])
    bits = (bits & halves[1]) + (bits >> np.uint64(2) & halves[1])
    bits = bits + (bits >> np.uint64(4)) & halves[2]
    return bits * halves[3] >> np.uint64(56)


def _unpacked(bits: np.ndarray) -> np.ndarray:
    """[n] uint64 → [64 n] uint8 of 0 and 1, the lowest bit first."""
    return np.unpackbits(bits.astype("<u8").view(np.uint8), bitorder="little")
