"""Classes of nodes instead of graphs: clusters are pooled, seen as a whole, and lifted back to their nodes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from diffpool.graphs import SparseGraphs
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
        down = self.descend(graphs, x)
        h = down.embeddings[-1]
        for place in reversed(range(len(self.lifts))):
            lifted = down.assignments[place].lift(h)
            h = self.lifts[place](
                down.graphs[place], torch.cat([down.embeddings[place], lifted], -1)
            )
        return Prediction(self.head(h), tuple(down.assignments), tuple(down.graphs), down.losses)
