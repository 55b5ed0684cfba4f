"""Training on the link loss alone, before training on the classes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from diffpool.data import Fold, GraphDataset
from diffpool.graphs import SparseGraphs
from diffpool.layout import Layout
from diffpool.nn import GraphClassifier
from diffpool.training.cohort import Cohort
from diffpool.training.settings import Training


class LinkOnly(Cohort):
    """A cohort whose steps minimize the link loss alone."""

    def step(
        self, graphs: SparseGraphs, plan: tuple[Layout, ...], x: Tensor, y: Tensor, real: Tensor
    ) -> None:
        link = self.in_training(graphs, x, plan, self.random).losses["link"]
        sums = torch.where(real, link.view(real.shape), 0).sum(1)  # [M]
        counts = real.sum(1)
        self.optimizer.step((sums / counts.clamp(min=1)).sum(), counts > 0)
        self.sums[:, 0] += sums.detach()

    def pretrain_epoch(self) -> list[float]:
        """Train every model for an epoch; returns the mean link loss of each."""
        self.epoch += 1
        means: list[float] = self.train_on([self._order(m) for m in self.members])[:, 0].tolist()
        return means


def pretrain(
    model: GraphClassifier,
    dataset: GraphDataset,
    fold: Fold,
    configs: Sequence[Training],
    epochs: int,
) -> dict[str, Tensor]:
    """The parameters of M models after some epochs on the link loss alone."""
    cohort = LinkOnly(model, dataset, [fold] * len(configs), configs)
    for _ in range(epochs):
        cohort.pretrain_epoch()
    return {name: tensor.clone() for name, tensor in cohort.in_training.state_dict().items()}
