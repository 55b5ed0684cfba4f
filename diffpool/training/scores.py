"""How well models do on some graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from diffpool.data import GraphDataset
from diffpool.nn import GraphClassifier
from diffpool.training.cohort_batches import CohortBatches
from diffpool.training.losses import task_loss


@dataclass(frozen=True)
class Scores:
    """Mean loss and accuracy (0 to 1; None for regression) of some graphs."""

    loss: float
    accuracy: float | None


def evaluate(
    model: GraphClassifier, dataset: GraphDataset, graphs: np.ndarray, batch_size: int = 100
) -> Scores:
    """The scores of one model on these graphs."""
    return evaluate_cohort(model, CohortBatches(dataset, model.clusters), [graphs], batch_size)[0]


@torch.no_grad()
def evaluate_cohort(
    model: GraphClassifier,
    batches: CohortBatches,
    graphs: Sequence[np.ndarray],
    batch_size: int = 100,
) -> list[Scores]:
    """The scores of each of M models on its own graphs."""
    model.eval()
    sums = batches.x.new_zeros(len(graphs), 2, dtype=torch.float64)
    for batch in batches.batches(graphs, [batch_size] * len(graphs)):
        sums += score_sums(model(batch.graphs, batch.x, batch.plan).logits, batch.y, batch.real)
    regression = batches.y.is_floating_point()
    scores = []
    for own, (loss, right) in zip(graphs, sums.tolist(), strict=True):
        count = max(len(own), 1)
        scores.append(Scores(loss / count, None if regression else right / count))
    return scores


def score_sums(outputs: Tensor, y: Tensor, real: Tensor) -> Tensor:
    """The loss of the task, and the number of right answers (0 for regression), over each model's graphs: [M, 2]."""
    loss = task_loss(outputs, y)
    right = torch.zeros_like(loss) if y.is_floating_point() else (outputs.argmax(-1) == y).to(loss)
    both = torch.stack([loss, right], -1).view(*real.shape, 2)
    return torch.where(real[..., None], both, 0).sum(1)
