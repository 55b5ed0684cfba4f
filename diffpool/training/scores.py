"""How well models do on some graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from diffpool.backends.capture import CapturedSteps, can_capture
from diffpool.data import GraphDataset
from diffpool.graphs import SparseGraphs
from diffpool.layout import Layout
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


def evaluate_cohort(
    model: GraphClassifier,
    batches: CohortBatches,
    graphs: Sequence[np.ndarray],
    batch_size: int = 100,
) -> list[Scores]:
    """The scores of each of M models on its own graphs, once: a capture would not pay."""
    return Evaluation(model, batches, len(graphs), batch_size, capture=False)(graphs)


class Evaluation:
    """Scores of M models side by side, as often as they are asked for: on a GPU by captured steps."""

    def __init__(
        self,
        model: GraphClassifier,
        batches: CohortBatches,
        models: int,
        batch_size: int = 100,
        capture: bool = True,
    ):
        self.model, self.batches, self.batch_size = model, batches, batch_size
        self.sums = batches.x.new_zeros(models, 2, dtype=torch.float64)
        self.captured: CapturedSteps | None = None
        if capture and can_capture(batches):
            self.captured = CapturedSteps(batches, self._add, models, batch_size)

    @torch.no_grad()
    def __call__(self, graphs: Sequence[np.ndarray]) -> list[Scores]:
        """The scores of each model on its own graphs."""
        self.model.eval()
        self.sums.zero_()
        sizes = [self.batch_size] * len(graphs)
        if self.captured is not None:
            self.captured.epoch(graphs, sizes)
        else:
            for batch in self.batches.batches(graphs, sizes):
                self._add(*batch.parts)
        regression = self.batches.y.is_floating_point()
        scores = []
        for own, (loss, right) in zip(graphs, self.sums.tolist(), strict=True):
            count = max(len(own), 1)
            scores.append(Scores(loss / count, None if regression else right / count))
        return scores

    def _add(
        self, graphs: SparseGraphs, plan: tuple[Layout, ...], x: Tensor, y: Tensor, real: Tensor
    ) -> None:
        self.sums += score_sums(self.model(graphs, x, plan).logits, y, real)


def score_sums(outputs: Tensor, y: Tensor, real: Tensor) -> Tensor:
    """The loss of the task, and the number of right answers (0 for regression), over each model's graphs: [M, 2]."""
    loss = task_loss(outputs, y)
    right = torch.zeros_like(loss) if y.is_floating_point() else (outputs.argmax(-1) == y).to(loss)
    both = torch.stack([loss, right], -1).view(*real.shape, 2)
    return torch.where(real[..., None], both, 0).sum(1)
