"""DiffPool with hard assignments that stay differentiable, which the paper names as future work."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from diffpool import equations
from diffpool.graphs import Graphs
from diffpool.layout import Layout, column_mask
from diffpool.nn.dropout import Dropout
from diffpool.nn.encoder import Encoder
from diffpool.nn.poolers.pooler import Assignment, Pooled


class HardDiffPool(nn.Module):
    """Equations 3, 4 and 6 where every node belongs to its likeliest cluster alone.

    The gradient is that of the soft assignment (straight-through, Bengio et al., 2013). With `gumbel`, clusters are
    drawn in training with the probabilities S by adding Gumbel noise to the logits (Jang et al., 2017; temperature 1).
    A' then has at most as many entries that are not zero as A. The link loss is that of the hard S, the entropy that
    of the soft one, whose gradient makes the two agree.
    """

    def __init__(self, gnn: Encoder, gumbel: bool = False):
        super().__init__()
        self.gnn, self.gumbel = gnn, gumbel

    def forward(
        self,
        graphs: Graphs,
        x: Tensor,
        z: Tensor,
        clusters: Layout,
        noise: Dropout | None = None,
        level: int = 0,
    ) -> Pooled:
        """`noise` draws for models side by side, with numbers of their own at each `level`; else PyTorch does."""
        rows = graphs.layout
        logits = self.gnn(graphs, x, clusters)
        soft = equations.assignment(logits, rows, clusters)
        drawn = soft
        if self.gumbel and self.training:
            uniform = torch.rand_like(logits) if noise is None else noise.uniform(logits, level)
            gumbel = -(-uniform.clamp(1e-9, 1 - 1e-7).log()).log()
            drawn = equations.assignment(logits + gumbel, rows, clusters)
        s = straight_through(drawn, rows, clusters)
        pooled = equations.pooled_graphs(graphs, s, clusters)
        losses = {
            "link": equations.link_loss(graphs, s, pooled),
            "entropy": equations.entropy_loss(graphs, soft),
        }
        coarse = equations.pooled_features(graphs, s, z, clusters)
        return Pooled(pooled, coarse, Assignment(s, rows, clusters), losses)


def straight_through(soft: Tensor, rows: Layout, clusters: Layout) -> Tensor:
    """1 for the largest entry of each row, 0 for the others, with the gradient of `soft`: local [N, W] → [N, W]."""
    if soft.shape[1] == 0:
        return soft
    hard = torch.zeros_like(soft).scatter(1, soft.argmax(1, keepdim=True), 1.0)
    mask = column_mask(rows, clusters)
    if mask is not None:  # a row of no graph has no cluster
        hard = hard * mask
    return hard + (soft - soft.detach())
