"""The hierarchical graph classifier. Without poolers it is a flat GNN."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from diffpool.backends.streams import beside
from diffpool.graphs import Graphs, Reduction, SparseGraphs
from diffpool.layout import Layout
from diffpool.nn.dropout import Dropout
from diffpool.nn.linear import Linear
from diffpool.nn.poolers import AnyAssignment, DiffPool, HardDiffPool


@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    """What the classifier says of a batch of B graphs."""

    logits: Tensor  # [B, classes]
    assignments: tuple[AnyAssignment, ...]  # one for each pooling
    graphs: tuple[Graphs, ...]  # one for each level, the input first
    losses: dict[str, Tensor]  # each [B], summed over the poolings

    def __repr__(self) -> str:
        return (
            f"Prediction(logits {tuple(self.logits.shape)}, {len(self.assignments)} poolings, "
            f"losses {sorted(self.losses)})"
        )


@dataclass(frozen=True, eq=False)
class Descent:
    """What a classifier knows of every level, the input first."""

    graphs: list[Graphs]
    embeddings: list[Tensor]  # Z, [N, D] each
    assignments: list[AnyAssignment]  # one for each pooling
    losses: dict[str, Tensor]  # each [B], summed over the poolings


@dataclass(frozen=True)
class Clusters:
    """How many clusters a graph of n nodes gets at one pooling.

    ceil(ratio · n), at most `most`; without a ratio always `most`.
    """

    most: int
    ratio: float | None = None

    def counts(self, sizes: np.ndarray) -> np.ndarray:
        """The number of clusters of graphs with these numbers of nodes, of any shape."""
        if self.ratio is None:
            return np.full(sizes.shape, self.most)
        # rounded, so that 0.1 · 30 is 3 and not a rounding error above it
        return np.ceil(np.round(self.ratio * sizes, 9)).astype(np.int64).clip(max=self.most)

    def layout(self, rows: Layout) -> Layout:
        """The layout of the coarser level."""
        return Layout.from_sizes(self.counts(rows.sizes.numpy()), rows.graph_of_row.device)


def share(ratio: float, count: int) -> int:
    """ceil(ratio · count), where 0.1 · 30 is 3 and not a rounding error above it."""
    return math.ceil(round(ratio * count, 9))


class GraphClassifier(nn.Module):
    """Encode, pool, encode, …, read out, classify.

    Args:
        encoders: one for each level, so one more than poolers; called as `encoder(graphs, x)`.
        poolers: called as `pooler(graphs, x, z, clusters)`.
        clusters: how many clusters each pooling makes.
        head: from the read-out graph embedding to the logits; called as `head(x)`, or `head(x, dropout)`.
        readout: sum, mean or max over a level's nodes. The sum is the paper's last assignment, S = a column of ones.
            Or a module, called as `readout(graphs, z)`: [N, D] → [B, D'].
        every_level: read out every level and concatenate (the released code) instead of the last one only.
        inputs: what is done to the features first; called as `inputs(x)`.
    """

    def __init__(
        self,
        encoders: Sequence[nn.Module],
        poolers: Sequence[nn.Module],
        clusters: Sequence[Clusters],
        head: nn.Module,
        readout: Reduction | nn.Module = "sum",
        every_level: bool = False,
        inputs: nn.Module | None = None,
    ):
        super().__init__()
        self.inputs = inputs
        self.encoders, self.poolers = nn.ModuleList(encoders), nn.ModuleList(poolers)
        self.clusters = tuple(clusters)
        self.head, self.readout, self.every_level = head, readout, every_level

    def plan(self, graphs: SparseGraphs) -> tuple[Layout, ...]:
        """The layouts of the coarser levels, from the sizes on the host. What torch.compile cannot trace is here."""
        layouts: list[Layout] = []
        for clusters in self.clusters:
            layouts.append(clusters.layout(layouts[-1] if layouts else graphs.layout))
        return tuple(layouts)

    @property
    def draws(self) -> bool:
        """Whether it needs random numbers in training, other than those of dropout."""
        return any(isinstance(pooler, HardDiffPool) and pooler.gumbel for pooler in self.poolers)

    def forward(
        self,
        graphs: SparseGraphs,
        x: Tensor,
        plan: tuple[Layout, ...] | None = None,
        dropout: Dropout | None = None,
    ) -> Prediction:
        """Graphs with features x [N, F] → a `Prediction`; `plan` is `self.plan(graphs)`.

        `dropout` is of the head, and draws for poolers that need random numbers.
        """
        down = self.descend(graphs, x, plan, dropout)
        read = down.embeddings if self.every_level else down.embeddings[-1:]
        vectors = [
            self._read(*level) for level in zip(down.graphs[-len(read) :], read, strict=True)
        ]
        vector = torch.cat(vectors, -1)  # [B, D]
        logits = self.head(vector) if dropout is None else self.head(vector, dropout)
        return Prediction(logits, tuple(down.assignments), tuple(down.graphs), down.losses)

    def descend(
        self,
        graphs: SparseGraphs,
        x: Tensor,
        plan: tuple[Layout, ...] | None = None,
        dropout: Dropout | None = None,
    ) -> Descent:
        """Encode and pool, from the input to the coarsest level."""
        level: Graphs = graphs
        down = Descent([level], [], [], {})
        layouts: Sequence[Layout | None] = self.plan(graphs) if plan is None else plan
        layouts = layouts or [None] * len(self.poolers)  # poolers that know their clusters
        if self.inputs is not None:
            x = self.inputs(x)
        for number, (pooler, clusters) in enumerate(zip(self.poolers, layouts, strict=True)):
            encoder = self.encoders[number]
            with beside(level, x, (encoder, pooler.gnn) if type(pooler) is DiffPool else ()):
                z = encoder(level, x)
            down.embeddings.append(z)
            drawing = (dropout, number) if isinstance(pooler, HardDiffPool) else ()
            pooled = pooler(level, x, z, clusters, *drawing)
            level, x = pooled.graphs, pooled.x
            down.graphs.append(level)
            down.assignments.append(pooled.assignment)
            for name, loss in pooled.losses.items():
                down.losses[name] = down.losses[name] + loss if name in down.losses else loss
        down.embeddings.append(self.encoders[-1](level, x))
        return down

    def _read(self, level: Graphs, z: Tensor) -> Tensor:
        how = self.readout
        return level.readout(z, how) if isinstance(how, str) else how(level, z)


class Head(nn.Sequential):
    """Layers one after the other, with dropout before each `Linear` where it is given."""

    def forward(self, x: Tensor, dropout: Dropout | None = None) -> Tensor:
        for number, layer in enumerate(self):
            if dropout is not None and isinstance(layer, Linear):
                x = dropout(x, number)
            x = layer(x)
        return x


def mlp(num_inputs: int, hidden: Sequence[int], num_outputs: int, models: int = 1) -> Head:
    """Linear layers with ReLU between them; without `hidden` the softmax layer of the paper."""
    sizes = [num_inputs, *hidden, num_outputs]
    layers: list[nn.Module] = []
    for i in range(len(sizes) - 1):
        layers += [Linear(sizes[i], sizes[i + 1], models=models), nn.ReLU()]
    return Head(*layers[:-1])
