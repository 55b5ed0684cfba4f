"""The training loop, for M models side by side: it yields a row of every model each epoch and leaves each at its best.

A single model is a cohort of one. What a model does does not depend on its cohort-mates: its batches come from its own
seed, its losses and gradients from its own graphs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from diffpool import native
from diffpool.data import Fold, GraphDataset
from diffpool.errors import TrainingError
from diffpool.graphs import SparseGraphs
from diffpool.nn import GraphClassifier, Prediction, Standardise
from diffpool.segment import Layout
from diffpool.training.captured import CapturedSteps
from diffpool.training.cohort_batches import CohortBatches
from diffpool.training.config import Training
from diffpool.training.optimiser import Optimiser

State = dict[str, Tensor]


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
    seconds: float  # of the whole cohort


def train(
    model: GraphClassifier, dataset: GraphDataset, fold: Fold, config: Training
) -> Iterator[Epoch]:
    """Train on one split until the validation loss has not fallen for `patience` epochs.

    The model is on the device of the data set. When the iterator ends, or is closed, the model has the parameters of
    the best epoch.
    """
    cohort = Cohort(model, dataset, [fold], [config])
    try:
        while not cohort.finished:
            row = cohort.train_epoch()[0]
            assert row is not None
            yield row
    finally:
        cohort.restore_best()


class Cohort:
    """M models of one architecture in training, each on its own fold with its own settings."""

    def __init__(
        self,
        model: GraphClassifier,
        dataset: GraphDataset,
        folds: Sequence[Fold],
        configs: Sequence[Training],
    ):
        self.model, self.dataset = model, dataset
        self.folds, self.configs = list(folds), list(configs)
        self.batches = CohortBatches(dataset, model.clusters)
        self.optimiser = Optimiser(model, configs)
        self.weights = loss_weights(configs, dataset.x)
        # losses and right answers of each model in this epoch: on the device, read once an epoch
        self.sums = dataset.x.new_zeros(len(self), 3, dtype=torch.float64)
        self.captured: CapturedSteps | None = None
        if native.suits_triton(dataset.x) and not dataset.graphs.channels:
            most = max(min(len(f.train), c.batch_size) for f, c in zip(folds, configs, strict=True))
            self.captured = CapturedSteps(self.batches, self._step, len(self), most)
        self.epoch = 0
        self.best_loss = np.full(len(self), math.inf)
        self.best_epoch = np.zeros(len(self), np.int64)
        self.best: State = {name: t.clone() for name, t in model.state_dict().items()}

    def __len__(self) -> int:
        return len(self.folds)

    @property
    def active(self) -> list[bool]:
        """Which models go on: epochs are left, and the validation loss has fallen in the last `patience` of them."""
        return [
            self.epoch < config.epochs and self.epoch - best < config.patience
            for config, best in zip(self.configs, self.best_epoch.tolist(), strict=True)
        ]

    @property
    def finished(self) -> bool:
        return not any(self.active)

    def train_epoch(self) -> list[Epoch | None]:
        """One epoch of every model that goes on; the row of each, None for those that have stopped."""
        start = time.perf_counter()
        active = self.active
        nothing = np.empty(0, np.int64)
        self.epoch += 1
        orders = [
            np.random.default_rng([config.seed, self.epoch]).permutation(fold.train)
            if on
            else nothing
            for fold, config, on in zip(self.folds, self.configs, active, strict=True)
        ]
        losses, class_losses, accuracies = self._train(orders)
        scores = evaluate_cohort(
            self.model,
            self.batches,
            [
                fold.validation if on else nothing
                for fold, on in zip(self.folds, active, strict=True)
            ],
        )
        seconds = time.perf_counter() - start
        rows: list[Epoch | None] = []
        improved = []
        for m, on in enumerate(active):
            if not on:
                rows.append(None)
                continue
            for value in (losses[m], scores[m].loss):
                if not math.isfinite(value):
                    raise TrainingError(
                        f"the loss became {value} in epoch {self.epoch}{self._which(m)}: try a learning rate below "
                        f"{self.configs[m].learning_rate:g}, or look for huge values in the features"
                    )
            best = scores[m].loss < float(self.best_loss[m])
            if best:
                improved.append(m)
            rows.append(
                Epoch(
                    epoch=self.epoch,
                    train_loss=losses[m],
                    train_class_loss=class_losses[m],
                    train_accuracy=accuracies[m],
                    validation_loss=scores[m].loss,
                    validation_accuracy=scores[m].accuracy,
                    best=best,
                    seconds=seconds,
                )
            )
        self._keep(improved, [scores[m].loss for m in improved])
        return rows

    def _which(self, model: int) -> str:
        return "" if len(self) == 1 else f" of model {model + 1}"

    def _keep(self, models: list[int], losses: list[float]) -> None:
        if not models:
            return
        self.best_loss[models], self.best_epoch[models] = losses, self.epoch
        rows = torch.tensor(models, device=self.dataset.x.device)
        for name, tensor in self.model.state_dict().items():
            self.best[name][rows] = tensor[rows]

    def _train(
        self, orders: list[np.ndarray]
    ) -> tuple[list[float], list[float], list[float | None]]:
        self.model.train()
        self.sums.zero_()
        sizes = [c.batch_size for c in self.configs]
        if self.captured is not None:
            self.captured.epoch(orders, sizes)
        else:
            for batch in self.batches.batches(orders, sizes):
                self._step(batch.graphs, batch.plan, batch.x, batch.y, batch.real)
        sums = self.sums
        counts = np.array([max(len(order), 1) for order in orders])
        total, class_total, right = (sums.cpu().numpy() / counts[:, None]).T.tolist()
        return total, class_total, [None] * len(self) if self.dataset.regression else right

    def _step(
        self, graphs: SparseGraphs, plan: tuple[Layout, ...], x: Tensor, y: Tensor, real: Tensor
    ) -> None:
        """One step of every model; losses and right answers are added to `sums`."""
        prediction, loss = train_step(
            self.model, self.optimiser, graphs, plan, x, y, real, self.weights
        )
        self.sums += torch.cat([loss[:, None], _sums(prediction.logits.detach(), y, real)], 1)

    def restore_best(self) -> None:
        """Give every model the parameters of its best epoch."""
        self.model.load_state_dict(self.best)

    def state(self) -> State:
        """Everything that the run needs to go on later from here."""
        numbers = {
            "epoch": torch.tensor(self.epoch),
            "best_loss": torch.from_numpy(self.best_loss),
            "best_epoch": torch.from_numpy(self.best_epoch),
        }
        parts = {
            "run": numbers,
            "model": self.model.state_dict(),
            "best": self.best,
            "optimiser": self.optimiser.state(),
        }
        return {f"{part}.{name}": t for part, state in parts.items() for name, t in state.items()}

    def load_state(self, state: State) -> None:
        """Go on from a state."""

        def part(prefix: str) -> State:
            return {k.removeprefix(prefix): t for k, t in state.items() if k.startswith(prefix)}

        self.epoch = int(state["run.epoch"])
        self.best_loss = state["run.best_loss"].numpy().copy()
        self.best_epoch = state["run.best_epoch"].numpy().copy()
        self.model.load_state_dict(part("model."))
        self.optimiser.load_state(part("optimiser."))
        for name, tensor in part("best.").items():
            self.best[name].copy_(tensor)


def loss_weights(configs: Sequence[Training], like: Tensor) -> dict[str, Tensor | float]:
    """The weight of each named loss for each model: [M], or one number where all have the same."""
    weights: dict[str, Tensor | float] = {}
    for name in configs[0].loss_weights:
        values = [config.loss_weights[name] for config in configs]
        weights[name] = values[0] if len(set(values)) == 1 else like.new_tensor(values)
    return weights


def total_loss(prediction: Prediction, y: Tensor, weights: dict[str, Tensor | float]) -> Tensor:
    """The loss of the task plus the weighted auxiliary losses of every graph: [B].

    A weight is one number, or one for each of M models side by side: [M].
    """
    loss = task_loss(prediction.logits, y)
    for name, auxiliary in prediction.losses.items():
        weight = weights.get(name, 1.0)
        if isinstance(weight, Tensor):
            loss = loss + weight.repeat_interleave(len(loss) // len(weight)) * auxiliary
        elif weight:
            loss = loss + weight * auxiliary
    return loss


def task_loss(outputs: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy for classes [B], the mean squared error for targets [B, T]: [B]."""
    if y.is_floating_point():
        return (outputs - y).square().mean(-1)
    return F.cross_entropy(outputs, y, reduction="none")


def train_step(
    model: GraphClassifier,
    optimiser: Optimiser,
    graphs: SparseGraphs,
    plan: tuple[Layout, ...],
    x: Tensor,
    y: Tensor,
    real: Tensor,
    weights: dict[str, Tensor | float],
) -> tuple[Prediction, Tensor]:
    """One step of every model on the mean loss of its graphs; the prediction before it and the sum of losses: [M].

    The batch is that of a `CohortBatch`.
    """
    prediction = model(graphs, x, plan)
    loss = total_loss(prediction, y, weights)
    if len(real) == 1 and graphs.layout.complete:
        optimiser.step(loss.mean())
        return prediction, loss.detach().sum()[None]
    sums = torch.where(real, loss.view(real.shape), 0).sum(1)  # [M]
    counts = real.sum(1)
    optimiser.step((sums / counts.clamp(min=1)).sum(), counts > 0)
    return prediction, sums.detach()


def _sums(outputs: Tensor, y: Tensor, real: Tensor) -> Tensor:
    """The loss of the task, and the number of right answers (0 for regression), over each model's graphs: [M, 2]."""
    loss = task_loss(outputs, y)
    right = torch.zeros_like(loss) if y.is_floating_point() else (outputs.argmax(-1) == y).to(loss)
    both = torch.stack([loss, right], -1).view(*real.shape, 2)
    return torch.where(real[..., None], both, 0).sum(1)


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
        sums += _sums(model(batch.graphs, batch.x, batch.plan).logits, batch.y, batch.real)
    regression = batches.y.is_floating_point()
    scores = []
    for own, (loss, right) in zip(graphs, sums.tolist(), strict=True):
        count = max(len(own), 1)
        scores.append(Scores(loss / count, None if regression else right / count))
    return scores


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
