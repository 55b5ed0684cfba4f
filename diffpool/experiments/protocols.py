"""Protocols: named ways to measure accuracy. docs/protocols.md compares them; never mix two of them in one table.

A protocol for neural networks is a pure function: given the plan of a run and the models trained so far, it returns the
models to train, and the accuracy of each fold whose models are trained. `NetworkRun` does the training and recording.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar

import numpy as np

from diffpool.data import Fold, hold_out
from diffpool.errors import SettingError, TrainingError, did_you_mean
from diffpool.experiments.grid import DEFAULT_GRID, Grid, parse_grid, points
from diffpool.experiments.methods import Method, with_settings
from diffpool.experiments.plan import (
    FOLDS,
    FoldScore,
    Plan,
    Results,
    Task,
    Trained,
    derived_seed,
    make_task,
    member_tasks,
)
from diffpool.experiments.protocol_names import KERNEL_PROTOCOL_SUMMARIES, PROTOCOL_SUMMARIES
from diffpool.training.ensemble import ensemble_scores, mean_outputs
from diffpool.training.metrics import class_scores, regression_metrics


@dataclass(frozen=True)
class Paper:
    """Report the epoch with the best mean held-out accuracy over the folds: no test set, no early stopping."""

    name: ClassVar[str] = "paper"
    summary: ClassVar[str] = PROTOCOL_SUMMARIES["paper"]

    def models(self, plan: Plan) -> int:
        return len(plan.fold_indices())

    def tasks(self, plan: Plan, done: Results) -> list[Task]:
        tasks = []
        none = np.empty(0, np.int64)
        for repeat, number in plan.fold_indices():
            fold = plan.folds[repeat][number]
            held_out = Fold(np.union1d(fold.train, fold.validation), fold.test, none)
            to_the_end = {"patience": plan.method.training.epochs}
            tasks.append(make_task(plan, repeat, number, "fold", 0, held_out, to_the_end))
        return tasks

    def scores(self, plan: Plan, done: Results) -> list[FoldScore]:
        tasks = self.tasks(plan, done)
        scores = []
        for repeat, folds in enumerate(plan.folds):
            own, tasks = tasks[: len(folds)], tasks[len(folds) :]
            if not all(task.name in done for task in own):
                continue
            curves = np.array([done[task.name].curve for task in own])  # [folds, epochs]
            best = int(curves.mean(0).argmax())
            for fold, (task, curve) in enumerate(zip(own, curves.tolist(), strict=True)):
                details = {"own_best_accuracy": 100 * max(curve)}
                details["own_best_epoch"] = curve.index(max(curve)) + 1
                result = (done[task.name],)
                scores.append(FoldScore(repeat, fold, curve[best], best + 1, task, result, details))
        return scores


@dataclass(frozen=True)
class Tenfold:
    """Choose the epoch by the loss on a tenth of the training part; report the accuracy on the test fold."""

    name: ClassVar[str] = "tenfold"
    summary: ClassVar[str] = PROTOCOL_SUMMARIES["tenfold"]

    def models(self, plan: Plan) -> int:
        return len(plan.fold_indices()) * plan.method.training.ensemble

    def tasks(self, plan: Plan, done: Results) -> list[Task]:
        return [task for r, f in plan.fold_indices() for task in self._members(plan, r, f)]

    def _members(self, plan: Plan, repeat: int, fold: int) -> list[Task]:
        if plan.method.training.ensemble > 1:
            return member_tasks(plan, repeat, fold, "member")
        return [make_task(plan, repeat, fold, "fold", 0, plan.folds[repeat][fold])]

    def scores(self, plan: Plan, done: Results) -> list[FoldScore]:
        scores = []
        for repeat, fold in plan.fold_indices():
            tasks = self._members(plan, repeat, fold)
            if not all(task.name in done for task in tasks):
                continue
            results = tuple(done[task.name] for task in tasks)
            if len(tasks) > 1:
                scores.append(ensemble_score(repeat, fold, tasks, results))
                continue
            accuracy, epoch = results[0].test_accuracy, results[0].epoch
            details = {"metrics": results[0].test_metrics} if accuracy is None else _scores(results)
            scores.append(FoldScore(repeat, fold, accuracy, epoch, tasks[0], results, details))
        return scores


@dataclass(frozen=True)
class Nested:
    """Errica et al. (2020): choose the settings on an inner hold-out; report the mean test accuracy of three runs.

    With an ensemble, its members replace the three runs, and the accuracy is that of the ensemble.
    """

    name: ClassVar[str] = "nested"
    summary: ClassVar[str] = PROTOCOL_SUMMARIES["nested"]

    grid: Grid = DEFAULT_GRID
    final_runs: int = 3

    def models(self, plan: Plan) -> int:
        return len(plan.fold_indices()) * (len(points(self.grid)) + self._num_final(plan))

    def _num_final(self, plan: Plan) -> int:
        members = plan.method.training.ensemble
        return members if members > 1 else self.final_runs

    def tasks(self, plan: Plan, done: Results) -> list[Task]:
        """The models of the selection; once all of them are trained, also those of the final runs."""
        selection = [t for r, f in plan.fold_indices() for t in self._selection(plan, r, f)]
        if not all(task.name in done for task in selection):
            return selection
        final = [t for r, f in plan.fold_indices() for t in self._final(plan, done, r, f)]
        return selection + final

    def scores(self, plan: Plan, done: Results) -> list[FoldScore]:
        scores = []
        selected = {task.name for task in self.tasks(plan, {})} <= done.keys()
        for repeat, fold in plan.fold_indices() if selected else ():
            selection = self._selection(plan, repeat, fold)
            final = self._final(plan, done, repeat, fold)
            if not all(task.name in done for task in final):
                continue
            best = self._best(selection, done)
            results = [done[task.name] for task in final]
            chosen = done[selection[best].name]
            details: dict[str, Any] = {
                "chosen": points(self.grid)[best],
                "points": len(selection),
                "failed": [
                    point
                    for task, point in zip(selection, points(self.grid), strict=True)
                    if done[task.name].failed
                ],
                "validation_accuracy": 100 * chosen.validation_accuracy,
            }
            trained = tuple(done[task.name] for task in selection)
            if plan.method.training.ensemble > 1:
                score = ensemble_score(repeat, fold, final, results)
                scores.append(
                    replace(score, results=trained + score.results, details=details | score.details)
                )
                continue
            accuracies = [r.test_accuracy for r in results if r.test_accuracy is not None]
            details["runs"] = [
                {"seed": t.method.training.seed, "accuracy": 100 * a, "epoch": r.epoch}
                for t, r, a in zip(final, results, accuracies, strict=True)
            ]
            details |= _scores(results)
            epoch = round(fmean(r.epoch for r in results))
            trained = (*trained, *results)
            scores.append(
                FoldScore(repeat, fold, fmean(accuracies), epoch, final[0], trained, details)
            )
        return scores

    def _selection(self, plan: Plan, repeat: int, fold: int) -> list[Task]:
        split = replace(plan.folds[repeat][fold], test=np.empty(0, np.int64))
        return [
            make_task(plan, repeat, fold, "point", number, split, point)
            for number, point in enumerate(points(self.grid))
        ]

    def _best(self, selection: list[Task], done: Results) -> int:
        """The point with the highest validation accuracy; ties go to the lowest loss, then to the first.

        A point whose loss became infinite or NaN is never chosen.
        """

        def rank(number: int) -> tuple[float, float]:
            result = done[selection[number].name]
            return -result.validation_accuracy, result.validation_loss

        trained = [n for n, task in enumerate(selection) if not done[task.name].failed]
        if not trained:
            raise TrainingError(
                f"{selection[0].name.rsplit(',', 1)[0]}: the loss became infinite or NaN for every point of the grid: "
                "use smaller learning rates, or look for huge values in the features"
            )
        return min(trained, key=rank)

    def _final(self, plan: Plan, done: Results, repeat: int, fold: int) -> list[Task]:
        point = points(self.grid)[self._best(self._selection(plan, repeat, fold), done)]
        if plan.method.training.ensemble > 1:
            return member_tasks(plan, repeat, fold, "final", point)
        outer = plan.folds[repeat][fold]
        graphs = np.union1d(outer.train, outer.validation)
        tasks = []
        for number in range(self.final_runs):
            seed = derived_seed(plan.seed, "hold-out", repeat, fold, number)
            train, validation = hold_out(graphs, plan.y, seed)
            split = Fold(train, validation, outer.test)
            tasks.append(make_task(plan, repeat, fold, "final", number, split, point))
        return tasks


def _scores(results: Sequence[Trained]) -> dict[str, Any]:
    """`scores`: the mean of the scores of these models; nothing if a checkpoint of an earlier version lacks them."""
    found = [result.test_metrics for result in results if result.test_metrics is not None]
    if len(found) < len(results):
        return {}
    values = {name: [own[name] for own in found] for name in found[0]}
    return {"scores": {name: None if None in v else fmean(v) for name, v in values.items()}}


def ensemble_score(
    repeat: int, fold: int, tasks: Sequence[Task], results: Sequence[Trained]
) -> FoldScore:
    """The score of the mean of the models of a fold, with those of its members as details."""
    tested = [result.tested for result in results if result.tested is not None]
    y, outputs = tested[0].y, np.stack([own.outputs for own in tested])
    epoch = round(fmean(result.epoch for result in results))
    members = {
        "members": len(tested),
        "seeds": [task.method.training.seed for task in tasks],
        "epochs": [result.epoch for result in results],
    }
    if y.ndim > 1:  # targets
        metrics = regression_metrics(y, mean_outputs(outputs))
        details = {"metrics": metrics, **members}
        details["member_metrics"] = [result.test_metrics for result in results]
        return FoldScore(repeat, fold, None, epoch, tasks[0], tuple(results), details)
    scores = ensemble_scores(y, outputs)
    accuracy = scores.pop("accuracy") / 100
    members["scores"] = class_scores(y, mean_outputs(outputs))
    return FoldScore(repeat, fold, accuracy, epoch, tasks[0], tuple(results), members | scores)


@dataclass(frozen=True)
class InnerCV:
    """For kernels: choose C and h by cross-validation of the training part; report the accuracy on the test fold."""

    name: ClassVar[str] = "inner-cv"
    summary: ClassVar[str] = KERNEL_PROTOCOL_SUMMARIES["inner-cv"]

    folds: int = FOLDS  # inner folds of the training part


Protocol = Paper | Tenfold | Nested
PROTOCOLS: dict[str, Protocol] = {p.name: p for p in (Paper(), Tenfold(), Nested())}
KERNEL_PROTOCOLS = {p.name: p for p in (InnerCV(),)}


def choose_protocol(
    name: str, grid: Sequence[str] | None = None, fixed: Mapping[str, Any] | None = None
) -> Protocol:
    """The protocol with this name.

    `grid`: for the protocol nested, see `parse_grid`; by default its usual grid without the `fixed` settings.
    """
    if name not in PROTOCOLS:
        hint = did_you_mean(name, PROTOCOLS)
        if name in KERNEL_PROTOCOLS:
            hint = ", which is for kernels only"
        raise SettingError(
            f"expected one of the protocols {', '.join(PROTOCOLS)}, got {name!r}{hint}"
        )
    protocol, fixed = PROTOCOLS[name], fixed or {}
    if isinstance(protocol, Paper) and "patience" in fixed:
        raise SettingError("the protocol paper trains to the last epoch: it takes no patience")
    if isinstance(protocol, Nested):
        given = parse_grid(grid or ())
        if both := [name for name, _ in given if name in fixed]:
            raise SettingError(
                f"{both[0]} is given both as a setting and in the grid: remove one of them"
            )
        usual = tuple((name, values) for name, values in protocol.grid if name not in fixed)
        return replace(protocol, grid=given or usual)
    if grid:
        raise SettingError(f"the protocol {name} takes no grid: only nested searches over settings")
    return protocol


def choose_kernel_protocol(name: str) -> InnerCV:
    """The protocol for kernels with this name."""
    if name not in KERNEL_PROTOCOLS:
        hint = did_you_mean(name, KERNEL_PROTOCOLS)
        if name in PROTOCOLS:
            hint = ", which is for neural networks"
        raise SettingError(
            f"expected the protocol {', '.join(KERNEL_PROTOCOLS)} for a kernel, got {name!r}{hint}"
        )
    return KERNEL_PROTOCOLS[name]


def needs_edges(method: Method, protocol: Protocol) -> bool | None:
    """Whether any model of a run needs edge features; None: some use them if the data set has any."""
    grid = protocol.grid if isinstance(protocol, Nested) else ()
    wanted = [with_settings(method, point).architecture.edges for point in points(grid)]
    return True if True in wanted else None if None in wanted else False
