from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from experiments.protocols.results import Y, covers, trained

from diffpool.experiments import Nested, make_grid
from diffpool.experiments.plan import Plan, derived_seed


def test_nested_selects_by_validation_accuracy_then_loss_and_averages_three_runs(
    plan: Plan,
) -> None:
    plan = replace(plan, folds=plan.folds[:1])
    protocol = Nested(make_grid({"learning_rate": [0.1, 0.2], "hidden": [8, 16]}))
    selection = protocol.tasks(plan, {})
    assert len(selection) == 40
    assert protocol.models(plan) == 70
    assert all(len(task.split.test) == 0 for task in selection)  # it never sees the test graphs
    done = {}
    for task in selection:
        same = (task.method.training.learning_rate, task.method.architecture.hidden)
        values = {(0.1, 8): (0.5, 0.1), (0.1, 16): (0.7, 0.9), (0.2, 8): (0.7, 0.8)}
        done[task.name] = trained(*values.get(same, (0.6, 0.0)))
    tasks = protocol.tasks(plan, done)
    final = tasks[40:]
    assert len(final) == 30
    assert {t.method.training.learning_rate for t in final} == {0.2}
    assert {t.method.architecture.hidden for t in final} == {8}
    own = final[:3]
    assert len({t.method.training.seed for t in own}) == 3
    assert len({tuple(t.split.validation) for t in own}) == 3
    for task in own:
        assert covers([task.split.train, task.split.validation, task.split.test], len(Y))
        assert np.array_equal(task.split.test, plan.folds[0][0].test)
    done |= {t.name: trained(a) for t, a in zip(own, (0.5, 0.6, 0.7), strict=True)}
    scores = protocol.scores(plan, done)
    assert [(s.fold, s.accuracy) for s in scores] == [(0, pytest.approx(0.6))]
    assert scores[0].details["chosen"] == {"learning_rate": 0.2, "hidden": 8}
    assert [r["accuracy"] for r in scores[0].details["runs"]] == [50.0, 60.0, 70.0]
    mean = {"balanced_accuracy": pytest.approx(60), "macro_f1": pytest.approx(0.6), "roc_auc": None}
    assert scores[0].details["scores"] == mean
    assert protocol.scores(plan, {}) == []


def test_every_model_has_its_own_seed(plan: Plan) -> None:
    protocol = Nested()
    done = {task.name: trained(0.5) for task in protocol.tasks(plan, {})}
    tasks = protocol.tasks(plan, done)
    assert len({task.name for task in tasks}) == len(tasks) == protocol.models(plan)
    assert len({task.method.training.seed for task in tasks}) == len(tasks)
    assert derived_seed(7, "fold", 2) == derived_seed(7, "fold", 2) != derived_seed(8, "fold", 2)
