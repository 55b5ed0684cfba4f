"""Loss and accuracy of models on given graphs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from diffpool.data import GraphDataset
from diffpool.errors import TrainingError
from diffpool.graphs import SparseGraphs
from diffpool.layout import Layout
from diffpool.nn import GraphClassifier
from diffpool.training.cohort_batches import CohortBatches
from diffpool.training.distributed import SharedSteps
from diffpool.training.loss_targets import LossTargets
from diffpool.training.step import EagerSteps, Stepper, make_stepper, task_loss


@dataclass(frozen=True)
class Scores:
    """Mean loss and accuracy (0 to 1; None for regression) over some graphs.

    If an output is not finite, neither is the loss, and the accuracy is NaN.
    """

    loss: float
    accuracy: float | None


def score(
    model: GraphClassifier, dataset: GraphDataset, graphs: np.ndarray, batch_size: int = 100
) -> Scores:
    """The scores of one model on these graphs."""
    return score_cohort(model, CohortBatches(dataset, model.clusters), [graphs], batch_size)[0]


def score_cohort(
    model: GraphClassifier,
    batches: CohortBatches,
    graphs: Sequence[np.ndarray],
    batch_size: int = 100,
) -> list[Scores]:
    """The scores of each of M models on its own graphs. Steps are not captured: that pays off for many calls."""
    return Scorer(model, batches, len(graphs), batch_size, capture=False)(graphs)


@torch.no_grad()
def outputs_of(
    model: GraphClassifier,
    batches: CohortBatches,
    graphs: Sequence[np.ndarray],
    batch_size: int = 100,
) -> list[np.ndarray]:
    """The outputs of each of M models for its own graphs, in their order: [graphs, outputs] each."""
    model.eval()
    width = 0
    found: list[dict[int, np.ndarray]] = [{} for _ in graphs]
    max_graphs = min(batch_size, max(map(len, graphs)))
    for chosen in batches.divided(graphs, [batch_size] * len(graphs), max_graphs):
        batch = batches.batch(chosen)
        logits = model(batch.graphs, batch.x, batch.plan).logits.cpu().numpy()
        width = logits.shape[1]
        rows = logits.reshape(len(graphs), -1, width)
        for by_graph, numbers, outputs in zip(found, chosen, rows, strict=True):
            numbers = numbers[numbers >= 0] if len(graphs) == 1 else numbers
            by_graph.update(
                (g, row) for g, row in zip(numbers.tolist(), outputs, strict=True) if g >= 0
            )
    return [
        np.array([by_graph[g] for g in numbers.tolist()]).reshape(len(numbers), width)
        for by_graph, numbers in zip(found, graphs, strict=True)
    ]


def check_outputs(
    outputs: np.ndarray, graphs: np.ndarray, dataset: str, model: int | None = None
) -> None:
    """Raise a TrainingError that names the first graph with an output that is not finite.

    `outputs` [B, K] are those of the model with the index `model` for these graphs of the data set.
    """
    wrong = ~np.isfinite(outputs).all(1)
    if wrong.any():
        raise TrainingError(
            f"the output of the model for graph {graphs[wrong.argmax()]} of {dataset} (counted from 0) is not a finite "
            "number: look for huge values in its features, or try a lower learning rate",
            model,
        )


class Scorer:
    """Computes the scores of M models side by side repeatedly; on a GPU, with captured steps."""

    def __init__(
        self,
        model: GraphClassifier,
        batches: CohortBatches,
        models: int,
        batch_size: int = 100,
        capture: bool = True,
        loss_targets: LossTargets | None = None,
        shared: Callable[[Callable[..., None]], SharedSteps] | None = None,
    ):
        """`shared` makes the steps of one of several processes, which divide the graphs among themselves."""
        self.model, self.batches, self.batch_size = model, batches, batch_size
        self.loss_targets = batches.loss_targets if loss_targets is None else loss_targets
        self.sums = batches.x.new_zeros(models, 2, dtype=torch.float64)
        self.stepper: Stepper = EagerSteps(batches, self._add)
        if shared is not None:
            self.stepper = shared(self._add)
        elif capture:
            self.stepper = make_stepper(batches, self._add, models, batch_size)

    @torch.no_grad()
    def __call__(self, graphs: Sequence[np.ndarray]) -> list[Scores]:
        """The scores of each model on its own graphs."""
        self.model.eval()
        self.sums.zero_()
        self.stepper.epoch(graphs, [self.batch_size] * len(graphs))
        if isinstance(self.stepper, SharedSteps):
            self.stepper.processes.add(self.sums)
        regression = self.loss_targets.regression
        scores = []
        for indices, (loss, correct) in zip(graphs, self.sums.tolist(), strict=True):
            count = max(len(indices), 1)
            accuracy = correct / count if math.isfinite(loss) else math.nan
            scores.append(Scores(loss / count, None if regression else accuracy))
        return scores

    def _add(
        self, graphs: SparseGraphs, plan: tuple[Layout, ...], x: Tensor, y: Tensor, real: Tensor
    ) -> None:
        y, weights = self.loss_targets(y, len(real))
        self.sums += score_sums(self.model(graphs, x, plan).logits, y, real, weights)


def score_sums(outputs: Tensor, y: Tensor, real: Tensor, weights: Tensor | None = None) -> Tensor:
    """Sum of the weighted task loss and number of correct predictions (0 for regression) of each model: [M, 2]."""
    loss = task_loss(outputs, y)
    loss = loss if weights is None else weights * loss
    regression = y.is_floating_point()
    correct = torch.zeros_like(loss) if regression else (outputs.argmax(-1) == y).to(loss)
    both = torch.stack([loss, correct], -1).view(*real.shape, 2)
    return torch.where(real[..., None], both, 0).sum(1)
