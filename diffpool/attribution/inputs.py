"""The inputs of every level of a network, and the rest of the network as a function of the inputs of one level."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from diffpool.attribution.gated import gated
from diffpool.graphs import Graphs, SparseGraphs
from diffpool.layout import Layout
from diffpool.nn import GraphClassifier
from diffpool.nn.encoder import encode_level
from diffpool.nn.poolers import AnyAssignment


class LevelInputs:
    """A and X of every level of a network for a batch of B graphs, starting with the input.

    The X of level 0 are the features after the standardization of the network.
    """

    @torch.no_grad()
    def __init__(self, network: GraphClassifier, graphs: SparseGraphs, x: Tensor):
        self.network = network
        self.plan: Sequence[Layout | None] = network.plan(graphs) or [None] * len(network.poolers)
        self.graphs: list[Graphs] = [graphs]
        self.x = [x if network.inputs is None else network.inputs(x)]  # [N, F], [K, D], …
        self.assignments: list[AnyAssignment] = []  # one per pooling
        self._reads: list[Tensor] = []  # [B, D] of each level
        self.logits = self._run(0, self.x[0], None, record=True)  # [B, K]

    def __len__(self) -> int:
        return len(self.network.encoders)

    def outputs(self, level: int, x: Tensor, gate: Tensor | None = None) -> Tensor:
        """The logits [B, K] with other features x of a level, and with gates for its messages.

        Earlier levels and their readouts stay as they are. The pooled A' = SᵀAS of the next level uses A without
        gates: what an edge does there is a matter of the edges of the next level.
        """
        return self._run(level, x, gate)

    def _run(self, first: int, x: Tensor, gate: Tensor | None, record: bool = False) -> Tensor:
        network, graphs = self.network, self.graphs[first]
        reads = self._reads[:first] if network.every_level else []
        for level in range(first, len(self)):
            messages = graphs if gate is None or level > first else gated(graphs, gate)
            if level == len(self) - 1:
                z = network.encoders[level](messages, x)
            else:
                pooler, clusters = network.poolers[level], self.plan[level]
                gnn = getattr(pooler, "gnn", None)
                z, scores = encode_level(messages, x, network.encoders[level], gnn, clusters)
            if network.every_level or level == len(self) - 1:
                reads.append(network._read(graphs, z))
            if level < len(self) - 1:
                pooled = pooler(graphs, z, scores, clusters, None)
                graphs, x = pooled.graphs, pooled.x
                if record:
                    self.graphs.append(graphs)
                    self.x.append(x)
                    self.assignments.append(pooled.assignment)
        if record:
            self._reads = reads
        return network.head(torch.cat(reads, -1))
