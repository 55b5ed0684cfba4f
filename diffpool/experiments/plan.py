"""The plan of an evaluation: its folds, the models to train for them, and the result of each model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from diffpool.baselines.prepare import Watch, prepare, resolved, wanted
from diffpool.data import Fold, GraphDataset, read_folds, stratified_folds
from diffpool.errors import SettingError
from diffpool.experiments.methods import Method, with_settings
from diffpool.training.ensemble import member_fold

FOLDS = 10

# The index of a stage is the first number of the seeds derived for it: the order must not change.
STAGES = ("folds", "fold", "point", "final", "hold-out", "inner", "member")

FoldIndex = tuple[int, int]  # repeat, fold
GivenFolds = str | Path | Sequence[Fold] | None


def derived_seed(seed: int, stage: str, *indices: int) -> int:
    """The seed of one part of a run; it depends on these arguments only."""
    key = (STAGES.index(stage), *indices)
    return int(np.random.SeedSequence(seed, spawn_key=key).generate_state(1)[0])


def fold_indices(folds: Sequence[Sequence[Fold]]) -> list[FoldIndex]:
    """(repeat, fold) of every fold, in the order of the records."""
    return [(r, f) for r, repeat in enumerate(folds) for f in range(len(repeat))]


@dataclass(frozen=True, eq=False)
class Plan:
    """A method, before any choice of settings, and the folds to evaluate it on."""

    method: Method
    seed: int
    y: np.ndarray = field(repr=False)
    folds: tuple[tuple[Fold, ...], ...]  # of each repeat
    keep_models: bool = False  # those of the final runs: `tune` saves them
    same_targets: bool = (
        False  # the training graphs of the fold scale the targets of all its models
    )

    @property
    def averaged(self) -> bool:
        """Whether the result of a fold is the mean of its models; `tune` treats one model as an ensemble of one."""
        return self.keep_models or self.method.training.ensemble > 1

    def fold_indices(self) -> list[FoldIndex]:
        return fold_indices(self.folds)


@dataclass(frozen=True, eq=False)
class Task:
    """One model to train. Its split has test graphs only if its test accuracy is reported."""

    name: str  # unique within the run; also names its result in a checkpoint
    method: Method
    split: Fold
    may_fail: bool = False  # a loss of NaN is the result of this model, not an error of the run
    keep_outputs: bool = False  # for test graphs, or else for validation graphs: they are averaged
    keep_model: bool = False  # its parameters
    target_fold: Fold | None = (
        None  # its training graphs scale the targets; by default those of the split
    )


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The outputs of a model for its test graphs, or for its validation graphs."""

    y: np.ndarray  # true classes [B] or targets [B, T]
    outputs: np.ndarray  # class probabilities [B, K] or predicted targets [B, T]


@dataclass(frozen=True)
class Trained:
    """The result of a trained model."""

    epoch: int  # the best one, with the lowest validation loss
    validation_loss: float  # in that epoch
    validation_accuracy: float  # in that epoch; NaN for regression, here and below
    curve: tuple[float, ...]  # validation accuracy after every epoch
    test_accuracy: float | None
    parameters: int
    graphs: int  # training graphs seen, summed over epochs
    seconds: float  # its share of the time of all models trained side by side
    test_metrics: dict[str, Any] | None = None  # MAE, RMSE and R², or `class_scores`
    failed: bool = False  # the loss became infinite or NaN: there is no result
    stopped: bool = False  # by `Cohort.stop`: others were better, or the time was over
    held_out: HeldOut | None = None  # if the task keeps its outputs
    state: dict[str, np.ndarray] | None = (
        None  # parameters and statistics, if the task keeps its model
    )

    @property
    def skipped(self) -> bool:
        """Whether it was not trained at all: a search ran out of time."""
        return self.parameters == 0


Results = Mapping[str, Trained]  # by the names of the tasks


@dataclass(frozen=True, eq=False)
class FoldScore:
    """The accuracy on a fold (0 to 1; None for regression), and the models it was measured with."""

    repeat: int
    fold: int
    accuracy: float | None
    epoch: int
    task: Task  # its settings are recorded
    results: tuple[Trained, ...]  # of all models trained for this fold
    details: dict[str, Any]


def prepared(
    method: Method, dataset: GraphDataset, watch: Watch = lambda share: None
) -> tuple[Method, GraphDataset]:
    """The method with the settings that depend on the data set, and the data set with precomputed structures.

    `watch` is called with the share of the structures computed so far. If both are prepared already, they are returned
    at once.
    """
    architecture = resolved(method.architecture, dataset.sizes)
    method = replace(method, architecture=architecture)
    if not architecture.wants_preparation:
        return method, dataset
    dataset = dataset.in_memory()  # also its structures would not fit otherwise
    return method, replace(dataset, graphs=prepare(architecture, dataset.graphs, watch=watch))


def check_points(
    method: Method, dataset: GraphDataset, points: Sequence[Mapping[str, Any]]
) -> None:
    """Raise an error if a point needs other precomputed structures: they are computed once per run."""
    for point in points:
        other = with_settings(method, point).architecture
        if wanted(other, dataset.largest) != wanted(method.architecture, dataset.largest):
            raise SettingError(
                f"the grid must not change what {method.name} precomputes, got {dict(point)}: "
                "start a separate run for each of these settings"
            )


def make_plan(
    method: Method,
    dataset: GraphDataset,
    repeats: int = 1,
    seed: int = 0,
    folds: GivenFolds = None,
) -> Plan:
    """The plan for a data set; see `make_folds`. For regression, folds are random."""
    y = dataset.y.cpu().numpy()
    if dataset.regression:
        y = np.zeros(len(dataset), np.int64)
    return Plan(method, seed, y, make_folds(y, repeats, seed, folds))


def make_folds(
    y: np.ndarray, repeats: int, seed: int, folds: GivenFolds
) -> tuple[tuple[Fold, ...], ...]:
    """The folds of every repeat: the given ones (a file, or folds), or new stratified ones for each repeat."""
    if isinstance(folds, str | Path):
        folds = read_folds(folds, len(y), FOLDS)
    if folds is not None:
        return (tuple(folds),) * repeats
    seeds = [derived_seed(seed, "folds", repeat) for repeat in range(repeats)]
    return tuple(tuple(stratified_folds(y, repeat_seed, FOLDS)) for repeat_seed in seeds)


def make_task(
    plan: Plan,
    repeat: int,
    fold: int,
    stage: str,
    number: int,
    split: Fold,
    changes: Mapping[str, Any] | None = None,
) -> Task:
    """The model with this number in a stage of a fold, with its own seed."""
    seed = derived_seed(plan.seed, stage, repeat, fold, number)
    method = with_settings(plan.method, {**(changes or {}), "seed": seed})
    name = f"repeat {repeat}, fold {fold}" + ("" if stage == "fold" else f", {stage} {number}")
    return Task(
        name,
        method,
        split,
        may_fail=stage == "point",
        keep_outputs=plan.averaged,
        keep_model=plan.keep_models and stage != "point",
        target_fold=plan.folds[repeat][fold] if plan.same_targets else None,
    )


def member_tasks(
    plan: Plan,
    repeat: int,
    fold: int,
    stage: str,
    changes: Sequence[Mapping[str, Any]] | None = None,
    on_all: bool = False,
) -> list[Task]:
    """The members of the ensemble of a fold, each with its own validation graphs, and with its own `changes`.

    `on_all`: the test graphs are among its training and validation graphs.
    """
    tasks, outer = [], plan.folds[repeat][fold]
    if on_all:
        outer = Fold(np.union1d(outer.train, outer.test), outer.validation, outer.test[:0])
    for number in range(plan.method.training.ensemble):
        seed = derived_seed(plan.seed, "hold-out", repeat, fold, number)
        split = member_fold(outer, plan.y, seed)
        settings = changes[number] if changes else None
        tasks.append(make_task(plan, repeat, fold, stage, number, split, settings))
    return tasks
