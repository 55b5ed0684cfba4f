"""The models of a cohort that are in training now, as one program: a step of them all, and an epoch of steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from diffpool.backends.capture import CapturedSteps, can_capture
from diffpool.data import Fold, GraphDataset
from diffpool.graphs import SparseGraphs
from diffpool.layout import Layout
from diffpool.nn import GraphClassifier, Prediction, Random
from diffpool.training.cohort_batches import CohortBatches
from diffpool.training.losses import loss_weights, total_loss
from diffpool.training.optimizer import Optimizer
from diffpool.training.scores import Evaluation, score_sums
from diffpool.training.settings import Training


class RunningModels:
    """M models side by side and what their steps need. `members` are their numbers in the cohort."""

    def __init__(
        self,
        model: GraphClassifier,
        members: Sequence[int],
        dataset: GraphDataset,
        batches: CohortBatches,
        folds: Sequence[Fold],
        configs: Sequence[Training],
    ):
        folds, configs = [folds[m] for m in members], [configs[m] for m in members]
        self.model, self.members, self.batches = model, list(members), batches
        self.batch_sizes = [config.batch_size for config in configs]
        self.optimizer = Optimizer(model, configs)
        self.weights = loss_weights(configs, dataset.x)
        rates, seeds = [c.dropout for c in configs], [c.seed for c in configs]
        self.random = Random(seeds, self.optimizer.steps, rates)
        # losses and right answers of each model in this epoch: on the device, read once an epoch
        self.sums = dataset.x.new_zeros(len(configs), 3, dtype=torch.float64)
        self.evaluate = Evaluation(model, batches, len(configs))
        self.captured: CapturedSteps | None = None
        if can_capture(batches):
            most = max(min(len(f.train), c.batch_size) for f, c in zip(folds, configs, strict=True))
            self.captured = CapturedSteps(batches, self._step, len(configs), most)

    def train(self, orders: Sequence[np.ndarray]) -> np.ndarray:
        """One epoch on the graphs of each model in its order; a model without any is left as it is.

        Of each model the mean loss with the auxiliary losses, without them, and the accuracy: [M, 3].
        """
        self.model.train()
        self.sums.zero_()
        if self.captured is not None:
            self.captured.epoch(orders, self.batch_sizes)
        else:
            for batch in self.batches.batches(orders, self.batch_sizes):
                self._step(*batch.parts)
        counts = np.array([max(len(order), 1) for order in orders])
        return self.sums.cpu().numpy() / counts[:, None]

    def _step(
        self, graphs: SparseGraphs, plan: tuple[Layout, ...], x: Tensor, y: Tensor, real: Tensor
    ) -> None:
        """One step of every model; losses and right answers are added to `sums`."""
        prediction, loss = train_step(
            self.model, self.optimizer, graphs, plan, x, y, real, self.weights, self.random
        )
        self.sums += torch.cat([loss[:, None], score_sums(prediction.logits.detach(), y, real)], 1)


def train_step(
    model: GraphClassifier,
    optimizer: Optimizer,
    graphs: SparseGraphs,
    plan: tuple[Layout, ...],
    x: Tensor,
    y: Tensor,
    real: Tensor,
    weights: dict[str, Tensor | float],
    random: Random | None = None,
) -> tuple[Prediction, Tensor]:
    """One step of every model on the mean loss of its graphs; the prediction before it and the sum of losses: [M].

    The batch is that of a `CohortBatch`.
    """
    prediction = model(graphs, x, plan, random)
    loss = total_loss(prediction, y, weights)
    if len(real) == 1 and graphs.layout.complete:
        optimizer.step(loss.mean())
        return prediction, loss.detach().sum()[None]
    sums = torch.where(real, loss.view(real.shape), 0).sum(1)  # [M]
    counts = real.sum(1)
    optimizer.step((sums / counts.clamp(min=1)).sum(), counts > 0)
    return prediction, sums.detach()
