"""The protocol tenfold: one model, or one ensemble, for each fold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from diffpool.experiments.plan import FoldScore, Plan, Results, Task, make_task, member_tasks
from diffpool.experiments.protocol_names import PROTOCOL_SUMMARIES
from diffpool.experiments.protocols.fold_scores import ensemble_score, mean_scores
from diffpool.experiments.protocols.neural import NeuralProtocol


@dataclass(frozen=True)
class Tenfold(NeuralProtocol):
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
            details = (
                {"metrics": results[0].test_metrics} if accuracy is None else mean_scores(results)
            )
            scores.append(FoldScore(repeat, fold, accuracy, epoch, tasks[0], results, details))
        return scores
