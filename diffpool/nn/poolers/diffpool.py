"""DiffPool: a GNN that assigns each node softly to the clusters of its graph."""

from __future__ import annotations

from torch import Tensor, nn

from diffpool import equations
from diffpool.graphs import Graphs
from diffpool.nn.encoder import Encoder
from diffpool.nn.poolers.pooler import Assignment, Pooled
from diffpool.segment import Layout, column_mask


class DiffPool(nn.Module):
    """Equations 3, 4 and 6, with the link and entropy losses of this level.

    `gnn` has as many outputs as the largest graph has clusters; a graph with k_g clusters uses the first k_g.
    """

    def __init__(self, gnn: Encoder):
        super().__init__()
        self.gnn = gnn

    def forward(self, graphs: Graphs, x: Tensor, z: Tensor, clusters: Layout) -> Pooled:
        mask = column_mask(graphs.layout, clusters)
        logits = self.gnn(graphs, x, clusters.largest, mask)
        s = equations.assignment(logits, graphs.layout, clusters)
        pooled = equations.pooled_graphs(graphs, s, clusters)
        return Pooled(
            graphs=pooled,
            x=equations.pooled_features(graphs, s, z, clusters),
            assignment=Assignment(s, graphs.layout, clusters),
            losses={
                "link": equations.link_loss(graphs, s, pooled),
                "entropy": equations.entropy_loss(graphs, s),
            },
        )
