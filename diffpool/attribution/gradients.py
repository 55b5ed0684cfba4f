"""Integrated gradients (Sundararajan et al., 2017) on the inputs of every level: features and messages along edges.

The path from the baseline to the input is a straight line: the features and messages of a level are multiplied by the
same number α from 0 to 1. A trained assignment may change within a small part of the path, so the integral is adaptive:
on every interval, the scores must add up to the difference between both ends, and intervals on which they do not are
divided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from diffpool.attribution.gated import edge_targets
from diffpool.attribution.inputs import LevelInputs
from diffpool.graphs import DenseGraphs, Graphs, SparseGraphs
from diffpool.layout import Layout
from diffpool.nn import GraphClassifier
from diffpool.segment import sum_rows

# Logits [B, K] of graphs and their numbers in the batch [B] → the explained number of each graph, [B].
Score = Callable[[Tensor, Tensor], Tensor]

TOLERANCE = 0.02  # of the sum of the scores of a level, relative to what it should be
MIN_TOLERANCE = 0.01  # the same, absolute
INTERVAL_SHARE = 0.1  # of the tolerance: the error of one interval
INTERVALS, POINTS = 4, 4  # at first; and points of Gauss-Legendre quadrature in each interval
MAX_ROUNDS = 10  # divisions of an interval
MAX_NODES = 20_000  # of the input graphs in one step


@dataclass(frozen=True, eq=False)
class LevelGradients:
    """The scores of one level of a batch; those of a graph add up to its `total`, up to the error of the integral."""

    graphs: Graphs  # of this level
    nodes: Tensor  # [N] float64: the sum over the features of each node
    edges: Tensor  # [E], or local [K, W] for dense blocks; float64
    total: Tensor  # [B] float64: score of the input − score of the baseline


@dataclass(frozen=True, eq=False)
class _Intervals:
    """Intervals of α, each of one graph, with the scores at both ends: [U] each."""

    graph: Tensor  # int64
    low: Tensor  # float64, like the others
    high: Tensor
    at_low: Tensor
    at_high: Tensor

    def __getitem__(self, chosen: Tensor | slice) -> _Intervals:
        parts = (self.graph, self.low, self.high, self.at_low, self.at_high)
        return _Intervals(*(part[chosen] for part in parts))


def integrated_gradients(
    network: GraphClassifier, graphs: SparseGraphs, x: Tensor, score: Score, level: int
) -> LevelGradients:
    """The scores of the nodes and edges of a level, for a batch of graphs with features [N, F].

    The baseline has features of zero and no messages along the edges of this level.
    """
    path = _Path(network, graphs, x, score, level)
    numbers = torch.arange(len(graphs), device=x.device)
    ends = [
        path.scores(numbers, torch.full_like(numbers, k, dtype=torch.float64) / INTERVALS)
        for k in range(INTERVALS + 1)
    ]
    total = ends[-1] - ends[0]
    tolerance = INTERVAL_SHARE * (TOLERANCE * total.abs()).clamp(min=MIN_TOLERANCE)
    low = torch.arange(INTERVALS, device=x.device).double().repeat_interleave(len(graphs))
    todo = _Intervals(
        numbers.repeat(INTERVALS),
        low / INTERVALS,
        (low + 1) / INTERVALS,
        torch.cat(ends[:-1]),
        torch.cat(ends[1:]),
    )
    for last in (*(False for _ in range(MAX_ROUNDS)), True):
        wrong = path.add(todo, tolerance, last)
        if not bool(wrong.any()):
            break
        todo = path.divided(todo[wrong])
    return LevelGradients(path.whole.graphs[level], path.nodes, path.edges, total)


class _Path:
    """The path of a level, and the sums of the scores so far."""

    def __init__(
        self, network: GraphClassifier, graphs: SparseGraphs, x: Tensor, score: Score, level: int
    ):
        self.network, self.graphs, self.x, self.score, self.level = network, graphs, x, score, level
        self.whole = LevelInputs(network, graphs, x)
        own = self.whole.graphs[level]
        self.nodes = torch.zeros(own.num_nodes, dtype=torch.float64, device=x.device)
        edges = own.adj if isinstance(own, DenseGraphs) else own.adj.indices
        self.edges = torch.zeros(edges.shape, dtype=torch.float64, device=x.device)

    def _parts(self, graph: Tensor) -> Iterator[tuple[slice, LevelInputs]]:
        """The inputs of the graphs with these numbers [U], a few at a time."""
        sizes = self.graphs.layout.sizes[graph.cpu()].tolist()
        start = 0
        while start < len(sizes):
            stop, nodes = start, 0
            while stop < len(sizes) and nodes <= MAX_NODES:
                nodes += sizes[stop]
                stop += 1
            chosen, rows = self.graphs.select(graph[start:stop].cpu())
            yield slice(start, stop), LevelInputs(self.network, chosen, self.x[rows])
            start = stop

    @torch.no_grad()
    def scores(self, graph: Tensor, alpha: Tensor) -> Tensor:
        """The scores of these graphs [U] at α [U]: [U] float64."""
        found = []
        for part, inputs in self._parts(graph):
            x, gate = _point(inputs, self.level, alpha[part])
            found.append(self.score(inputs.outputs(self.level, x, gate), graph[part]).double())
        return torch.cat(found) if found else alpha

    def divided(self, intervals: _Intervals) -> _Intervals:
        """Both halves of every interval."""
        middle = (intervals.low + intervals.high) / 2
        found = self.scores(intervals.graph, middle)
        return _Intervals(
            intervals.graph.repeat(2),
            torch.cat([intervals.low, middle]),
            torch.cat([middle, intervals.high]),
            torch.cat([intervals.at_low, found]),
            torch.cat([found, intervals.at_high]),
        )

    def add(self, intervals: _Intervals, tolerance: Tensor, everything: bool) -> Tensor:
        """Add the scores of the intervals whose error is within the tolerance [B]; which others there are: [U] bool."""
        wrong = torch.zeros_like(intervals.graph, dtype=torch.bool)
        for part, inputs in self._parts(intervals.graph):
            own = intervals[part]
            nodes, edges = self._integrals(inputs, own)
            graphs = inputs.graphs[self.level]
            layout, of_edge = graphs.layout, _graph_of_edge(graphs)
            sums = sum_rows(nodes, layout).index_add(
                0, of_edge, edges.sum(-1) if edges.dim() > 1 else edges
            )
            error = (sums - (own.at_high - own.at_low)).abs()
            bad = ~(error <= tolerance[own.graph]) & (not everything)  # NaN counts as wrong
            wrong[part] = bad
            whole = self.whole.graphs[self.level]
            starts = whole.layout.device_starts[own.graph]
            rows = starts[layout.graph_of_row] + layout.index_in_graph
            kept = ~bad[layout.graph_of_row]
            self.nodes.index_add_(0, rows[kept], nodes[kept])
            if isinstance(whole, DenseGraphs):
                self.edges[:, : edges.shape[1]].index_add_(0, rows[kept], edges[kept])
            else:
                assert isinstance(graphs, SparseGraphs)
                shift = (whole.first_edges[own.graph] - graphs.first_edges)[of_edge]
                entries = torch.arange(len(edges), device=edges.device) + shift
                kept = ~bad[of_edge]
                self.edges.index_add_(0, entries[kept], edges[kept])
        return wrong

    def _integrals(self, inputs: LevelInputs, own: _Intervals) -> tuple[Tensor, Tensor]:
        """The scores of the nodes and edges of these graphs on their intervals."""
        graphs, x = inputs.graphs[self.level], inputs.x[self.level]
        row, width = graphs.layout.graph_of_row, own.high - own.low
        nodes, edges = torch.zeros_like(x[:, 0], dtype=torch.float64), torch.zeros(())
        of_edge = _graph_of_edge(graphs)
        points, weights = np.polynomial.legendre.leggauss(POINTS)
        for point, weight in zip(points.tolist(), weights.tolist(), strict=True):
            alpha = own.low + width * (point + 1) / 2
            x_at, gate = _point(inputs, self.level, alpha)
            x_at.requires_grad_()
            gate.requires_grad_()
            with torch.enable_grad():
                found = self.score(inputs.outputs(self.level, x_at, gate), own.graph).sum()
            along_x, along_gate = torch.autograd.grad(
                found, (x_at, gate), allow_unused=True, materialize_grads=True
            )
            factor = width * weight / 2  # [U]
            nodes = nodes + factor[row] * (along_x * x).sum(-1)
            per_edge = factor[of_edge]
            edges = (
                edges.to(x.device)
                + (per_edge[:, None] if gate.dim() > 1 else per_edge) * along_gate
            )
        return nodes, edges


def _point(inputs: LevelInputs, level: int, alpha: Tensor) -> tuple[Tensor, Tensor]:
    """The features and gates of a level at α [U] of each graph."""
    graphs, x = inputs.graphs[level], inputs.x[level]
    alpha = alpha.to(x.dtype)
    gate = alpha[_graph_of_edge(graphs)]
    if isinstance(graphs, DenseGraphs):
        gate = gate[:, None].expand_as(graphs.adj).contiguous()
    return alpha[graphs.layout.graph_of_row][:, None] * x, gate


def _graph_of_edge(graphs: Graphs) -> Tensor:
    """The graph of every entry of A, [E]; of every row for dense blocks."""
    layout: Layout = graphs.layout
    if isinstance(graphs, DenseGraphs):
        return layout.graph_of_row
    return layout.graph_of_row[edge_targets(graphs)]
