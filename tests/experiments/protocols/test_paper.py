from __future__ import annotations

from experiments.protocols.results import Y, covers, trained

from diffpool.experiments import Paper
from diffpool.experiments.plan import Plan


def test_paper_reports_the_epoch_with_the_best_mean_over_the_folds(plan: Plan) -> None:
    tasks = Paper().tasks(plan, {})
    assert len(tasks) == Paper().models(plan) == 20
    done = {}
    for number, task in enumerate(tasks[:10]):
        assert covers([task.split.train, task.split.validation], len(Y))
        assert len(task.split.test) == 0
        assert task.method.training.patience == 4
        done[task.name] = trained(0.0, curve=(0.5, 0.6, 0.9 if number == 0 else 0.5, 0.6))
    scores = Paper().scores(plan, done)
    assert [(s.repeat, s.fold) for s in scores] == [(0, fold) for fold in range(10)]
    assert [s.accuracy for s in scores] == [0.6] * 10
    assert {s.epoch for s in scores} == {2}
    assert scores[0].details == {"own_best_accuracy": 90.0, "own_best_epoch": 3}
    assert Paper().scores(plan, {tasks[0].name: done[tasks[0].name]}) == []
