"""The training loop, for M models side by side: it yields a row of every model each epoch and leaves each at its best.

A single model is a cohort of one. What a model does does not depend on its cohort-mates: its batches come from its own
seed, its losses and gradients from its own graphs. Models that have stopped leave the program before they cost much.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from diffpool.data import Fold, GraphDataset
from diffpool.errors import TrainingError
from diffpool.nn import GraphClassifier, Standardize, check_models, take
from diffpool.training.cohort_batches import CohortBatches
from diffpool.training.running import RunningModels
from diffpool.training.scores import Scores
from diffpool.training.settings import Training

State = dict[str, Tensor]
NO_GRAPHS = np.empty(0, np.int64)


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
    """M models of one architecture in training, each on its own fold with its own settings.

    `model` has all M of them, and their best parameters after `restore_best`. `running` has those that are in training:
    first all of them, in `model` itself; whenever half of those in it have stopped, the others move to a smaller copy,
    so that no step pays for the stopped ones. Modules of one's own keep to the convention of `nn/side_by_side.py`.
    """

    def __init__(
        self,
        model: GraphClassifier,
        dataset: GraphDataset,
        folds: Sequence[Fold],
        configs: Sequence[Training],
    ):
        check_models(model, len(folds))
        self.model, self.dataset = model, dataset
        self.folds, self.configs = list(folds), list(configs)
        self.batches = CohortBatches(dataset, model.clusters)
        self.running = self._run(model, range(len(self)))
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
        self._leave_out_stopped(active)
        self.epoch += 1
        members = self.running.members
        means = self.running.train([self._order(m) if active[m] else NO_GRAPHS for m in members])
        scores = self.running.evaluate(
            [self.folds[m].validation if active[m] else NO_GRAPHS for m in members]
        )
        seconds = time.perf_counter() - start
        rows: list[Epoch | None] = [None] * len(self)
        for m, own_means, own_scores in zip(members, means.tolist(), scores, strict=True):
            if active[m]:
                rows[m] = self._row(m, own_means, own_scores, seconds)
        self._keep_best(rows)
        return rows

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
            best=scores.loss < float(self.best_loss[model]),
            seconds=seconds,
        )

    def _keep_best(self, rows: Sequence[Epoch | None]) -> None:
        """Keep the parameters of the models that are better than ever before."""
        improved = []
        for m, row in enumerate(rows):
            if row is not None and row.best:
                improved.append(m)
                self.best_loss[m], self.best_epoch[m] = row.validation_loss, row.epoch
        if not improved:
            return
        places = [self.running.members.index(m) for m in improved]
        device = self.dataset.x.device
        to, of = torch.tensor(improved, device=device), torch.tensor(places, device=device)
        for name, tensor in self.running.model.state_dict().items():
            if len(self) == 1:  # which may have no leading axis
                self.best[name].copy_(tensor)
            else:
                self.best[name][to] = tensor[of]

    def _leave_out_stopped(self, active: Sequence[bool]) -> None:
        """Go on with the active models alone if they are at most half of those that run.

        A model moves at most log2 M times. When it does depends on the state alone: an interrupted run does the same.
        """
        before = self.running
        places = [place for place, m in enumerate(before.members) if active[m]]
        if not places or 2 * len(places) > len(before.members):
            return
        before.captured = None  # it and `before` refer to each other: its memory is needed now
        self.running = self._run(
            take(before.model, places), [before.members[place] for place in places]
        )
        state = before.optimizer.state().items()
        self.running.optimizer.load_state({name: tensor[places] for name, tensor in state})

    def _run(self, model: GraphClassifier, members: Sequence[int]) -> RunningModels:
        return RunningModels(model, members, self.dataset, self.batches, self.folds, self.configs)

    def restore_best(self) -> None:
        """Give every model the parameters of its best epoch."""
        self.model.load_state_dict(self.best)

    def state(self) -> State:
        """Everything that the run needs to go on later from here."""
        numbers = {
            "epoch": torch.tensor(self.epoch),
            "best_loss": torch.from_numpy(self.best_loss),
            "best_epoch": torch.from_numpy(self.best_epoch),
            "members": torch.tensor(self.running.members),
        }
        parts = {
            "run": numbers,
            "model": self.running.model.state_dict(),
            "best": self.best,
            "optimizer": self.running.optimizer.state(),
        }
        return {f"{part}.{name}": t for part, state in parts.items() for name, t in state.items()}

    def load_state(self, state: State) -> None:
        """Go on from a state."""

        def part(prefix: str) -> State:
            return {k.removeprefix(prefix): t for k, t in state.items() if k.startswith(prefix)}

        self.epoch = int(state["run.epoch"])
        self.best_loss = state["run.best_loss"].numpy().copy()
        self.best_epoch = state["run.best_epoch"].numpy().copy()
        members = state["run.members"].tolist()
        if members != self.running.members:
            all_of_them = len(members) == len(self)
            self.running = self._run(
                self.model if all_of_them else take(self.model, members), members
            )
        self.running.model.load_state_dict(part("model."))
        self.running.optimizer.load_state(part("optimizer."))
        for name, tensor in part("best.").items():
            self.best[name].copy_(tensor)


def fit_inputs(
    model: GraphClassifier, dataset: GraphDataset, graphs: np.ndarray, number: int = 0
) -> None:
    """Let the model standardize the columns that ask for it by the nodes of these graphs, its training part.

    `number`: of the model, among several side by side.
    """
    if dataset.feature_map is None or not isinstance(model.inputs, Standardize):
        return
    _, nodes = dataset.graphs.select(graphs)
    columns = torch.from_numpy(dataset.feature_map.standardized).to(nodes.device)
    model.inputs.fit(dataset.x[nodes], columns, number)
