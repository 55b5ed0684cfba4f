"""Minibatches of M models as one ragged batch: each model draws its own graphs from the one data set.

The rows of model 0 come first, then as many of model 1, and so on, at every level: layers with parameters see [N, D]
as [M, N/M, D]. Models have as many rows each because a few graphs without edges, the *fillers*, make up for what a
model has less than the others. They are not real: they are in no statistic and no loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from diffpool.data import GraphDataset
from diffpool.graphs import SparseGraphs
from diffpool.nn import Clusters
from diffpool.segment import Layout


@dataclass(frozen=True, eq=False, repr=False)
class CohortBatch:
    """A minibatch of each of M models, with G graphs each, the fillers among them."""

    graphs: SparseGraphs  # M · G graphs
    plan: tuple[Layout, ...]  # of the coarser levels
    x: Tensor  # [N, F]
    y: Tensor  # [M · G] int64, or [M · G, T]
    real: Tensor  # [M, G] bool, on the device
    counts: np.ndarray  # [M]: real graphs

    def __repr__(self) -> str:
        return f"CohortBatch({self.graphs!r}, {self.counts.tolist()} real graphs)"


class CohortBatches:
    """A data set for models whose poolings make `clusters`; behind it a node of zeros, for the fillers."""

    def __init__(self, dataset: GraphDataset, clusters: Sequence[Clusters]):
        x, y = dataset.x, dataset.y
        self.clusters = tuple(clusters)
        self.graphs = dataset.graphs.with_empty_graph()
        self.x = torch.cat([x, x.new_zeros(1, x.shape[1])])
        self.y = torch.cat([y, y.new_zeros(1, *y.shape[1:])])
        self.sizes = dataset.graphs.layout.sizes.numpy()

    def batch(self, chosen: np.ndarray) -> CohortBatch:
        """The graphs with these numbers: [M, B]; −1 for none."""
        models = len(chosen)
        if models == 1:
            chosen = chosen[chosen >= 0][None]
        real = chosen >= 0
        levels = [np.where(real, self.sizes[chosen], 0)]
        for clusters in self.clusters:
            levels.append(np.where(real, clusters.counts(levels[-1]), 0))
        if models > 1:
            fillers = filler_sizes(levels)
            levels = [np.concatenate(pair, 1) for pair in zip(levels, fillers, strict=True)]
            none = np.full(fillers[0].shape, -1)
            chosen = np.concatenate([chosen, none], 1)
            real = np.concatenate([real, none >= 0], 1)
        device = self.x.device
        padded = None if models == 1 else real.reshape(-1)
        layouts = [Layout.of(sizes.reshape(-1), device, models, padded) for sizes in levels]
        numbers = torch.from_numpy(np.where(real, chosen, len(self.sizes)).reshape(-1))
        graphs, nodes = self.graphs.select(numbers, layouts[0])
        return CohortBatch(
            graphs=graphs,
            plan=tuple(layouts[1:]),
            x=self.x[nodes],
            y=self.y[numbers.to(device)],
            real=torch.from_numpy(real).to(device),
            counts=real.sum(1),
        )

    def batches(self, graphs: Sequence[np.ndarray], sizes: Sequence[int]) -> Iterator[CohortBatch]:
        """All graphs of each model in its order, in batches of its size, until every model has had its last."""
        steps = max(-(-len(g) // size) for g, size in zip(graphs, sizes, strict=True))
        most = max(min(len(g), size) for g, size in zip(graphs, sizes, strict=True))
        for step in range(steps):
            chosen = np.full((len(graphs), most), -1)
            for row, own, size in zip(chosen, graphs, sizes, strict=True):
                part = own[step * size : (step + 1) * size]
                row[: len(part)] = part
            yield self.batch(chosen)


def filler_sizes(levels: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Sizes of the fillers at each level [M, P], so that with the real ones [M, B] all models have as many rows.

    A filler with rows has a row at the next level too, its cluster; and no more rows there than the largest real graph,
    so that matrices of local columns do not become wider.
    """
    made: list[list[np.ndarray]] = []
    with_rows = np.zeros(len(levels[0]), np.int64)  # fillers of each model that have rows
    for level, sizes in enumerate(levels):
        used = sizes.sum(1)
        needed = (used + with_rows).max() - used
        most = max(int(sizes.max(initial=0)), 1) if level > 0 else max(int(needed.max()), 1)
        rows = []
        for count, at_least in zip(needed.tolist(), with_rows.tolist(), strict=True):
            share = [1] * at_least
            rest = count - at_least
            number = 0
            while rest > 0:
                if number == len(share):
                    share.append(0)
                more = min(rest, most - share[number])
                share[number] += more
                rest -= more
                number += 1
            rows.append(np.array(share, np.int64))
        with_rows = np.array([(row > 0).sum() for row in rows])
        made.append(rows)
    width = max(len(row) for rows in made for row in rows)
    return [np.stack([np.pad(row, (0, width - len(row))) for row in rows]) for rows in made]
