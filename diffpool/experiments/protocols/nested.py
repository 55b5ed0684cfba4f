"""The protocol nested: settings chosen on an inner hold-out, and tested on graphs that the choice never saw."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from diffpool.data import Fold, hold_out, stratified_folds
from diffpool.errors import SettingError, TrainingError, did_you_mean
from diffpool.experiments.grid import DEFAULT_GRID, Grid
from diffpool.experiments.methods import METHOD_SETTINGS
from diffpool.experiments.plan import (
    FoldScore,
    Plan,
    Results,
    Task,
    Trained,
    derived_seed,
    make_task,
    member_tasks,
)
from diffpool.experiments.protocol_names import PROTOCOL_SUMMARIES, REFITS, SAMPLERS
from diffpool.experiments.protocols.fold_scores import ensemble_score, mean_metrics, mean_scores
from diffpool.experiments.protocols.neural import NeuralProtocol
from diffpool.experiments.selection import (
    MAX_POINTS,
    Point,
    choose_members,
    draw_points,
    joined,
    rank,
)
from diffpool.experiments.status import Leader, Search
from diffpool.training.cohort import Cohort

SHOWN = 5  # settings in a display


@dataclass(frozen=True)
class Nested(NeuralProtocol):
    """Errica et al. (2020): choose the settings on an inner hold-out; report the mean test accuracy of three runs.

    With an ensemble, its members replace the three runs: a greedy selection gives each of them its settings, and the
    accuracy is that of the mean of their probabilities.
    """

    name: ClassVar[str] = "nested"
    summary: ClassVar[str] = PROTOCOL_SUMMARIES["nested"]

    grid: Grid = DEFAULT_GRID
    final_runs: int = 3
    trials: int | None = None  # points of the grid to try; None: all
    inner_folds: int = 1  # 1: the validation graphs of the fold; otherwise cross-validation
    halving: bool = False  # stop the worse half of the points early, again and again
    sampler: str = "spread"  # how `trials` points of the grid are drawn: see `SAMPLERS`
    sampler_seed: int = 0  # for random points
    refit: str = "train"  # what the final models are: see `REFITS`

    def __post_init__(self) -> None:
        for name in ("trials", "inner_folds"):
            value = getattr(self, name)
            if value is not None and not (type(value) is int and 1 <= value <= MAX_POINTS):
                raise SettingError(
                    f"expected {name} to be an integer from 1 to {MAX_POINTS}, got {value!r}"
                )
        for name, value, known in (
            ("points", self.sampler, SAMPLERS),
            ("refit", self.refit, REFITS),
        ):
            if value not in known:
                raise SettingError(
                    f"expected {name} to be one of {', '.join(known)}, got {value!r}"
                    f"{did_you_mean(str(value), known)}"
                )

    @cached_property
    def points(self) -> list[Point]:
        """The settings to try."""
        return draw_points(self.grid, self.trials, self.sampler, self.sampler_seed)

    def models(self, plan: Plan) -> int:
        final = plan.method.training.ensemble if plan.averaged else self.final_runs
        final = 0 if self.refit == "none" else final
        return len(plan.fold_indices()) * (len(self.points) * self.inner_folds + final)

    def tasks(self, plan: Plan, done: Results) -> list[Task]:
        """The models of the selection; once all of them are trained, also those of the final runs."""
        selection = [
            task
            for r, f in plan.fold_indices()
            for tasks in self._selection(plan, r, f)
            for task in tasks
        ]
        if not all(task.name in done for task in selection):
            return selection
        final = [t for r, f in plan.fold_indices() for t in self.final_tasks(plan, done, r, f)]
        return selection + final

    def scores(self, plan: Plan, done: Results) -> list[FoldScore]:
        scores: list[FoldScore] = []
        if self.refit != "train":
            return scores  # no final model is tested
        selected = {task.name for task in self.tasks(plan, {})} <= done.keys()
        for repeat, fold in plan.fold_indices() if selected else ():
            final = self.final_tasks(plan, done, repeat, fold)
            if not all(task.name in done for task in final):
                continue
            tried = self.trial_results(plan, done, repeat, fold)
            numbers = self.chosen(plan, done, repeat, fold)
            results = [done[task.name] for task in final]
            best = self.points[numbers[0]]
            details: dict[str, Any] = {
                "chosen": best,
                "points": len(self.points),
                "failed": [
                    point
                    for point, point_results in zip(self.points, tried, strict=True)
                    if any(result.failed for result in point_results)
                ],
            }
            accuracy = fmean(result.validation_accuracy for result in tried[numbers[0]])
            if not math.isnan(accuracy):
                details["validation_accuracy"] = 100 * accuracy
            trained = tuple(result for point_results in tried for result in point_results)
            if plan.averaged:
                score = ensemble_score(repeat, fold, final, results)
                details["chosen_points"] = [self.points[number] for number in numbers]
                scores.append(
                    replace(score, results=trained + score.results, details=details | score.details)
                )
                continue
            epoch = round(fmean(r.epoch for r in results))
            trained = (*trained, *results)
            details["runs"] = [
                {"seed": t.method.training.seed, **_run_scores(r), "epoch": r.epoch}
                for t, r in zip(final, results, strict=True)
            ]
            mean = None
            if results[0].test_accuracy is not None:
                mean = fmean(r.test_accuracy for r in results if r.test_accuracy is not None)
                details |= mean_scores(results)
            else:
                details["metrics"] = mean_metrics(results)
            scores.append(FoldScore(repeat, fold, mean, epoch, final[0], trained, details))
        return scores

    def losers(self, tasks: Sequence[Task], cohort: Cohort) -> list[int]:
        """Successive halving: after 1/8, 1/4 and 1/2 of the epochs, the worse half of the points of each fold stops.

        Points are compared by their best validation score so far, the mean over the inner folds. Only points in the
        same cohort compete, with the same architecture: others are trained at another time.
        """
        rungs = {task.method.training.epochs // part for task in tasks for part in (8, 4, 2)}
        if not self.halving or cohort.epoch not in rungs:
            return []
        models: dict[str, dict[int, list[int]]] = {}  # by fold and point
        for m, task in enumerate(tasks):
            if task.may_fail and m not in cohort.failed | cohort.stopped:
                fold, _, number = task.name.rpartition(", point ")
                point = int(number) // self.inner_folds
                models.setdefault(fold, {}).setdefault(point, []).append(m)
        found = []
        for rivals in models.values():
            order = sorted(rivals.values(), key=cohort.standing)
            found += [m for point_models in order[-(-len(order) // 2) :] for m in point_models]
        return found

    def compete(self, task: Task) -> bool:
        return self.halving and task.may_fail

    def search(self, plan: Plan, done: Results) -> Search | None:
        if len(plan.fold_indices()) > 1:
            return None
        tried, found = 0, []
        for number, tasks in enumerate(self._selection(plan, 0, 0)):
            results = [done[task.name] for task in tasks if task.name in done]
            tried += len(results) == len(tasks)
            if len(results) == len(tasks) and not any(result.failed for result in results):
                found.append((rank(results), number))
        leaders = [self._leader(number, *order) for order, number in sorted(found)[:SHOWN]]
        return Search(tried, len(self.points), tuple(leaders))

    def _leader(self, number: int, negative_accuracy: float, loss: float) -> Leader:
        point = self.points[number]
        searched = {name for name, values in self.grid if len(values) > 1} or set(point)
        settings = {
            name: METHOD_SETTINGS[name].show(value)
            for name, value in point.items()
            if name in searched
        }
        return Leader(
            number, None if negative_accuracy == 0 else -negative_accuracy, loss, settings
        )

    @cached_property
    def _selections(self) -> WeakKeyDictionary[Plan, dict[tuple[int, int], list[list[Task]]]]:
        """A cache of the results of `_selection`, because checking thousands of settings takes seconds."""
        return WeakKeyDictionary()

    def _selection(self, plan: Plan, repeat: int, fold: int) -> list[list[Task]]:
        """The models of each point, one for each inner fold."""
        known = self._selections.setdefault(plan, {})
        if (repeat, fold) not in known:
            known[repeat, fold] = self._make_selection(plan, repeat, fold)
        return known[repeat, fold]

    def _make_selection(self, plan: Plan, repeat: int, fold: int) -> list[list[Task]]:
        splits = self._inner_splits(plan, repeat, fold)
        keep = self.refit != "train"

        def task(number: int, inner: int) -> Task:
            index, split = number * len(splits) + inner, splits[inner]
            new_task = make_task(plan, repeat, fold, "point", index, split, self.points[number])
            return replace(new_task, keep_model=True) if keep else new_task

        return [
            [task(number, inner) for inner in range(len(splits))]
            for number in range(len(self.points))
        ]

    def chosen_trials(
        self, plan: Plan, done: Results, repeat: int, fold: int
    ) -> list[tuple[Task, float]]:
        """The models of the points that the greedy selection chose, with their weights."""
        selection = self._selection(plan, repeat, fold)
        counts = Counter(self.chosen(plan, done, repeat, fold))
        return [
            (task, count / len(selection[number]))
            for number, count in counts.items()
            for task in selection[number]
        ]

    def _inner_splits(self, plan: Plan, repeat: int, fold: int) -> list[Fold]:
        outer, none = plan.folds[repeat][fold], np.empty(0, np.int64)
        if self.inner_folds == 1:
            return [replace(outer, test=none)]
        graphs = np.union1d(outer.train, outer.validation)
        seed = derived_seed(plan.seed, "inner", repeat, fold)
        parts = stratified_folds(plan.y[graphs], seed, self.inner_folds)
        return [
            Fold(graphs[np.union1d(p.train, p.validation)], graphs[p.test], none) for p in parts
        ]

    def trial_results(
        self, plan: Plan, done: Results, repeat: int, fold: int
    ) -> list[list[Trained]]:
        """The results of each point, one for each inner fold."""
        return [
            [done[task.name] for task in tasks] for tasks in self._selection(plan, repeat, fold)
        ]

    def chosen(self, plan: Plan, done: Results, repeat: int, fold: int) -> list[int]:
        """The point of each final model: the best one; for an ensemble, those of a greedy selection.

        A point whose loss became infinite or NaN is never chosen.
        """
        tried = self.trial_results(plan, done, repeat, fold)
        if all(any(result.failed for result in results) for results in tried):
            raise TrainingError(
                f"repeat {repeat}, fold {fold}: the loss became infinite or NaN for every point of the grid: "
                "use smaller learning rates, or look for huge values in the features"
            )
        if not plan.averaged:
            best = min(range(len(tried)), key=lambda number: rank(tried[number]))
            return [best] * self.final_runs
        candidates = [joined([result.held_out for result in results]) for results in tried]
        return choose_members(candidates, plan.method.training.ensemble)

    def final_tasks(self, plan: Plan, done: Results, repeat: int, fold: int) -> list[Task]:
        """The models trained with the chosen settings; they are tested unless they are trained on the test graphs."""
        if self.refit == "none":
            return []
        changes = [self.points[number] for number in self.chosen(plan, done, repeat, fold)]
        if plan.averaged:
            return member_tasks(plan, repeat, fold, "final", changes, self.refit == "all")
        outer = plan.folds[repeat][fold]
        graphs = np.union1d(outer.train, outer.validation)
        tasks = []
        for number, point in enumerate(changes):
            seed = derived_seed(plan.seed, "hold-out", repeat, fold, number)
            train, validation = hold_out(graphs, plan.y, seed)
            split = Fold(train, validation, outer.test)
            tasks.append(make_task(plan, repeat, fold, "final", number, split, point))
        return tasks


def _run_scores(result: Trained) -> dict[str, Any]:
    if result.test_accuracy is not None:
        return {"accuracy": 100 * result.test_accuracy}
    return {"metrics": result.test_metrics}
