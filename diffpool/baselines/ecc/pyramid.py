"""The Kron pyramid of all graphs of a batch: `preparation.kron` for each, and what ECC wants at every level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from diffpool.baselines.ecc.kron import Coarsened, coarsened
from diffpool.baselines.matrices import Watch, matrices
from diffpool.graphs import Prepared, SparseGraphs


@dataclass(frozen=True, eq=False)
class KronLevel:
    """The next coarser level of all graphs of a batch."""

    parent: np.ndarray  # [N of the level before] int64: a node of the same graph, counted within it
    sizes: np.ndarray  # [B] int64
    indptr: np.ndarray  # [K + 1] int64: A by rows, as for `SparseGraphs.from_csr`
    source: np.ndarray  # [E] int64
    weights: np.ndarray  # [E]


def kron_pyramid(
    graphs: SparseGraphs, levels: int, watch: Watch = lambda share: None
) -> list[KronLevel]:
    """Undirected graphs, coarsened `levels` times, each by itself. `watch` gets the share of the nodes that is done."""
    made: list[list[Coarsened]] = [[] for _ in range(levels)]
    for adjacency in matrices(graphs, watch):
        for level in made:
            level.append(coarsened(adjacency))
            adjacency = level[-1].adjacency
    return [_level(level) for level in made]


def _level(graphs: Sequence[Coarsened]) -> KronLevel:
    sizes = np.array([g.adjacency.shape[0] for g in graphs], np.int64)
    starts = np.cumsum(sizes) - sizes
    degrees = [np.diff(g.adjacency.indptr) for g in graphs]
    sources = [g.adjacency.indices + start for g, start in zip(graphs, starts, strict=True)]
    none = np.empty(0, np.int64)
    return KronLevel(
        parent=np.concatenate([none, *(g.parent for g in graphs)]),
        sizes=sizes,
        indptr=np.concatenate([[0], np.cumsum(np.concatenate([none, *degrees]))]),
        source=np.concatenate([none, *sources]),
        weights=np.concatenate([np.empty(0), *(g.adjacency.data for g in graphs)]),
    )


def with_pyramid(graphs: SparseGraphs, pyramid: Sequence[KronLevel]) -> SparseGraphs:
    """These graphs with their pyramid in `prepared`, and at every level the self-loops and edge features for ECC.

    A node is its own neighbor in ECC. A loop that was not there has weight 0, so A stays what it is. The edge features
    are those the graphs have (zero for new loops and at coarser levels, where there are none) and then two that every
    graph has: weight/√(d_i d_j), and 1 for a self-loop (`nn.architecture.DERIVED`).
    """
    made = _with_features(graphs)
    if not pyramid:
        return made
    level, *rest = pyramid
    none = np.zeros((len(level.source), len(graphs.channels)))
    coarser = SparseGraphs.from_csr(
        level.sizes, level.indptr, level.source, level.weights, none, dtype=graphs.degree.dtype
    )
    prepared = Prepared(nodes=torch.from_numpy(level.parent), coarser=with_pyramid(coarser, rest))
    return replace(made, prepared=prepared)


def _with_features(graphs: SparseGraphs) -> SparseGraphs:
    """The graphs with a loop at every node, and with two more edge features."""
    adj, n = graphs.adj, graphs.num_nodes
    indptr, source = adj.indptr.numpy(), adj.indices.numpy()
    weights = np.ones(len(source)) if adj.values is None else adj.values.double().numpy()
    row = np.repeat(np.arange(n), np.diff(indptr))
    new = np.ones(n, bool)  # nodes that get a loop
    new[row[row == source]] = False
    before = np.cumsum(new) - new  # new loops in the rows before
    place = np.arange(len(row)) + before[row] + (new[row] & (source > row))
    edges = len(row) + int(new.sum())
    loops = np.ones(edges, bool)
    loops[place] = False

    def grown(old: np.ndarray, of_loops: np.ndarray | float) -> np.ndarray:
        out = np.empty(edges, old.dtype)
        out[place], out[loops] = old, of_loops
        return out

    nodes = np.flatnonzero(new)
    row, source = grown(row, nodes), grown(source, nodes)
    weights = grown(weights, 0.0)
    degree = np.sqrt(np.bincount(row, weights, minlength=n))
    degree[degree == 0] = 1
    own = [grown(channel.values.double().numpy(), 0.0) for channel in graphs.channels]
    features = [*own, weights / (degree[row] * degree[source]), (row == source).astype(float)]
    return SparseGraphs.from_csr(
        graphs.layout.sizes.numpy(),
        indptr + np.concatenate([[0], np.cumsum(new)]),
        source,
        weights,
        np.stack(features, 1),
        dtype=graphs.degree.dtype,
    )
