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

    Examples:
        >>> from diffpool.nn import Clusters, Encoder, Sage
        >>> pool = DiffPool(Encoder(Sage, [3, 2]))
        >>> clusters = Clusters(max_count=2).layout(graphs.layout)
        >>> scores = pool.gnn(graphs, x, clusters)  # [N, 2]
        >>> z = torch.rand(7, 8)  # [N, 8], the embeddings
        >>> pool(graphs, z, scores, clusters)  # K = 2 + 2
        Pooled(DenseGraphs(2 graphs, 4 nodes, largest 2), x (4, 8), losses ['entropy', 'link'])

    `DiffPooling` is a layer for models outside `GraphClassifier`.
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
