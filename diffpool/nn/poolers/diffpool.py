"""DiffPool: a GNN that assigns each node softly to the clusters of its graph."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from diffpool import equations
from diffpool.backends.cpu import encoder as fused
from diffpool.backends.streams import join
from diffpool.backends.triton import encoder as fused_gpu
from diffpool.graphs import Graphs
from diffpool.layout import Layout
from diffpool.nn.encoder import Encoder
from diffpool.nn.poolers.pooler import Assignment, Pooled


class DiffPool(nn.Module):
    """Equations 3, 4 and 6, with the link and entropy losses of this level.

    `gnn` has as many outputs as the largest graph has clusters; a graph with k_g clusters uses the first k_g.
    """

    def __init__(self, gnn: Encoder):
        super().__init__()
        self.gnn = gnn

    def forward(self, graphs: Graphs, x: Tensor, z: Tensor, clusters: Layout) -> Pooled:
        logits = self.gnn(graphs, x, clusters)
        join(z)
        if fused.fits_pooling(graphs, logits, z, clusters):
            s, coarse, pooled, link, entropy = fused.pool(graphs, logits, z, clusters)
            if graphs.channels:
                pooled = replace(pooled, channels=equations.pooled_channels(graphs, s, clusters))
        elif fused_gpu.fits_pooling(graphs, logits, z):
            s, coarse, pooled, link, entropy = fused_gpu.pool(graphs, logits, z, clusters)
        else:
            s = equations.assignment(logits, graphs.layout, clusters)
            coarse = equations.pooled_features(graphs, s, z, clusters)
            pooled = equations.pooled_graphs(graphs, s, clusters)
            link = equations.link_loss(graphs, s, pooled)
            entropy = equations.entropy_loss(graphs, s)
        assignment = Assignment(s, graphs.layout, clusters)
        return Pooled(pooled, coarse, assignment, {"link": link, "entropy": entropy})
