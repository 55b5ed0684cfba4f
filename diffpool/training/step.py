"""One training step of M models side by side, its losses, and epochs of such steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from diffpool.backends.capture import CapturedSteps, can_capture
from diffpool.backends.cpu.threads import threads_for
from diffpool.graphs import SparseGraphs
from diffpool.layout import Layout
from diffpool.nn import GraphClassifier, Prediction, Random
from diffpool.training.cohort_batches import CohortBatches
from diffpool.training.distributed import SharedSteps
from diffpool.training.optimizer import Optimizer
from diffpool.training.settings import Training

LossWeights = dict[str, Tensor | float]


def task_loss(outputs: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy for classes [B], mean squared error for targets [B, T]; one loss per graph: [B]."""
    if y.is_floating_point():
        return (outputs - y).square().mean(-1)
    return F.cross_entropy(outputs, y, reduction="none")


def total_loss(prediction: Prediction, y: Tensor, weights: LossWeights) -> Tensor:
    """The task loss plus the weighted auxiliary losses of the poolers; one loss per graph: [B].

    A weight is a number or, for M models side by side, a tensor [M]. A loss without a weight has weight 1.
    """
    loss = task_loss(prediction.logits, y)
    for name, auxiliary in prediction.losses.items():
        weight = weights.get(name, 1.0)
        if isinstance(weight, Tensor):
            loss = loss + weight.repeat_interleave(len(loss) // len(weight)) * auxiliary
        elif weight:
            loss = loss + weight * auxiliary
    return loss


def loss_weights(configs: Sequence[Training], like: Tensor) -> LossWeights:
    """The weights of the auxiliary losses: a tensor [M], or a number if all models have the same weight."""
    weights: LossWeights = {}
    for name in configs[0].loss_weights:
        values = [config.loss_weights[name] for config in configs]
        weights[name] = values[0] if len(set(values)) == 1 else like.new_tensor(values)
    return weights


def train_step(
    model: GraphClassifier,
    optimizer: Optimizer,
    graphs: SparseGraphs,
    plan: tuple[Layout, ...],
    x: Tensor,
    y: Tensor,
    real: Tensor,
    weights: LossWeights,
    random: Random | None = None,
    graph_weights: Tensor | None = None,
    add: Callable[[Tensor], None] | None = None,
) -> tuple[Prediction, Tensor]:
    """Update every model by the mean loss over its graphs; `graphs` to `real` are the parts of a `CohortBatch`.

    `graph_weights` [M · B] multiply the losses of the graphs. `add` sums a tensor over the processes if these are the
    graphs of one of several processes. Returns the prediction before the update and the sum of the losses of each
    model: [M].
    """
    prediction = model(graphs, x, plan, random)
    loss = total_loss(prediction, y, weights)
    loss = loss if graph_weights is None else graph_weights * loss
    if add is None and len(real) == 1 and graphs.layout.complete:
        optimizer.step(loss.mean())
        return prediction, loss.detach().sum()[None]
    sums = torch.where(real, loss.view(real.shape), 0).sum(1)  # [M]
    counts = real.sum(1)
    if add is not None:
        optimizer.shared_step(sums, counts, add)
        return prediction, sums.detach()
    optimizer.step((sums / counts.clamp(min=1)).sum(), counts > 0)
    return prediction, sums.detach()


class EagerSteps:
    """Runs `step` on each batch in turn. `CapturedSteps` and `SharedSteps` have the same interface."""

    def __init__(self, batches: CohortBatches, step: Callable[..., None]):
        self.batches, self.step = batches, step

    def epoch(self, orders: Sequence[np.ndarray], sizes: Sequence[int]) -> None:
        """Run one step for each batch: the graphs of each model in its order, in batches of its size."""
        batches = self.batches
        rows = max(sizes) * batches.sizes.sum() / max(len(batches.sizes), 1)  # of one model
        with nullcontext() if batches.x.is_cuda else threads_for(rows):
            for batch in batches.batches(orders, sizes):
                self.step(*batch.parts)


Stepper = EagerSteps | CapturedSteps | SharedSteps


def make_stepper(
    batches: CohortBatches, step: Callable[..., None], models: int, max_graphs: int
) -> Stepper:
    """Captured steps if the device and the graphs allow them, otherwise eager steps.

    `step` takes the parts of a `CohortBatch` of `models` models with up to `max_graphs` graphs each.
    """
    if not batches.on_disk and can_capture(batches):
        return CapturedSteps(batches, step, models, max_graphs)
    return EagerSteps(batches, step)
