"""Minibatches of M models as one ragged batch. Each model draws its own graphs from the same data set.

At every level the rows of model 0 come first, then the same number of rows of model 1, and so on: layers with
parameters view [N, D] as [M, N/M, D]. A model with fewer rows than the others is padded with rows that belong to no
graph; they are excluded from all statistics and losses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from diffpool.data import GraphDataset
from diffpool.graphs import SparseGraphs
from diffpool.layout import Layout
from diffpool.nn import Clusters
from diffpool.training.loss_targets import LossTargets, packed


@dataclass(frozen=True, eq=False, repr=False)
class CohortBatch:
    """One minibatch of B graphs for each of M models; a model with fewer graphs is padded with empty ones."""

    graphs: SparseGraphs  # M · B graphs
    plan: tuple[Layout, ...]  # layouts of the coarser levels
    x: Tensor  # [N, F]
    y: Tensor  # [M · B] int64, or [M · B, T]; with weights of graphs, see `loss_targets.packed`
    real: Tensor  # [M, B] bool, on the device: False for padding
    counts: np.ndarray  # [M]: number of real graphs

    @property
    def parts(self) -> tuple[SparseGraphs, tuple[Layout, ...], Tensor, Tensor, Tensor]:
        """The arguments of a training step."""
        return self.graphs, self.plan, self.x, self.y, self.real

    def __repr__(self) -> str:
        return f"CohortBatch({self.graphs!r}, {self.counts.tolist()} real graphs)"


class CohortBatches:
    """A data set, ready to draw batches for models with these `clusters` at each pooling.

    Its last node is an extra one with zero features, for padding rows. A data set on disk stays there.
    """

    def __init__(self, dataset: GraphDataset, clusters: Sequence[Clusters]):
        y = packed(dataset)
        self.clusters = tuple(clusters)
        self.loss_targets = LossTargets.for_scores(dataset)
        self.source = dataset.padded()
        self.graphs, self.x = self.source.graphs, self.source.x
        self.y = torch.cat([y, y.new_zeros(1, *y.shape[1:])])
        self.sizes = dataset.sizes
        self.on_disk = len(self.graphs) <= len(self.sizes)  # `graphs` has only the extra one
        levels = [self.sizes]
        for pooling in self.clusters:
            levels.append(pooling.counts(levels[-1]))
        # the sizes of every graph at each level: [levels, graphs + 1]; the last column is that of padding, −1
        self.level_sizes = np.pad(np.stack(levels), ((0, 0), (0, 1)))

    def batch(self, chosen: np.ndarray) -> CohortBatch:
        """The batch of the graphs with these numbers [M, B]; −1 for padding."""
        models = len(chosen)
        if models == 1:
            chosen = chosen[chosen >= 0][None]
        real = chosen >= 0
        device = self.x.device
        layouts = [
            Layout.from_sizes(sizes, device, models)
            for sizes in self.level_sizes[:, chosen.reshape(-1)]
        ]
        numbers = torch.from_numpy(np.where(real, chosen, len(self.sizes)).reshape(-1))
        graphs, x = self.source.draw(numbers, layouts[0])
        return CohortBatch(
            graphs=graphs,
            plan=tuple(layouts[1:]),
            x=x,
            y=self.y.index_select(0, numbers.to(device)),
            real=torch.from_numpy(real).to(device),
            counts=real.sum(1),
        )

    def batches(self, graphs: Sequence[np.ndarray], sizes: Sequence[int]) -> Iterator[CohortBatch]:
        """The graphs of each model in its order, in batches of its size, until no model has graphs left."""
        max_graphs = max(min(len(g), size) for g, size in zip(graphs, sizes, strict=True))
        for chosen in self.divided(graphs, sizes, max_graphs):
            yield self.batch(chosen)

    def divided(
        self, orders: Sequence[np.ndarray], sizes: Sequence[int], max_graphs: int
    ) -> np.ndarray:
        """The graphs of each model in batches of its size: [steps, M, max_graphs], −1 for padding.

        The largest graphs of a batch come first: for columns that only large graphs have, sums over the rows of a model
        can then stop early.
        """
        chosen = _in_batches(orders, sizes, max_graphs)
        nodes = np.where(chosen >= 0, self.sizes[chosen], -1)
        return np.take_along_axis(chosen, np.argsort(-nodes, axis=2, kind="stable"), 2)


def _in_batches(orders: Sequence[np.ndarray], sizes: Sequence[int], max_graphs: int) -> np.ndarray:
    steps = max(-(-len(order) // size) for order, size in zip(orders, sizes, strict=True))
    chosen = np.full((steps, len(orders), max_graphs), -1)
    for m, (order, size) in enumerate(zip(orders, sizes, strict=True)):
        whole = np.pad(order, (0, steps * size - len(order)), constant_values=-1)
        chosen[:, m, :size] = whole.reshape(steps, size)[:, :max_graphs]
    return chosen
