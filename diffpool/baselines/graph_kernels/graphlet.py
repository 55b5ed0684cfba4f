"""The graphlet kernel: Shervashidze et al., "Efficient graphlet kernels for large graph comparison" (AISTATS 2009)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, permutations

import numpy as np

from diffpool.baselines.graph_kernels.base import GraphKernel
from diffpool.baselines.graph_kernels.bitsets import (
    Word,
    bits_before,
    count_bits,
    members,
    neighbors,
    own_bits,
    words,
)
from diffpool.baselines.graph_kernels.counts import Counts, Entries, add_up
from diffpool.baselines.graph_kernels.gram import Watch, ignore_progress
from diffpool.baselines.graph_kernels.labels import (
    LABEL_BITS,
    Known,
    choose_labels,
    number_labels,
    with_numbers,
)
from diffpool.data import RawGraphs
from diffpool.errors import SettingError

TRIANGLE = 1 << 3 * LABEL_BITS  # in a key: triangle or path, middle label, label, label


class Graphlet(GraphKernel):
    """Counts induced subgraphs of a given size.

    Size 3 is exact: all connected subgraphs of three nodes (paths and triangles) with their node labels. Sizes 4 and 5
    are sampled and ignore labels: `samples` sets of nodes are drawn uniformly from each graph, and their isomorphism
    types are counted, connected or not. A graph with fewer nodes has no features.

    Args:
        size: 3, 4 or 5.
        labels: for size 3: "labels", "degree", "none", or "auto": labels if any, else none.
        samples: for sizes 4 and 5: the number of node sets drawn from each graph.
        seed: seed of the samples. The samples of a graph depend only on the seed and the graph.
    """

    def __init__(self, size: int = 3, labels: str = "auto", samples: int = 2000, seed: int = 0):
        self.size = size
        self.labels = labels
        self.samples = samples
        self.seed = seed

    def _learn(self, raw: RawGraphs, watch: Watch) -> Iterator[Counts]:
        self._check()
        wanted = self.labels if self.size == 3 else "none"
        self.labels_ = choose_labels(raw, wanted, otherwise="none")
        self.known_labels_: Known = {}
        yield self._counts(raw, self.known_labels_, watch)

    def _apply(self, raw: RawGraphs) -> Iterator[Counts]:
        yield self._counts(raw, dict(self.known_labels_), ignore_progress)

    def _check(self) -> None:
        if self.size not in (3, 4, 5):
            raise SettingError(
                f"expected a size of 3, 4 or 5, got {self.size!r}: 3 is a common choice"
            )
        if self.size > 3 and self.labels not in ("auto", "none"):
            raise SettingError(
                f"expected no labels with graphlets of size {self.size}, got {self.labels!r}: "
                "choose size 3 or omit the labels"
            )
        if not isinstance(self.samples, int | np.integer) or self.samples < 1:
            raise SettingError(
                f"expected at least one sample, got {self.samples!r}: 2000 is the default"
            )

    def _counts(self, raw: RawGraphs, known: Known, watch: Watch) -> Counts:
        if self.size > 3:
            return _sampled(raw, self.size, self.samples, self.seed, watch)
        return count_triples(with_numbers(raw, number_labels(raw, self.labels_, known)), watch)


# --- size 3, exact


def count_triples(raw: RawGraphs, watch: Watch) -> Counts:
    """The paths and triangles of graphs with integer node labels."""
    work, total = 0.0, max(float((raw.sizes.astype(np.float64) ** 2).sum()), 1.0)
    parts: list[Entries] = []
    for word in words(raw):
        found = [_paths(word), _triangles(word)] if word.number == 0 else [_triangles(word)]
        counts = Counts.from_parts(len(word.graphs), found)
        parts.append((word.graph_numbers[counts.graph], counts.keys, counts.counts))
        work += 64.0 * word.graphs.num_nodes
        watch(min(work / total, 1.0))
    return Counts.from_parts(len(raw), parts)


def _paths(word: Word) -> Entries:
    """Paths of three nodes, including those inside triangles: pairs of neighbors of each node, by their labels."""
    graphs, label = word.graphs, word.labels
    target, bound = graphs.target, int(label.max(initial=0)) + 1
    no_loop = graphs.source != target
    both, count = add_up(target[no_loop] * bound + label[graphs.source[no_loop]])
    node = both // bound  # an entry is a node, a label, and the number of neighbors with this label
    end = np.searchsorted(node, node, side="right")
    entry = np.arange(len(node))
    # pair each entry with itself and the later entries of its node
    i = np.repeat(entry, end - entry)
    j = np.arange(len(i)) - np.searchsorted(i, i) + i
    a, b = both[i] % bound, both[j] % bound  # a ≤ b
    pairs = np.where(i == j, count[i] * (count[i] - 1) / 2, count[i] * count[j])
    middle = node[i]
    return word.graph[middle], _path_key(a, label[middle], b), pairs


def _triangles(word: Word) -> Entries:
    """Triangles whose last node is in this word, and −1 for each of the three paths inside."""
    graphs, label, position = word.graphs, word.labels, word.position
    near, target = neighbors(word), graphs.target
    after = ~(bits_before(position) | own_bits(position))
    edge = np.flatnonzero(graphs.source < target)
    u, v = graphs.source[edge], target[edge]
    common = near[u] & near[v] & after[v]
    if not label.any():
        sums = np.bincount(word.graph[u], count_bits(common), minlength=len(graphs))
        keys = np.repeat([TRIANGLE, 0], len(graphs))
        return np.tile(np.arange(len(graphs)), 2), keys, np.concatenate([sums, -3 * sums])
    which, bit = members(common)
    u, v, w = u[which], v[which], word.first_nodes()[u[which]] + bit
    x, y, z = np.sort(np.stack([label[u], label[v], label[w]]), axis=0)
    inside = [_path_key(y, x, z), _path_key(x, y, z), _path_key(x, z, y)]
    keys = np.concatenate([TRIANGLE + _path_key(x, y, z), *inside])
    counts = np.repeat([1.0, -1.0], [len(x), 3 * len(x)])
    return np.tile(word.graph[u], 4), keys, counts


def _path_key(a: np.ndarray, middle: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The key of a path with these labels; a ≤ b."""
    return (middle << 2 * LABEL_BITS) + (a << LABEL_BITS) + b


# --- sizes 4 and 5, sampled


def _sampled(raw: RawGraphs, size: int, samples: int, seed: int, watch: Watch) -> Counts:
    """The isomorphism types of `samples` random sets of `size` nodes of each graph."""
    drawn = np.random.default_rng(seed).random((size, samples))  # shared by all graphs
    pairs, canonical = list(combinations(range(size), 2)), _canonical_codes(size)
    edges = raw.target * raw.num_nodes + raw.source  # sorted
    graph, keys = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for g in np.flatnonzero(raw.sizes >= size):
        nodes = raw.starts[g] + _distinct(drawn, int(raw.sizes[g]))  # [size, samples]
        code = np.zeros(samples, np.int64)
        for bit, (i, j) in enumerate(pairs):
            wanted = nodes[i] * raw.num_nodes + nodes[j]
            index = np.searchsorted(edges, wanted).clip(max=max(len(edges) - 1, 0))
            if len(edges):
                code |= (edges[index] == wanted).astype(np.int64) << bit
        keys.append(canonical[code])
        graph.append(np.full(samples, g))
        watch((g + 1) / len(raw))
    return Counts.from_entries(len(raw), np.concatenate(graph), np.concatenate(keys))


def _distinct(drawn: np.ndarray, nodes: int) -> np.ndarray:
    """Uniform random sets of distinct numbers below `nodes`, from uniform numbers in [0, 1): [size, samples]."""
    chosen = np.empty(drawn.shape, np.int64)
    for i, uniform in enumerate(drawn):
        number = (uniform * (nodes - i)).astype(np.int64)  # among the remaining nodes
        for earlier in np.sort(chosen[:i], axis=0):
            number += number >= earlier
        chosen[i] = number
    return chosen


@lru_cache
def _canonical_codes(size: int) -> np.ndarray:
    """For each graph of `size` nodes, coded as a bit for each node pair: its smallest isomorphic code: [2^pairs]."""
    pairs = list(combinations(range(size), 2))
    number = {pair: bit for bit, pair in enumerate(pairs)}
    codes = np.arange(1 << len(pairs))
    smallest = codes
    for order in permutations(range(size)):
        moved = [number[min(order[i], order[j]), max(order[i], order[j])] for i, j in pairs]
        other = sum((codes >> bit & 1) << to for bit, to in enumerate(moved))
        smallest = np.minimum(smallest, other)
    return smallest
