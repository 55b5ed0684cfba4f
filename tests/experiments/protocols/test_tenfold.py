from __future__ import annotations

from experiments.protocols.results import trained

from diffpool.experiments import Tenfold
from diffpool.experiments.plan import Plan


def test_tenfold_reports_the_test_accuracy_of_each_fold(plan: Plan) -> None:
    tasks = Tenfold().tasks(plan, {})
    scores = Tenfold().scores(plan, {tasks[13].name: trained(0.7)})
    assert [(s.repeat, s.fold, s.accuracy) for s in scores] == [(1, 3, 0.7)]
    assert tasks[13].split is plan.folds[1][3]
    assert tasks[13].method.training.patience == 2
