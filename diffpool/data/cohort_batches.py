"""Minibatches of M models as one ragged batch: each model draws its own graphs from the one data set.

The rows of model 0 come first, then as many of model 1, and so on. Models have as many rows each because a last graph
without edges fills up those that have fewer; it is not real: it is in no statistic and no loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from diffpool.data.dataset import GraphDataset
from diffpool.graphs import SparseGraphs
from diffpool.segment import Layout


@dataclass(frozen=True, eq=False, repr=False)
class CohortBatch:
    """A minibatch of each of M models, with G graphs each, the padding among them."""

    graphs: SparseGraphs  # M · G graphs
    x: Tensor  # [N, F]
    y: Tensor  # [M · G] int64, or [M · G, T]
    real: Tensor  # [M, G] bool, on the device
    counts: np.ndarray  # [M]: real graphs

    def __repr__(self) -> str:
        return f"CohortBatch({self.graphs!r}, {self.counts.tolist()} real graphs)"


class CohortBatches:
    """A data set with an empty graph and a node of zeros behind its last ones, for padding."""

    def __init__(self, dataset: GraphDataset):
        self.dataset = dataset
        g, x, y = dataset.graphs, dataset.x, dataset.y
        self.x = torch.cat([x, x.new_zeros(1, x.shape[1])])
        self.y = torch.cat([y, y.new_zeros(1, *y.shape[1:])])
        self.graphs = g.with_empty_graph()
        self.sizes = g.layout.sizes.numpy()

    def batch(self, chosen: np.ndarray) -> CohortBatch:
        """The graphs with these numbers: [M, B]; −1 for none."""
        models = len(chosen)
        real = chosen >= 0
        if models == 1:
            chosen, real = chosen[real][None], real[real][None]
            sizes = self.sizes[chosen]
        else:
            sizes = np.where(real, self.sizes[chosen], 0)
            used = sizes.sum(1)
            sizes = np.concatenate([sizes, (used.max() - used)[:, None]], 1)
            chosen = np.concatenate([chosen, np.full((models, 1), -1)], 1)
            real = np.concatenate([real, np.zeros((models, 1), bool)], 1)
        device = self.x.device
        flat = torch.from_numpy(np.where(real, chosen, len(self.sizes)).reshape(-1))
        padded = None if models == 1 else real.reshape(-1)
        layout = Layout.of(sizes.reshape(-1), device, models, padded)
        graphs, nodes = self.graphs.select(flat, layout)
        on_device = flat.to(device)
        return CohortBatch(
            graphs=graphs,
            x=self.x[nodes],
            y=self.y[on_device],
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
