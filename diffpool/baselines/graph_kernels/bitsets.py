"""Sets of nodes as bitsets: one 64-bit word for each node, for 64 nodes of each of many graphs at a time.

Word w of a graph stands for its nodes 64 w to 64 w + 63. One array operation then handles a word of all nodes of many
graphs: a step of breadth-first search from 64 nodes of every graph, or the common neighbors of every edge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from diffpool.data import RawGraphs

BLOCK = 1 << 16  # nodes and edges processed together, so that they fit into the CPU cache
BITS = 64
ALL = np.uint64(2**64 - 1)


@dataclass(frozen=True, eq=False)
class Word:
    """Word `number` of graphs that are large enough to have it."""

    graphs: RawGraphs  # with integer node labels
    graph_numbers: np.ndarray  # [B]: their numbers in the data set
    number: int

    @property
    def graph(self) -> np.ndarray:
        """The index of each node's graph among these graphs: [N]."""
        return np.repeat(np.arange(len(self.graphs)), self.graphs.sizes)

    @property
    def position(self) -> np.ndarray:
        """The position of each node relative to the word's first node: [N]."""
        starts = np.repeat(self.graphs.starts, self.graphs.sizes)
        return np.arange(self.graphs.num_nodes) - starts - BITS * self.number

    @property
    def labels(self) -> np.ndarray:
        """The label of each node: [N] int64."""
        assert self.graphs.node_labels is not None
        return self.graphs.node_labels.codes[:, 0].astype(np.int64)

    def first_nodes(self) -> np.ndarray:
        """The node that bit 0 stands for, in the graph of each node: [N]."""
        return np.repeat(self.graphs.starts, self.graphs.sizes) + BITS * self.number


def words(raw: RawGraphs) -> Iterator[Word]:
    """Every word of every graph; graphs of similar size are processed together."""
    order = np.argsort(raw.sizes, kind="stable")
    ends = np.cumsum((raw.sizes + raw.edge_counts)[order])
    start = 0
    while start < len(order):
        limit = BLOCK + (ends[start - 1] if start else 0)
        stop = max(int(np.searchsorted(ends, limit, side="right")), start + 1)
        numbers, word = order[start:stop], 0
        graphs = raw.select(numbers)
        while len(numbers):
            yield Word(graphs, numbers, word)
            word += 1
            larger = graphs.sizes > BITS * word
            if not larger.all():
                graphs, numbers = graphs[larger] if larger.any() else graphs, numbers[larger]
        start = stop


def own_bits(position: np.ndarray) -> np.ndarray:
    """The bit of each node itself, 0 if it is in another word: [N] uint64."""
    bits = np.zeros(len(position), np.uint64)
    inside = (position >= 0) & (position < BITS)
    bits[inside] = np.uint64(1) << position[inside].astype(np.uint64)
    return bits


def bits_before(position: np.ndarray) -> np.ndarray:
    """The bits of all earlier nodes: [N] uint64."""
    bits = np.where(position >= BITS, ALL, np.uint64(0))
    inside = (position > 0) & (position < BITS)
    bits[inside] = (np.uint64(1) << position[inside].astype(np.uint64)) - np.uint64(1)
    return bits


def distances(word: Word) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All pairs of a node and an earlier node in this word with a path between them: node, earlier node, distance."""
    position = word.position
    planes = _distance_planes(word.graphs, own_bits(position))
    later = np.flatnonzero(position > 0)
    before = bits_before(position[later])
    distance = np.zeros(len(later) * BITS, np.min_scalar_type((1 << len(planes)) - 1))
    for digit, plane in enumerate(planes):
        bits = _unpacked(plane[later] & before).astype(distance.dtype, copy=False)
        distance |= bits << distance.dtype.type(digit)
    pairs = np.flatnonzero(distance)
    node = later[pairs >> 6]
    return node, word.first_nodes()[node] + (pairs & 63), distance[pairs]


def _distance_planes(graphs: RawGraphs, reached: np.ndarray) -> list[np.ndarray]:
    """The binary digits of the distance of each node from the nodes of the word, lowest first; 0 without a path.

    Breadth-first search: in each step a node is reached from the nodes that reached one of its neighbors.
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
    """The neighbors of each node that are in this word: [N] uint64."""
    bits = own_bits(word.position)[word.graphs.source]  # [E]
    inside = np.flatnonzero(bits)
    target = word.graphs.target[inside]
    out = np.zeros(word.graphs.num_nodes, np.uint64)
    if len(inside):
        starts = np.flatnonzero(np.diff(target, prepend=-1))  # sorted by target
        out[target[starts]] = np.bitwise_or.reduceat(bits[inside], starts)
    return out


def members(bits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The members of bitsets [n] uint64: the index of each member's set, and its bit."""
    filled = np.flatnonzero(bits)
    found = np.flatnonzero(_unpacked(bits[filled]))
    return filled[found >> 6], found & 63


def count_bits(bits: np.ndarray) -> np.ndarray:
    """The number of members of each set: [n]. NumPy 1 has no function for it."""
    halves = [np.uint64(mask) for mask in (2**64 // 3, 2**64 // 5, 2**64 // 17, 2**64 // 255)]
    bits = bits - (bits >> np.uint64(1) & halves[0])
    bits = (bits & halves[1]) + (bits >> np.uint64(2) & halves[1])
    bits = bits + (bits >> np.uint64(4)) & halves[2]
    return bits * halves[3] >> np.uint64(56)


def _unpacked(bits: np.ndarray) -> np.ndarray:
    """[n] uint64 → [64 n] uint8, 0 or 1, the lowest bit first."""
    return np.unpackbits(bits.astype("<u8").view(np.uint8), bitorder="little")
