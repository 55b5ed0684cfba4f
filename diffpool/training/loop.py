"""The training loop: it yields one row for each epoch and leaves the model at its best one."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from diffpool.data import Fold, GraphBatch, GraphDataset
from diffpool.errors import TrainingError
from diffpool.nn import GraphClassifier, Prediction, Standardise
from diffpool.training.config import Training
from diffpool.training.optimiser import Optimiser


@dataclass(frozen=True)
class Epoch:
    """One row of metrics: losses averaged over graphs, accuracies from 0 to 1."""

    epoch: int
    train_loss: float  # with the auxiliary losses
    train_class_loss: float  # without them
    train_accuracy: float | None  # None for regression, here and below
    validation_loss: float  # without the auxiliary losses: what early stopping watches
    validation_accuracy: float | None
    best: bool  # the lowest validation loss so far
    seconds: float


def train(
    model: GraphClassifier, dataset: GraphDataset, fold: Fold, config: Training
) -> Iterator[Epoch]:
    """Train on one split until the validation loss has not fallen for `patience` epochs.

    The model is on the device of the data set. When the iterator ends, or is closed, the model has the parameters of
    the best epoch.
    """
    optimiser = Optimiser(model, config)
    shuffle = np.random.default_rng(config.seed)
    best_loss, best_epoch = math.inf, 0
    best_state = copy.deepcopy(model.state_dict())
    try:
        for epoch in range(1, config.epochs + 1):
            start = time.perf_counter()
            loss, class_loss, accuracy = _train_epoch(
                model, optimiser, dataset, fold, config, shuffle
            )
            scores = evaluate(model, dataset, fold.validation)
            if not (math.isfinite(loss) and math.isfinite(scores.loss)):
                raise TrainingError(
                    f"the loss became {loss if not math.isfinite(loss) else scores.loss} in epoch {epoch}: try a "
                    f"learning rate below {config.learning_rate:g}, or look for huge values in the features"
                )
            best = scores.loss < best_loss
            if best:
                best_loss, best_epoch = scores.loss, epoch
                best_state = copy.deepcopy(model.state_dict())
            yield Epoch(
                epoch=epoch,
                train_loss=loss,
                train_class_loss=class_loss,
                train_accuracy=accuracy,
                validation_loss=scores.loss,
                validation_accuracy=scores.accuracy,
                best=best,
                seconds=time.perf_counter() - start,
            )
            if epoch - best_epoch >= config.patience:
                break
    finally:
        model.load_state_dict(best_state)


def total_loss(prediction: Prediction, y: Tensor, weights: dict[str, float]) -> Tensor:
    """The loss of the task plus the weighted auxiliary losses of every graph: [B]."""
    loss = task_loss(prediction.logits, y)
    for name, auxiliary in prediction.losses.items():
        weight = weights.get(name, 1.0)
        if weight:
            loss = loss + weight * auxiliary
    return loss


def task_loss(outputs: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy for classes [B], the mean squared error for targets [B, T]: [B]."""
    if y.is_floating_point():
        return (outputs - y).square().mean(-1)
    return F.cross_entropy(outputs, y, reduction="none")


def train_step(
    model: GraphClassifier, optimiser: Optimiser, batch: GraphBatch, config: Training
) -> tuple[Prediction, Tensor]:
    """One step on the mean loss of a batch; the prediction before it and the loss of every graph: [B]."""
    prediction = model(batch.graphs, batch.x)
    loss = total_loss(prediction, batch.y, config.loss_weights)
    optimiser.step(loss.mean())
    return prediction, loss.detach()


def _train_epoch(
    model: GraphClassifier,
    optimiser: Optimiser,
    dataset: GraphDataset,
    fold: Fold,
    config: Training,
    shuffle: np.random.Generator,
) -> tuple[float, float, float | None]:
    model.train()
    sums = dataset.x.new_zeros(3, dtype=torch.float64)  # on the device: read once an epoch
    for batch in dataset.batches(fold.train, config.batch_size, shuffle):
        prediction, loss = train_step(model, optimiser, batch, config)
        sums += torch.cat([loss.sum()[None], _sums(prediction.logits.detach(), batch.y)])
    total, class_total, correct = (sums / max(len(fold.train), 1)).tolist()
    return total, class_total, None if dataset.regression else correct


def _sums(outputs: Tensor, y: Tensor) -> Tensor:
    """The loss of the task, and the number of right answers (0 for regression), over a batch: [2]."""
    right = outputs.new_zeros(()) if y.is_floating_point() else (outputs.argmax(-1) == y).sum()
    return torch.stack([task_loss(outputs, y).sum(), right])


@dataclass(frozen=True)
class Scores:
    """Mean loss and accuracy (0 to 1; None for regression) of some graphs."""

    loss: float
    accuracy: float | None


@torch.no_grad()
def evaluate(
    model: GraphClassifier, dataset: GraphDataset, graphs: np.ndarray, batch_size: int = 100
) -> Scores:
    """The scores of the model on these graphs."""
    model.eval()
    sums = dataset.x.new_zeros(2, dtype=torch.float64)
    for batch in dataset.batches(graphs, batch_size):
        sums += _sums(model(batch.graphs, batch.x).logits, batch.y)
    loss, correct = (sums / max(len(graphs), 1)).tolist()
    return Scores(loss, None if dataset.regression else correct)


def fit_inputs(
    model: GraphClassifier, dataset: GraphDataset, graphs: np.ndarray, number: int = 0
) -> None:
    """Let the model standardise the columns that ask for it by the nodes of these graphs, its training part.

    `number`: of the model, among several side by side.
    """
    if dataset.feature_map is None or not isinstance(model.inputs, Standardise):
        return
    _, nodes = dataset.graphs.select(graphs)
    columns = torch.from_numpy(dataset.feature_map.standardised).to(nodes.device)
    model.inputs.fit(dataset.x[nodes], columns, number)
