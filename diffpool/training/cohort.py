"""The training loop, for M models side by side: one row of metrics per model and epoch, then the best parameters.

A single model is a cohort of one. Every model is identical to one trained on its own: its batches come from its own
seed, its losses and gradients from its own graphs. Models that have stopped early are dropped from the computation.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from diffpool.data import Fold, GraphDataset, as_raw
from diffpool.errors import SettingError, TrainingError
from diffpool.graphs import SparseGraphs
from diffpool.layout import Layout
from diffpool.nn import GraphClassifier, Random, Standardize, check_models, take
from diffpool.training.callbacks import Callback, call_all
from diffpool.training.cohort_batches import CohortBatches
from diffpool.training.distributed import Processes, SharedSteps, work
from diffpool.training.loss_targets import LossTargets
from diffpool.training.memory import models_fit
from diffpool.training.optimizer import Optimizer
from diffpool.training.scores import Scorer, Scores, score_sums
from diffpool.training.settings import Training
from diffpool.training.step import Stepper, loss_weights, make_stepper, train_step

State = dict[str, Tensor]
NO_GRAPHS = np.empty(0, np.int64)
FITTED = 25_000  # graphs in memory at a time, to standardize their features


@dataclass(frozen=True)
class Epoch:
    """Metrics of one model after one epoch: losses averaged over graphs, accuracies from 0 to 1.

    For an ensemble, the means over the members that are still in training.
    """

    epoch: int
    train_loss: float  # with the auxiliary losses
    train_class_loss: float  # without them
    train_accuracy: float | None  # None for regression, here and below
    validation_loss: float  # without the auxiliary losses
    validation_accuracy: float | None
    best: bool  # the best so far, by `Training.monitor`; for an ensemble, of any member
    learning_rate: float
    seconds: float  # for all models side by side


def train(
    model: GraphClassifier,
    dataset: GraphDataset | Any,
    fold: Fold,
    config: Training,
    callbacks: Sequence[Callback] = (),
    processes: Processes | None = None,
) -> Iterator[Epoch]:
    """Train on one split until the validation score has not improved for `patience` epochs.

    `dataset` may also be graphs in any format that `as_raw` accepts, such as a data set or `DataLoader` of PyTorch
    Geometric; they become `GraphDataset.from_raw(as_raw(graphs))`, on the device of the model.

    Each of `callbacks` is called with the row of every epoch and may raise `StopTraining`. The model and the data set
    are on the same device. When the iterator ends or is closed, the model has the parameters of its best epoch.

    With `processes`, they train this model together: all of them call `train` with the same data set, fold and
    settings. The parameters at the start are those of the first process, and its callbacks decide when to stop.
    """
    if config.ensemble > 1:
        raise SettingError(
            f"train trains one model, got ensemble={config.ensemble}: use diffpool.experiments.fit for an ensemble"
        )
    if not isinstance(dataset, GraphDataset):
        device = next(model.parameters()).device
        dataset = GraphDataset.from_raw(as_raw(dataset)).to(device)
    cohort = Cohort(model, dataset, [fold], [config], processes=processes)
    try:
        stop = False
        while not stop and not cohort.finished:
            row = cohort.train_epoch()[0]
            assert row is not None
            stop = call_all(callbacks, row)
            if processes is not None:
                stop = processes.from_leader(stop)
            yield row
    finally:
        cohort.restore_best()


class Cohort:
    """Trains M models of one architecture side by side, each on its own fold with its own settings.

    `model` contains all M models, with their best parameters after `restore_best`. `in_training` contains the models
    `members`: at first all of them (it is `model` itself); when half of them have stopped, the others move to a
    smaller copy, so that stopped models cost nothing. `target_folds`, one for each model: scale its targets to
    mean 0 and sd 1 on the training graphs of this fold. Custom modules follow the convention of `nn/side_by_side.py`.
    `processes`: train data-parallel; every process has a cohort with the same arguments.

    Attributes:
        epoch, seconds: epochs trained so far, and their time.
        best, best_loss, best_epoch: parameters, validation loss and number of the best epoch of each model.
        curves: validation loss and accuracy (NaN for regression) of each model after each of its epochs.
        stopped: models that were stopped by `stop`.
        failed: with `may_fail`, the models whose loss became infinite or NaN. They stop, and the others continue.
            Without `may_fail`, such a loss raises a TrainingError.
        mean_accuracies: mean validation accuracy over the models after each epoch; a stopped model counts
            with its last accuracy.
    """

    def __init__(
        self,
        model: GraphClassifier,
        dataset: GraphDataset,
        folds: Sequence[Fold],
        configs: Sequence[Training],
        target_folds: Sequence[Fold] | None = None,
        may_fail: bool = False,
        processes: Processes | None = None,
    ):
        check_models(model, len(folds))
        if dataset.regression and any(config.monitor == "accuracy" for config in configs):
            raise SettingError(
                f"monitor=accuracy needs classes, but {dataset.name} has regression targets: use monitor=loss"
            )
        self.processes = processes
        if processes is not None:
            processes.check(dataset, folds, configs)
            processes.share(model)
            self.work_of_graphs = work(dataset)
        self.may_fail = may_fail
        self.failed: set[int] = set()
        self.stopped: set[int] = set()
        self.model, self.dataset = model, dataset
        self.folds, self.configs = list(folds), list(configs)
        self.batches = CohortBatches(dataset, model.clusters)
        self.target_folds = target_folds
        self._set_members(model, range(len(self)))
        self.epoch, self.seconds = 0, 0.0
        self.best_loss = np.full(len(self), math.inf)
        self.best_epoch = np.zeros(len(self), np.int64)
        self.best: State = {name: t.clone() for name, t in model.state_dict().items()}
        self.curves: list[list[tuple[float, float]]] = [[] for _ in folds]
        self.mean_accuracies: list[float] = []

    def __len__(self) -> int:
        return len(self.folds)

    def _set_members(self, model: GraphClassifier, members: Sequence[int]) -> None:
        """Train these models of the cohort from now on; `model` contains them and no others."""
        self.in_training, self.members = model, list(members)
        folds, configs = [self.folds[m] for m in members], [self.configs[m] for m in members]
        models = len(configs)
        self.optimizer = Optimizer(model, configs)
        self.loss_weights = loss_weights(configs, self.batches.x)
        targets = self.target_folds and [self.target_folds[m] for m in members]
        self.loss_targets = LossTargets.for_training(self.dataset, folds, configs, targets)
        seeds, rates = [c.seed for c in configs], [c.dropout for c in configs]
        self.random = Random(seeds, self.optimizer.steps, rates)
        # Sums over an epoch of both losses and of correct predictions: on the device, read once per epoch.
        self.sums = self.batches.x.new_zeros(models, 3, dtype=torch.float64)
        sizes = [min(len(f.train), c.batch_size) for f, c in zip(folds, configs, strict=True)]
        if self.processes is None:
            self.scorer = Scorer(model, self.batches, models, loss_targets=self.loss_targets)
            self.stepper: Stepper = make_stepper(self.batches, self.step, models, max(sizes))
        else:
            across = configs[0].batch_statistics == "synchronized"
            shared = partial(
                SharedSteps, self.batches, model, self.processes, self.work_of_graphs, across
            )
            self.scorer = Scorer(
                model, self.batches, models, loss_targets=self.loss_targets, shared=shared
            )
            self.stepper = shared(self.step, self.random)

    @property
    def active(self) -> list[bool]:
        """Which models continue: epochs remain, and the last `patience` epochs contain the best one so far."""
        return [
            m not in self.failed | self.stopped
            and self.epoch < config.epochs
            and self.epoch - best < config.patience
            for m, (config, best) in enumerate(
                zip(self.configs, self.best_epoch.tolist(), strict=True)
            )
        ]

    @property
    def finished(self) -> bool:
        return not any(self.active)

    def standing(self, models: Sequence[int]) -> tuple[float, float]:
        """The mean best score of these models, for comparisons: lower is better, and the first number decides."""
        accuracies = [
            self.curves[m][self.best_epoch[m] - 1][1]
            for m in models
            if self.configs[m].monitor == "accuracy" and self.best_epoch[m]
        ]
        return (-fmean(accuracies) if accuracies else 0.0), float(self.best_loss[models].mean())

    def stop(self, models: Iterable[int]) -> None:
        """Stop training these models; each keeps the parameters of its best epoch."""
        self.stopped.update(models)

    def train_epoch(self) -> list[Epoch | None]:
        """Train every active model for one epoch. Returns a row of metrics per model, None for stopped models.

        A TrainingError without a model means that there is not enough memory for this many models.
        """
        start = time.perf_counter()
        active = self.active
        self._drop_stopped(active)
        self.epoch += 1
        orders = [self._order(m) if active[m] else NO_GRAPHS for m in self.members]
        validation = [self.folds[m].validation if active[m] else NO_GRAPHS for m in self.members]
        with models_fit(len(self.members)):
            means = self.train_on(orders)
            scores = self.scorer(validation)
        seconds = time.perf_counter() - start
        rows: list[Epoch | None] = [None] * len(self)
        for m, model_means, model_scores in zip(self.members, means.tolist(), scores, strict=True):
            if active[m]:
                try:
                    rows[m] = self._row(m, model_means, model_scores, seconds)
                except TrainingError:
                    if not self.may_fail:
                        raise
                    self.failed.add(m)
        self._keep_best(rows)
        self._extend_curves(rows)
        self.seconds += seconds
        return rows

    def train_on(self, orders: Sequence[np.ndarray]) -> np.ndarray:
        """Train each of `members` on its graphs in this order; a model without graphs does not change.

        Returns for each model the mean loss with and without the auxiliary losses, and the accuracy: [M, 3].
        """
        self.in_training.train()
        self.sums.zero_()
        self.stepper.epoch(orders, [self.configs[m].batch_size for m in self.members])
        counts = np.array([max(len(order), 1) for order in orders])
        if self.processes is not None:
            self.processes.add(self.sums)
            if self.configs[0].batch_statistics == "shard":
                self.processes.average_statistics(self.in_training)
        return self.sums.cpu().numpy() / counts[:, None]

    def step(
        self, graphs: SparseGraphs, plan: tuple[Layout, ...], x: Tensor, y: Tensor, real: Tensor
    ) -> None:
        """One training step on the parts of a `CohortBatch`; losses and correct predictions are added to `sums`."""
        model, optimizer = self.in_training, self.optimizer
        y, weights = self.loss_targets(y, len(real))
        add = None if self.processes is None else self.processes.add
        parts, more = (graphs, plan, x, y, real), (self.loss_weights, self.random, weights, add)
        prediction, loss = train_step(model, optimizer, *parts, *more)
        sums = score_sums(prediction.logits.detach(), y, real, weights)
        self.sums += torch.cat([loss[:, None], sums], 1)

    def _order(self, model: int) -> np.ndarray:
        """The training graphs of a model in the order of this epoch."""
        rng = np.random.default_rng([self.configs[model].seed, self.epoch])
        return rng.permutation(self.folds[model].train)

    def _row(self, model: int, means: list[float], scores: Scores, seconds: float) -> Epoch:
        loss, class_loss, accuracy = means
        for value in (loss, scores.loss):
            if not math.isfinite(value):
                which = "" if len(self) == 1 else f" of model {model + 1}"
                raise TrainingError(
                    f"the loss became {value} in epoch {self.epoch}{which}: try a learning rate below "
                    f"{self.configs[model].learning_rate:g}, or look for huge values in the features",
                    model,
                )
        return Epoch(
            epoch=self.epoch,
            train_loss=loss,
            train_class_loss=class_loss,
            train_accuracy=None if self.dataset.regression else accuracy,
            validation_loss=scores.loss,
            validation_accuracy=scores.accuracy,
            best=self._improves(model, scores),
            learning_rate=self.configs[model].learning_rate,
            seconds=seconds,
        )

    def _improves(self, model: int, scores: Scores) -> bool:
        """Whether a model is better than after all its earlier epochs."""
        best = int(self.best_epoch[model])
        if best and self.configs[model].monitor == "accuracy":
            accuracy = self.curves[model][best - 1][1]
            if scores.accuracy != accuracy:
                return scores.accuracy is not None and scores.accuracy > accuracy
        return scores.loss < float(self.best_loss[model])

    def _keep_best(self, rows: Sequence[Epoch | None]) -> None:
        """Copy the parameters of the models for which this epoch was the best so far."""
        improved = []
        for m, row in enumerate(rows):
            if row is not None and row.best:
                improved.append(m)
                self.best_loss[m], self.best_epoch[m] = row.validation_loss, row.epoch
        if not improved:
            return
        device = self.dataset.device
        target = torch.tensor(improved, device=device)
        source = torch.tensor([self.members.index(m) for m in improved], device=device)
        for name, tensor in self.in_training.state_dict().items():
            if len(self) == 1:  # its tensors may lack the leading axis of the models
                self.best[name].copy_(tensor)
            else:
                self.best[name][target] = tensor[source]

    def _extend_curves(self, rows: Sequence[Epoch | None]) -> None:
        for row, curve in zip(rows, self.curves, strict=True):
            if row is not None:
                accuracy = row.validation_accuracy
                curve.append((row.validation_loss, math.nan if accuracy is None else accuracy))
        last = [curve[-1][1] for curve in self.curves if curve]
        self.mean_accuracies.append(fmean(last) if last else 0.0)

    def _drop_stopped(self, active: Sequence[bool]) -> None:
        """Continue with the active models only, if they are at most half of the members.

        A model moves at most log2 M times. When it moves depends only on the state, so a resumed run does the same.
        """
        kept = [index for index, m in enumerate(self.members) if active[m]]
        if not kept or 2 * len(kept) > len(self.members):
            return
        state = {name: tensor[kept] for name, tensor in self.optimizer.state().items()}
        del self.stepper  # frees the memory of captured steps, which is needed now
        self._set_members(take(self.in_training, kept), [self.members[index] for index in kept])
        self.optimizer.load_state(state)

    def restore_best(self) -> None:
        """Load the parameters of the best epoch of every model into `model`."""
        self.model.load_state_dict(self.best)

    def state(self) -> State:
        """All tensors that `load_state` needs to continue from here."""
        numbers = {
            "epoch": torch.tensor(self.epoch),
            "seconds": torch.tensor(self.seconds, dtype=torch.float64),
            "best_loss": torch.from_numpy(self.best_loss),
            "best_epoch": torch.from_numpy(self.best_epoch),
            "members": torch.tensor(self.members),
            "failed": torch.tensor(sorted(self.failed), dtype=torch.int64),
            "stopped": torch.tensor(sorted(self.stopped), dtype=torch.int64),
        }
        curves = [torch.tensor(c, dtype=torch.float64).reshape(-1, 2) for c in self.curves]
        parts = {
            "run": numbers,
            "curve": {str(m): curve for m, curve in enumerate(curves)},
            "model": self.in_training.state_dict(),
            "best": self.best,
            "optimizer": self.optimizer.state(),
        }
        return {f"{part}.{name}": t for part, state in parts.items() for name, t in state.items()}

    def load_state(self, state: State) -> None:
        """Continue from a state."""

        def part(prefix: str) -> State:
            return {k.removeprefix(prefix): t for k, t in state.items() if k.startswith(prefix)}

        self.epoch, self.seconds = int(state["run.epoch"]), float(state["run.seconds"])
        self.best_loss = state["run.best_loss"].numpy().copy()
        self.best_epoch = state["run.best_epoch"].numpy().copy()
        curves = [state[f"curve.{m}"].tolist() for m in range(len(self))]
        self.curves = [[(loss, accuracy) for loss, accuracy in curve] for curve in curves]
        self.failed = set(state["run.failed"].tolist()) if "run.failed" in state else set()
        self.stopped = set(state["run.stopped"].tolist()) if "run.stopped" in state else set()
        curves_so_far = [curve for curve in self.curves if curve]
        self.mean_accuracies = [
            fmean(curve[min(epoch, len(curve) - 1)][1] for curve in curves_so_far)
            if curves_so_far
            else 0.0
            for epoch in range(self.epoch)
        ]
        members = state["run.members"].tolist()
        if members != self.members:
            complete = len(members) == len(self)
            self._set_members(self.model if complete else take(self.model, members), members)
        self.in_training.load_state_dict(part("model."))
        self.optimizer.load_state(part("optimizer."))
        for name, tensor in part("best.").items():
            self.best[name].copy_(tensor)


def fit_inputs(
    model: GraphClassifier, dataset: GraphDataset, graphs: np.ndarray, index: int = 0
) -> None:
    """Fit the standardization of input columns to the nodes of these graphs, the training part.

    `index` selects one of the M models.
    """
    if dataset.feature_map is None or not isinstance(model.inputs, Standardize):
        return
    columns = torch.from_numpy(dataset.feature_map.standardized).to(dataset.device)
    if not bool(columns.any()):
        return
    starts = range(0, len(graphs), FITTED)
    parts = (dataset.node_features(graphs[start : start + FITTED]) for start in starts)
    model.inputs.fit_parts(parts, columns, index)
