"""Node classification: pool the nodes to clusters, encode the clusters, and lift the result back to the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from diffpool.graphs import SparseGraphs
from diffpool.nn.classifier import Clusters, GraphClassifier, Prediction, graphs_and_features


class NodeClassifier(GraphClassifier):
    """Encode, pool, encode, …, then back up: concatenate S H' with the embeddings of the finer level and encode again.

    The paper lists node-level output as future work. This is a U-Net (Ronneberger et al., 2015; for graphs, Gao and Ji,
    2019) that uses S in both directions. The output of a node depends on its whole cluster, no matter how distant.

    Examples:
        >>> from diffpool.nn import DiffPool, Encoder, Linear, Sage
        >>> model = NodeClassifier(
        ...     encoders=[Encoder(Sage, [3, 8]), Encoder(Sage, [8, 8])],
        ...     poolers=[DiffPool(Encoder(Sage, [3, 2]))],
        ...     clusters=[Clusters(max_count=2)],
        ...     lifts=[Encoder(Sage, [8 + 8, 8])],
        ...     head=Linear(8, 5),
        ... )
        >>> model(graphs, x).logits.shape  # [N, 3] → [N, 5]
        torch.Size([7, 5])

    Args:
        encoders, poolers, clusters, inputs: as in `GraphClassifier`.
        lifts: encoders of the way back, one per pooling; called as `lift(graphs, x)` with x = [Z, S H'].
        head: maps node embeddings to logits.
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
        self, graphs: SparseGraphs | Any, x: Tensor | None = None
    ) -> Prediction:
        """Graphs with features x [N, F] → a `Prediction` with logits and embedding of each node; losses are [B].

        `model(batch)` takes both from a batch of PyTorch Geometric, as in `GraphClassifier`.
        """
        graphs, x = graphs_and_features(graphs, x)
        down = self.descend(graphs, x)
        h = down.embeddings[-1]
        for level in reversed(range(len(self.lifts))):
            lifted = down.assignments[level].lift(h)
            both = torch.cat([down.embeddings[level], lifted], -1)
            h = self.lifts[level](down.graphs[level], both)
        logits = self.head(h)  # [N, classes]
        return Prediction(logits, tuple(down.assignments), tuple(down.graphs), down.losses, h)
