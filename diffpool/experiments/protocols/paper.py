"""The protocol paper: the epoch with the best mean held-out accuracy, as in the published code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from diffpool.data import Fold
from diffpool.experiments.plan import FoldScore, Plan, Results, Task, make_task
from diffpool.experiments.protocol_names import PROTOCOL_SUMMARIES
from diffpool.experiments.protocols.neural import NeuralProtocol


@dataclass(frozen=True)
class Paper(NeuralProtocol):
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
            in_repeat, tasks = tasks[: len(folds)], tasks[len(folds) :]
            if not all(task.name in done for task in in_repeat):
                continue
            curves = np.array([done[task.name].curve for task in in_repeat])  # [folds, epochs]
            best = int(curves.mean(0).argmax())
            for fold, (task, curve) in enumerate(zip(in_repeat, curves.tolist(), strict=True)):
                details = {"own_best_accuracy": 100 * max(curve)}
                details["own_best_epoch"] = curve.index(max(curve)) + 1
                result = (done[task.name],)
                scores.append(FoldScore(repeat, fold, curve[best], best + 1, task, result, details))
        return scores
