"""The Kron pyramids of a batch of graphs, with the self-loops and edge features that ECC needs at every level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from diffpool.baselines.adjacency import Watch, adjacency_matrices
from diffpool.baselines.ecc.kron import Coarsened, coarsened
from diffpool.graphs import Prepared, SparseGraphs


@dataclass(frozen=True, eq=False)
class KronLevel:
    """One coarser level of all graphs of a batch."""

    parent: np.ndarray  # [N of the finer level] int64: node number within the coarser graph
    sizes: np.ndarray  # [B] int64
    indptr: np.ndarray  # [K + 1] int64: CSR, as for `SparseGraphs.from_csr`
    source: np.ndarray  # [E] int64
    weights: np.ndarray  # [E]


def kron_pyramid(
    graphs: SparseGraphs, levels: int, watch: Watch = lambda fraction: None
) -> list[KronLevel]:
    """Coarsen each undirected graph `levels` times; `watch` is called with the fraction of nodes done."""
    pyramid: list[list[Coarsened]] = [[] for _ in range(levels)]
    for adjacency in adjacency_matrices(graphs, watch):
        for level in pyramid:
            level.append(coarsened(adjacency))
            adjacency = level[-1].adjacency
    return [_level(level) for level in pyramid]


def _level(graphs: Sequence[Coarsened]) -> KronLevel:
    sizes = np.array([g.adjacency.shape[0] for g in graphs], np.int64)
    starts = np.cumsum(sizes) - sizes
    degrees = [np.diff(g.adjacency.indptr) for g in graphs]
    sources = [g.adjacency.indices + start for g, start in zip(graphs, starts, strict=True)]
    empty = np.empty(0, np.int64)
    return KronLevel(
        parent=np.concatenate([empty, *(g.parent for g in graphs)]),
        sizes=sizes,
        indptr=np.concatenate([[0], np.cumsum(np.concatenate([empty, *degrees]))]),
        source=np.concatenate([empty, *sources]),
        weights=np.concatenate([np.empty(0), *(g.adjacency.data for g in graphs)]),
    )


def with_pyramid(graphs: SparseGraphs, pyramid: Sequence[KronLevel]) -> SparseGraphs:
    """Attach the pyramid as `prepared`, and add the self-loops and edge features of ECC at every level.

    A node is its own neighbor in ECC. A new loop has weight 0, so A does not change. The edge features are those of
    the graphs (zero for new loops, and at coarser levels, which have none), then two derived ones (`builder.DERIVED`):
    weight/√(d_i d_j), and 1 for a self-loop.
    """
    graphs_with_features = _with_features(graphs)
    if not pyramid:
        return graphs_with_features
    level, *rest = pyramid
    zeros = np.zeros((len(level.source), len(graphs.channels)))
    coarser = SparseGraphs.from_csr(
        level.sizes, level.indptr, level.source, level.weights, zeros, dtype=graphs.degree.dtype
    )
    prepared = Prepared(nodes=torch.from_numpy(level.parent), coarser=with_pyramid(coarser, rest))
    return replace(graphs_with_features, prepared=prepared)


def _with_features(graphs: SparseGraphs) -> SparseGraphs:
    """Add a loop at every node and two edge features."""
    adj, n = graphs.adj, graphs.num_nodes
    indptr, source = adj.indptr.numpy(), adj.indices.numpy()
    weights = np.ones(len(source)) if adj.values is None else adj.values.double().numpy()
    row = np.repeat(np.arange(n), np.diff(indptr))
    new = np.ones(n, bool)  # nodes without a loop
    new[row[row == source]] = False
    before = np.cumsum(new) - new  # new loops in earlier rows
    index = np.arange(len(row)) + before[row] + (new[row] & (source > row))  # of the old edges
    edges = len(row) + int(new.sum())
    loops = np.ones(edges, bool)
    loops[index] = False

    def grown(old: np.ndarray, loop_values: np.ndarray | float) -> np.ndarray:
        out = np.empty(edges, old.dtype)
        out[index], out[loops] = old, loop_values
        return out

    nodes = np.flatnonzero(new)
    row, source = grown(row, nodes), grown(source, nodes)
    weights = grown(weights, 0.0)
    degree = np.sqrt(np.bincount(row, weights, minlength=n))
    degree[degree == 0] = 1
    given = [grown(channel.values.double().numpy(), 0.0) for channel in graphs.channels]
    features = [*given, weights / (degree[row] * degree[source]), (row == source).astype(float)]
    return SparseGraphs.from_csr(
        graphs.layout.sizes.numpy(),
        indptr + np.concatenate([[0], np.cumsum(new)]),
        source,
        weights,
        np.stack(features, 1),
        dtype=graphs.degree.dtype,
    )
