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
from diffpool.nn import GraphClassifier, Prediction
from diffpool.training.config import Training
from diffpool.training.optimiser import Optimiser


@dataclass(frozen=True)
class Epoch:
    """One row of metrics: losses averaged over graphs, accuracies from 0 to 1."""

    epoch: int
    train_loss: float  # with the auxiliary losses
    train_class_loss: float
    train_accuracy: float
    validation_loss: float  # classification only: what early stopping watches
    validation_accuracy: float
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
    """The classification loss plus the weighted auxiliary losses of every graph: [B]."""
    loss = F.cross_entropy(prediction.logits, y, reduction="none")
    for name, auxiliary in prediction.losses.items():
        weight = weights.get(name, 1.0)
        if weight:
            loss = loss + weight * auxiliary
    return loss


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
) -> tuple[float, float, float]:
    model.train()
    sums = dataset.x.new_zeros(3, dtype=torch.float64)  # on the device: read once an epoch
    for batch in dataset.batches(fold.train, config.batch_size, shuffle):
        prediction, loss = train_step(model, optimiser, batch, config)
        logits = prediction.logits.detach()
        class_loss = F.cross_entropy(logits, batch.y, reduction="sum")
        sums += torch.stack([loss.sum(), class_loss, (logits.argmax(-1) == batch.y).sum()])
    total, class_total, correct = (sums / max(len(fold.train), 1)).tolist()
    return total, class_total, correct


@dataclass(frozen=True)
class Scores:
    """Mean classification loss and accuracy (0 to 1) of some graphs."""

    loss: float
    accuracy: float


@torch.no_grad()
def evaluate(
    model: GraphClassifier, dataset: GraphDataset, graphs: np.ndarray, batch_size: int = 100
) -> Scores:
    """The scores of the model on these graphs."""
    model.eval()
    sums = dataset.x.new_zeros(2, dtype=torch.float64)
    for batch in dataset.batches(graphs, batch_size):
        logits = model(batch.graphs, batch.x).logits
        loss = F.cross_entropy(logits, batch.y, reduction="sum")
        sums += torch.stack([loss, (logits.argmax(-1) == batch.y).sum()])
    loss_sum, correct = (sums / max(len(graphs), 1)).tolist()
    return Scores(loss_sum, correct)
