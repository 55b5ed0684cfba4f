"""Subgraphs of a batch, and what a model predicts for them: a cluster left out, or kept alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from diffpool.graphs import Channel, SparseGraphs
from diffpool.layout import Layout
from diffpool.segment import Csr, spmm_forward, sum_rows
from diffpool.training import TrainedModel

MAX_GRAPHS, MAX_NODES = 500, 50_000  # of a batch of subgraphs


def induced(graphs: SparseGraphs, keep: Tensor) -> SparseGraphs:
    """The graphs with the nodes in `keep` [N] (bool) and the edges between them."""
    number = keep.cumsum(0) - 1  # [N]: new number of each node that stays
    adj = _rows(graphs.adj, keep, number)
    adj_t = adj if graphs.adj_t is graphs.adj else _rows(graphs.adj_t, keep, number)
    (a, entries), (t, entries_t) = adj, adj_t
    sizes = sum_rows(keep.long(), graphs.layout)
    layout = Layout.from_sizes(sizes.cpu(), keep.device)
    like = graphs.degree
    values = like.new_ones(len(a.indices)) if a.values is None else a.values
    weights = Csr(a.indptr, a.indices, values)
    degree = _row_sums(weights)
    squares = _row_sums(Csr(a.indptr, a.indices, values.square()))
    positive = degree > 1e-12
    return SparseGraphs(
        layout=layout,
        adj=a,
        adj_t=a if graphs.adj_t is graphs.adj else t,
        degree=degree,
        inverse_degree=torch.where(positive, 1 / torch.where(positive, degree, 1), 0),
        squared_norm=sum_rows(squares, layout),
        channels=tuple(Channel(v[entries], w[entries_t]) for v, w in graphs.channels),
    )


def _row_sums(matrix: Csr) -> Tensor:
    assert matrix.values is not None
    ones = matrix.values.new_ones(len(matrix.indptr) - 1, 1)
    return spmm_forward(ones, matrix.indptr, matrix.indices, matrix.values).squeeze(1)


def _rows(matrix: Csr, keep: Tensor, number: Tensor) -> tuple[Csr, Tensor]:
    """The rows and columns in `keep`, and which entries they have: [E] bool."""
    rows = torch.arange(len(keep), device=keep.device).repeat_interleave(matrix.indptr.diff())
    entries = keep[rows] & keep[matrix.indices]
    ends = torch.cat([entries.new_zeros(1, dtype=torch.int64), entries.cumsum(0)])
    starts = torch.cat([matrix.indptr[:-1][keep], matrix.indptr[-1:]])
    values = None if matrix.values is None else matrix.values[entries]
    return Csr(ends[starts], number[matrix.indices[entries]], values), entries


def subgraph_outputs(
    model: TrainedModel,
    graphs: SparseGraphs,
    x: Tensor,
    numbers: Sequence[int],
    keep: Sequence[np.ndarray],
) -> np.ndarray:
    """What a model or ensemble predicts for subgraphs: class probabilities or targets, [U, K].

    Subgraph u has the nodes `keep[u]` [n] (bool) of the graph with the number `numbers[u]`. They keep their features.
    """
    found, start = [], 0
    sizes = graphs.layout.sizes[torch.as_tensor(numbers, dtype=torch.int64)].tolist()
    while start < len(numbers):
        stop, nodes = start, 0
        while stop < min(len(numbers), start + MAX_GRAPHS) and nodes <= MAX_NODES:
            nodes += sizes[stop]
            stop += 1
        whole, rows = graphs.select(list(numbers[start:stop]))
        kept = torch.from_numpy(np.concatenate(keep[start:stop])).to(x.device)
        found.append(model.outputs_of(induced(whole, kept), x[rows[kept]]))
        start = stop
    return np.concatenate(found) if found else np.zeros((0, model.card.num_outputs))
