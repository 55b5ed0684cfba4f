"""Folds and protocols: which graphs a model is trained on, and what is reported."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffpool.data import Fold, hold_out, read_folds, stratified_folds
from diffpool.errors import DataError, SettingError
from diffpool.experiments import METHODS, Nested, Paper, Tenfold, choose_protocol, make_grid
from diffpool.experiments.grid import parse_grid, points
from diffpool.experiments.plan import Plan, Trained, derived_seed

Y = np.random.default_rng(0).choice(3, 123, p=[0.6, 0.3, 0.1])


def covers(parts: list[np.ndarray], count: int) -> bool:
    return np.array_equal(np.sort(np.concatenate(parts)), np.arange(count))


def test_folds_are_disjoint_and_cover_the_graphs() -> None:
    folds = stratified_folds(Y, seed=1)
    assert len(folds) == 10
    assert covers([fold.test for fold in folds], len(Y))
    for fold in folds:
        assert covers([fold.train, fold.validation, fold.test], len(Y))
        assert len(fold.validation) == round((len(Y) - len(fold.test)) / 10)


@pytest.mark.parametrize("count", [2, 5, 10])
def test_every_test_part_has_the_class_proportions_up_to_one_graph(count: int) -> None:
    for fold in stratified_folds(Y, seed=2, count=count):
        for part, share in ((fold.test, 1 / count), (fold.validation, 0.1 * (1 - 1 / count))):
            expected = np.bincount(Y) * share
            assert (abs(np.bincount(Y[part], minlength=3) - expected) < 1.5).all()
    sizes = [len(fold.test) for fold in stratified_folds(Y, seed=2, count=count)]
    assert max(sizes) - min(sizes) <= 1


def test_folds_are_reproducible_and_depend_on_the_seed() -> None:
    a, b, c = (stratified_folds(Y, seed) for seed in (3, 3, 4))
    for part in ("train", "validation", "test"):
        assert all(
            np.array_equal(getattr(x, part), getattr(y, part)) for x, y in zip(a, b, strict=True)
        )
        assert not all(
            np.array_equal(getattr(x, part), getattr(y, part)) for x, y in zip(a, c, strict=True)
        )


def test_a_hold_out_divides_the_given_graphs() -> None:
    graphs = np.arange(0, 123, 2)
    train, validation = hold_out(graphs, Y, seed=0)
    assert np.array_equal(np.sort(np.concatenate([train, validation])), graphs)
    assert len(validation) == 6
    assert len(hold_out(np.arange(3), Y, seed=0)[1]) == 1


def test_too_few_graphs_for_folds_are_an_error() -> None:
    with pytest.raises(DataError, match="expected at least 10 graphs for 10 folds, got 9"):
        stratified_folds(np.zeros(9, int), seed=0)
    with pytest.raises(DataError, match="1 graphs are too few to hold some out of training"):
        hold_out(np.array([4]), Y, seed=0)


# --- published folds -----------------------------------------------------------------------------------------------


def published(folds: list[Fold]) -> list[dict[str, Any]]:
    return [
        {
            "test": f.test.tolist(),
            "model_selection": [{"train": f.train.tolist(), "validation": f.validation.tolist()}],
        }
        for f in folds
    ]


@pytest.fixture
def content() -> list[dict[str, Any]]:
    return published(stratified_folds(Y, seed=0))


def test_a_file_of_folds_is_read_unchanged(content: list, tmp_path: Path) -> None:
    path = tmp_path / "splits.json"
    path.write_text(json.dumps(content))
    for fold, expected in zip(read_folds(path, len(Y)), stratified_folds(Y, seed=0), strict=True):
        assert np.array_equal(fold.train, expected.train)
        assert np.array_equal(fold.validation, expected.validation)
        assert np.array_equal(fold.test, expected.test)


def _drop_a_fold(content: list) -> None:
    content.pop()


def _drop_a_part(content: list) -> None:
    del content[3]["model_selection"][0]["validation"]


def _no_selection(content: list) -> None:
    content[3]["model_selection"] = []


def _large_number(content: list) -> None:
    content[2]["test"][0] = 123


def _negative_number(content: list) -> None:
    content[2]["test"][0] = -1


def _words(content: list) -> None:
    content[2]["test"][0] = "7"


def _a_leak(content: list) -> None:
    content[1]["model_selection"][0]["train"].append(content[1]["test"][0])


def _missing_graph(content: list) -> None:
    content[1]["model_selection"][0]["train"].pop()


def _same_test_twice(content: list) -> None:
    content[1] = content[0]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_drop_a_fold, "expected a list of 10 outer folds, got 9"),
        (_drop_a_part, "fold 3: expected `test` and `model_selection` .*'validation'"),
        (_no_selection, "fold 3: expected `test` and `model_selection`"),
        (
            _large_number,
            "fold 2, test: expected numbers from 0 to 122, .*got 123. Is this the file",
        ),
        (_negative_number, "fold 2, test: expected numbers from 0 to 122, .*got -1"),
        (_words, "fold 2, test: expected a list of graph numbers"),
        (_a_leak, "fold 1: expected each of 123 graphs once, got graph [0-9]+ 2 times"),
        (_missing_graph, "fold 1: expected each of 123 graphs once, got graph [0-9]+ 0 times"),
        (_same_test_twice, "test parts of all folds: expected each of 123 graphs once"),
    ],
)
def test_a_wrong_file_of_folds_is_an_error_that_names_it(
    damage: Any, message: str, content: list, tmp_path: Path
) -> None:
    path = tmp_path / "splits.json"
    damage(content)
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=f"splits.json.*{message}"):
        read_folds(path, len(Y))


def test_the_folds_of_another_data_set_are_an_error(content: list, tmp_path: Path) -> None:
    path = tmp_path / "splits.json"
    path.write_text(json.dumps(content))
    for count in (100, 150):
        with pytest.raises(DataError, match=r"splits.json.*Is this the file of another data set\?"):
            read_folds(path, count)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is damaged"),
        ('[{"test": [1', "the file is damaged"),
        ("{}", "expected a list of 10 outer folds, got dict"),
        ("7", "expected a list of 10 outer folds, got int"),
        ("\x00", "the file is damaged"),
    ],
)
def test_a_damaged_file_of_folds_is_an_error(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "splits.json"
    path.write_text(text)
    with pytest.raises(DataError, match=rf"splits\.json: {message}"):
        read_folds(path, 10)


def test_a_missing_file_of_folds_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no.json: the folds file could not be read"):
        read_folds(tmp_path / "no.json", 10)


# --- protocols -----------------------------------------------------------------------------------------------------


@pytest.fixture
def plan() -> Plan:
    method = METHODS["diffpool"]
    method = replace(method, training=replace(method.training, epochs=4, patience=2))
    return Plan(method, 7, Y, tuple(tuple(stratified_folds(Y, seed)) for seed in (0, 1)))


def trained(accuracy: float, loss: float = 1.0, curve: tuple[float, ...] = ()) -> Trained:
    return Trained(2, loss, accuracy, curve, accuracy, 10, 100, 1.0)


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


def test_tenfold_reports_the_test_accuracy_of_each_fold(plan: Plan) -> None:
    tasks = Tenfold().tasks(plan, {})
    scores = Tenfold().scores(plan, {tasks[13].name: trained(0.7)})
    assert [(s.repeat, s.fold, s.accuracy) for s in scores] == [(1, 3, 0.7)]
    assert tasks[13].split is plan.folds[1][3]
    assert tasks[13].method.training.patience == 2


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
    assert protocol.scores(plan, {}) == []


def test_every_model_has_its_own_seed(plan: Plan) -> None:
    protocol = Nested()
    done = {task.name: trained(0.5) for task in protocol.tasks(plan, {})}
    tasks = protocol.tasks(plan, done)
    assert len({task.name for task in tasks}) == len(tasks) == protocol.models(plan)
    assert len({task.method.training.seed for task in tasks}) == len(tasks)
    assert derived_seed(7, "fold", 2) == derived_seed(7, "fold", 2) != derived_seed(8, "fold", 2)


def test_a_grid_consists_of_all_combinations() -> None:
    grid = parse_grid(["learning-rate=0.1,1e-3", "hidden=8", "conv=gcn,gin"])
    assert len(points(grid)) == 4
    assert points(grid)[1] == {"learning_rate": 0.1, "hidden": 8, "conv": "gin"}
    assert points(()) == [{}]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["learning_rate"], "expected --grid NAME=VALUE"),
        (["magic=1,2"], "expected each setting in the grid to be one of .*, got 'magic'"),
        (["seed=1,2"], "expected each setting in the grid to be one of .*, got 'seed'"),
    ],
)
def test_a_wrong_grid_is_an_error(words: list[str], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        parse_grid(words)


def test_fixed_settings_are_not_searched_over() -> None:
    protocol = choose_protocol("nested", None, {"learning_rate": 0.1})
    assert isinstance(protocol, Nested)
    assert [name for name, _ in protocol.grid] == ["weight_decay"]
    with pytest.raises(SettingError, match="hidden is given both as a setting and in the grid"):
        choose_protocol("nested", ["hidden=8,16"], {"hidden": 8})
    with pytest.raises(SettingError, match="the protocol tenfold does not use a grid"):
        choose_protocol("tenfold", ["hidden=8,16"])
    with pytest.raises(SettingError, match=r"the protocol paper .* patience does not apply"):
        choose_protocol("paper", None, {"patience": 3})
    with pytest.raises(SettingError, match="expected one of the protocols paper, tenfold, nested"):
        choose_protocol("magic")
