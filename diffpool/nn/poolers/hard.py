"""DiffPool with hard assignments that stay differentiable, which the paper lists as future work."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from diffpool import equations
from diffpool.graphs import Graphs
from diffpool.layout import Layout, column_mask
from diffpool.nn.poolers.pooler import Assignment, Pooled, Pooler, check_scores
from diffpool.nn.random import LayerRandom


class HardDiffPool(Pooler):
    """Equations 3, 4 and 6 with each node assigned to its most likely cluster only.

    The gradient is that of the soft assignment (straight-through, Bengio et al., 2013). With `gumbel`, training samples
    the clusters from S by adding Gumbel noise to the logits (Jang et al., 2017; temperature 1). A' has at most as many
    nonzero entries as A. The link loss uses the hard S; the entropy loss uses the soft one, and its gradient makes the
    two agree.

    Examples:
        >>> from diffpool.nn import Clusters, Encoder, Sage
        >>> pool = HardDiffPool(Encoder(Sage, [3, 2]))
        >>> clusters = Clusters(max_count=2).layout(graphs.layout)
        >>> pooled = pool(graphs, x, pool.gnn(graphs, x, clusters), clusters)  # [N, 3] → [K, 3]
        >>> pooled.assignment.of_graph(0).sum(1).detach()  # each node is in one cluster
        tensor([1., 1., 1., 1.])
    """

    def __init__(self, gnn: nn.Module, gumbel: bool = False):
        super().__init__(gnn)
        self.gumbel = gumbel

    def forward(
        self,
        graphs: Graphs,
        z: Tensor,
        scores: Tensor | None,
        clusters: Layout,
        random: LayerRandom | None = None,
    ) -> Pooled:
        scores = check_scores(scores)
        rows = graphs.layout
        soft = equations.assignment(scores, rows, clusters)
        drawn = soft
        if self.gumbel and self.training:
            uniform = torch.rand_like(scores) if random is None else random.uniform(scores)
            gumbel = -(-uniform.clamp(1e-9, 1 - 1e-7).log()).log()
            drawn = equations.assignment(scores + gumbel, rows, clusters)
        s = straight_through(drawn, rows, clusters)
        pooled = equations.pooled_graphs(graphs, s, clusters)
        losses = {
            "link": equations.link_loss(graphs, s, pooled),
            "entropy": equations.entropy_loss(graphs, soft),
        }
        x = equations.pooled_features(graphs, s, z, clusters)
        return Pooled(pooled, x, Assignment(s, rows, clusters), losses)


def straight_through(soft: Tensor, rows: Layout, clusters: Layout) -> Tensor:
    """1 for the largest entry of each row, 0 elsewhere, with the gradient of `soft`: local [N, W] → [N, W]."""
    if soft.shape[1] == 0:
        return soft
    hard = torch.zeros_like(soft).scatter(1, soft.argmax(1, keepdim=True), 1.0)
    mask = column_mask(rows, clusters)
    if mask is not None:  # padding rows have no cluster
        hard = hard * mask
    return hard + (soft - soft.detach())
