"""The hierarchical graph classifier. Without poolers it is a flat GNN."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from diffpool.errors import DataError
from diffpool.graphs import Graphs, Reduction, SparseGraphs
from diffpool.layout import Layout
from diffpool.nn.encoder import encode_level
from diffpool.nn.linear import Linear
from diffpool.nn.poolers import AnyAssignment
from diffpool.nn.random import Random


@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    """The output of a classifier for a batch of B graphs.

    Examples:
        >>> from diffpool import Architecture, build
        >>> model = build(Architecture(poolings=1), 3, 2, largest=4)
        >>> out = model(graphs, x)
        >>> out.logits.shape, out.embedding.shape  # [B, classes], [B, D]
        (torch.Size([2, 2]), torch.Size([2, 64]))
        >>> out.assignments[0].of_graph(0).shape  # S of the first graph: [n, k]
        torch.Size([4, 1])
        >>> {name: loss.shape for name, loss in out.losses.items()}  # [B] each
        {'link': torch.Size([2]), 'entropy': torch.Size([2])}
    """

    logits: Tensor  # [B, classes]
    assignments: tuple[AnyAssignment, ...]  # one per pooling
    graphs: tuple[Graphs, ...]  # one per level, starting with the input
    losses: dict[str, Tensor]  # each [B], summed over the poolings
    embedding: Tensor  # [B, D], the input of the head

    def __repr__(self) -> str:
        return (
            f"Prediction(logits {tuple(self.logits.shape)}, {len(self.assignments)} poolings, "
            f"losses {sorted(self.losses)})"
        )


@dataclass(frozen=True, eq=False)
class Descent:
    """The levels of a classifier, starting with the input."""

    graphs: list[Graphs]
    embeddings: list[Tensor]  # Z, [N, D] each
    assignments: list[AnyAssignment]  # one per pooling
    losses: dict[str, Tensor]  # each [B], summed over the poolings


@dataclass(frozen=True)
class Clusters:
    """The number of clusters that one pooling gives a graph with n nodes.

    ceil(ratio · n), but at least `min_count` (or n, if that is less) and at most `max_count`; without a ratio, always
    `max_count`.

    Examples:
        >>> Clusters(max_count=8, ratio=0.5).counts(np.array([4, 3, 100]))
        array([2, 2, 8])
        >>> Clusters(max_count=2).layout(graphs.layout)  # the rows of the next level
        Layout(2 graphs, 4 rows, largest 2)
    """

    max_count: int
    ratio: float | None = None
    min_count: int = 1

    def counts(self, sizes: np.ndarray) -> np.ndarray:
        """The number of clusters of each graph, given its number of nodes; `sizes` has any shape."""
        if self.ratio is None:
            return np.full(sizes.shape, self.max_count)
        # rounded, so that 0.1 · 30 is exactly 3
        counts = np.ceil(np.round(self.ratio * sizes, 9)).astype(np.int64)
        # a tiny ratio is rounded to 0
        counts = np.maximum(counts, np.minimum(self.min_count, sizes))
        return counts.clip(max=self.max_count)

    def layout(self, rows: Layout) -> Layout:
        """The layout of the coarser level."""
        return rows.coarser(self)


def share(ratio: float, count: int) -> int:
    """ceil(ratio · count), rounded first so that 0.1 · 30 is exactly 3."""
    return math.ceil(round(ratio * count, 9))


def graphs_and_features(graphs: Any, x: Tensor | None) -> tuple[SparseGraphs, Tensor]:
    """The two arguments of a model; without `x`, those that a `Batch` of PyTorch Geometric contains."""
    if x is not None:
        if isinstance(graphs, Tensor):
            raise DataError(
                "expected graphs and their features, got a tensor as the graphs: call model(batch) with a batch of "
                "PyTorch Geometric, or model(SparseGraphs.from_edge_index(edge_index, batch), x)"
            )
        return graphs, x
    if isinstance(graphs, SparseGraphs):
        raise DataError("expected the features of the nodes, got none: call model(graphs, x)")
    sparse, x = SparseGraphs.from_pyg(graphs), getattr(graphs, "x", None)
    if not isinstance(x, Tensor):
        raise DataError(
            "expected the features of the nodes as x of the batch, got none: add them, or call model(graphs, x)"
        )
    if not x.is_floating_point():
        raise DataError(
            f"expected features as floating-point numbers, got {x.dtype}: call model(graphs, x.float()), or make "
            "one-hot columns of them"
        )
    return sparse, x


class GraphClassifier(nn.Module):
    """Encode, pool, encode, …, read out, classify.

    Examples:
        >>> from diffpool.nn import DiffPool, Encoder, Sage
        >>> model = GraphClassifier(
        ...     encoders=[Encoder(Sage, [3, 8]), Encoder(Sage, [8, 8])],
        ...     poolers=[DiffPool(Encoder(Sage, [3, 2]))],
        ...     clusters=[Clusters(max_count=2)],
        ...     head=mlp(8, [], 5),
        ... )
        >>> model(graphs, x).logits.shape  # [N, 3] → [B, 5]
        torch.Size([2, 5])

    Args:
        encoders: one per level, so one more than there are poolers; called as `encoder(graphs, x)`.
        poolers: modules that follow the protocol of `nn.Pooler`.
        clusters: the number of clusters at each pooling.
        head: maps graph embeddings to logits; called as `head(x)`, with dropout as `head(x, random)`.
        readout: sum, mean or max over a level's nodes. The sum is the paper's final assignment, S = a column of ones.
            Also a module, called as `readout(graphs, z)`: [N, D] → [B, D'].
        every_level: concatenate the readouts of all levels (the released code) instead of using the last level only.
        inputs: applied to the features first; called as `inputs(x)`.
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
        """The layouts of the coarser levels, computed on the host: the part that torch.compile cannot trace."""
        layouts: list[Layout] = []
        for clusters in self.clusters:
            layouts.append(clusters.layout(layouts[-1] if layouts else graphs.layout))
        return tuple(layouts)

    def forward(
        self,
        graphs: SparseGraphs | Any,
        x: Tensor | None = None,
        plan: tuple[Layout, ...] | None = None,
        random: Random | None = None,
    ) -> Prediction:
        """Graphs with features x [N, F] → a `Prediction`; `plan` is `self.plan(graphs)`.

        A `Batch` or `Data` of PyTorch Geometric contains both: `model(batch)` is
        `model(SparseGraphs.from_pyg(batch), batch.x)`, on the device of the batch.

        `random` provides the random numbers of a training step, for dropout in the head and for the poolers.
        """
        graphs, x = graphs_and_features(graphs, x)
        down = self.descend(graphs, x, plan, random)
        read = down.embeddings if self.every_level else down.embeddings[-1:]
        levels = zip(down.graphs[-len(read) :], read, strict=True)
        vector = torch.cat([self._read(level, z) for level, z in levels], -1)  # [B, D]
        drops = random is not None and random.drops
        logits = self.head(vector, random) if drops else self.head(vector)
        return Prediction(logits, tuple(down.assignments), tuple(down.graphs), down.losses, vector)

    def descend(
        self,
        graphs: SparseGraphs,
        x: Tensor,
        plan: tuple[Layout, ...] | None = None,
        random: Random | None = None,
    ) -> Descent:
        """Encode and pool every level, from the input to the coarsest."""
        level: Graphs = graphs
        down = Descent([level], [], [], {})
        layouts: Sequence[Layout | None] = self.plan(graphs) if plan is None else plan
        if any(layout is not None and len(layout) != len(graphs) for layout in layouts):
            raise DataError(
                f"expected the plan of these {len(graphs)} graphs, got another one: call plan(graphs) for every batch"
            )
        layouts = layouts or [None] * len(self.poolers)  # the poolers choose the clusters
        if self.inputs is not None:
            x = self.inputs(x)
        for number, (pooler, clusters) in enumerate(zip(self.poolers, layouts, strict=True)):
            gnn = getattr(pooler, "gnn", None)
            z, scores = encode_level(level, x, self.encoders[number], gnn, clusters)
            pooled = pooler(level, z, scores, clusters, random and random.at(number))
            level, x = pooled.graphs, pooled.x
            down.graphs.append(level)
            down.embeddings.append(z)
            down.assignments.append(pooled.assignment)
            for name, loss in pooled.losses.items():
                down.losses[name] = down.losses[name] + loss if name in down.losses else loss
        down.embeddings.append(self.encoders[-1](level, x))
        return down

    def _read(self, level: Graphs, z: Tensor) -> Tensor:
        readout = self.readout
        return level.readout(z, readout) if isinstance(readout, str) else readout(level, z)


class Head(nn.Sequential):
    """Layers in sequence, with dropout before each `Linear` if random numbers are given.

    Examples:
        >>> head = Head(Linear(8, 4), nn.ReLU(), Linear(4, 5))
        >>> head(torch.rand(2, 8)).shape  # [B, 8] → [B, 5]
        torch.Size([2, 5])
    """

    def forward(self, x: Tensor, random: Random | None = None) -> Tensor:
        for number, layer in enumerate(self):
            if random is not None and isinstance(layer, Linear):
                x = random.dropout(x, number)
            x = layer(x)
        return x


def mlp(num_inputs: int, hidden: Sequence[int], num_outputs: int, models: int = 1) -> Head:
    """Linear layers with ReLU in between; without `hidden`, the single output layer of the paper.

    Examples:
        >>> mlp(8, [4], 5)(torch.rand(2, 8)).shape  # [B, 8] → [B, 5]
        torch.Size([2, 5])
    """
    sizes = [num_inputs, *hidden, num_outputs]
    layers: list[nn.Module] = []
    for i in range(len(sizes) - 1):
        layers += [Linear(sizes[i], sizes[i + 1], models=models), nn.ReLU()]
    return Head(*layers[:-1])
