"""DiffPool: a GNN computes a soft assignment of nodes to the clusters of their graph."""

from __future__ import annotations

from torch import Tensor, nn

from diffpool import equations
from diffpool.graphs import Graphs
from diffpool.layout import Layout
from diffpool.nn.poolers.pooler import Assignment, Pooled, Pooler, check_scores
from diffpool.nn.random import LayerRandom


class DiffPool(Pooler):
    """Equations 3, 4 and 6, with the link and entropy losses of this level.

    `gnn` has one output per cluster of the largest graph; a graph with k_g clusters uses the first k_g.
    """

    def __init__(self, gnn: nn.Module):
        super().__init__(gnn)

    def forward(
        self,
        graphs: Graphs,
        z: Tensor,
        scores: Tensor | None,
        clusters: Layout,
        random: LayerRandom | None = None,
    ) -> Pooled:
        step = equations.pool(graphs, check_scores(scores), z, clusters)
        assignment = Assignment(step.s, graphs.layout, clusters)
        losses = {"link": step.link, "entropy": step.entropy}
        return Pooled(step.graphs, step.x, assignment, losses)
