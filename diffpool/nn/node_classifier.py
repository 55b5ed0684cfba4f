"""Classes of nodes instead of graphs: clusters are pooled, seen as a whole, and lifted back to their nodes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from diffpool import equations
from diffpool.graphs import Graphs, SparseGraphs
from diffpool.nn.classifier import Clusters, GraphClassifier, Prediction


class NodeClassifier(GraphClassifier):
    """Encode, pool, encode, …, then back: S H' of each pooling beside what its level knew before, and encode again.

    The paper names node-level output as future work; this is the way of U-Nets (Ronneberger et al., 2015; for graphs
    Gao and Ji, 2019) with S in both directions. What every node knows in the end comes from all of its cluster, however
    far.

    Args:
        encoders, poolers, clusters, inputs: as of a `GraphClassifier`.
        lifts: one for each pooling; called as `lift(graphs, x)` with x = [Z, S H'].
        head: from the embedding of a node to its logits.
    """

    def __init__(
        self,
        encoders: Sequence[nn.Module],
        poolers: Sequence[nn.Module],
        clusters: Sequence[Clusters],
        lifts: Sequence[nn.Module],
        head: nn.Module,
        inputs: nn.Module | None = None,
    ):
        super().__init__(encoders, poolers, clusters, head, inputs=inputs)
        self.lifts = nn.ModuleList(lifts)

    def forward(  # type: ignore[override]
        self, graphs: SparseGraphs, x: Tensor
    ) -> Prediction:
        """Graphs with features x [N, F] → a `Prediction` with logits [N, classes]; losses are of graphs: [B]."""
        level: Graphs = graphs
        x = x if self.inputs is None else self.inputs(x)
        known, levels = [], [level]
        losses: dict[str, Tensor] = {}
        for encoder, pooler, clusters in zip(
            self.encoders, self.poolers, self.plan(graphs), strict=False
        ):
            z = encoder(level, x)
            pooled = pooler(level, x, z, clusters)
            known.append((level, z, pooled.assignment))
            level, x = pooled.graphs, pooled.x
            levels.append(level)
            for name, loss in pooled.losses.items():
                losses[name] = losses[name] + loss if name in losses else loss
        h = self.encoders[-1](level, x)
        for lift, (level, z, assignment) in zip(reversed(self.lifts), reversed(known), strict=True):
            lifted = equations.unpooled_features(
                assignment.s, h, assignment.rows, assignment.clusters
            )
            h = lift(level, torch.cat([z, lifted], -1))
        assignments = tuple(assignment for _, _, assignment in known)
        return Prediction(self.head(h), assignments, tuple(levels), losses)
