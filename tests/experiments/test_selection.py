"""Model selection: the points to try, their order, and the greedy selection of an ensemble."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from diffpool.data import GraphDataset, embedded
from diffpool.errors import SettingError
from diffpool.experiments import Nested, choose_protocol, evaluate, make_grid, settings_for
from diffpool.experiments.plan import HeldOut, Trained, make_plan
from diffpool.experiments.selection import (
    DEFAULT_SPACE,
    choose_members,
    draw_points,
    joined,
    rank,
    space_for,
)

GRID = make_grid({"hidden": [8, 16], "readout": ["sum", "max"], "dropout": [0.0, 0.5]})


def result(accuracy: float, loss: float, failed: bool = False) -> Trained:
    return Trained(1, loss, accuracy, (accuracy,), None, 1, 1, 1.0, failed=failed)


# --- points --------------------------------------------------------------------------------------------------------


def test_a_grid_that_fits_the_budget_is_tried_completely() -> None:
    assert draw_points(GRID) == draw_points(GRID, 8) == draw_points(GRID, 100)
    assert len(draw_points(GRID)) == 8


@pytest.mark.parametrize("trials", [1, 2, 3, 5, 7, 24, 60])
def test_a_sample_has_different_points_and_the_size_of_the_budget(trials: int) -> None:
    for grid in (GRID, DEFAULT_SPACE):
        drawn = draw_points(grid, trials)
        assert len(drawn) == min(trials, 8 if grid is GRID else trials)
        assert not any(a == b for a, b in itertools.combinations(drawn, 2))
        values = dict(grid)
        for point in drawn:
            assert list(point) == [name for name, _ in grid]
            assert all(point[name] in values[name] for name in point)


def test_a_sample_is_the_same_every_time_and_covers_every_value() -> None:
    drawn = draw_points(DEFAULT_SPACE, 40)
    assert drawn == draw_points(DEFAULT_SPACE, 40)
    for name, values in DEFAULT_SPACE:
        assert {point[name] for point in drawn} == set(values), name


def test_points_share_architectures_so_that_they_are_trained_side_by_side() -> None:
    method = settings_for("diffpool", "own")
    drawn = draw_points(DEFAULT_SPACE, 40)
    shapes = {
        tuple((k, v) for k, v in point.items() if hasattr(method.architecture, k))
        for point in drawn
    }
    assert len(shapes) == 10


def test_the_space_has_nothing_that_a_method_lacks() -> None:
    flat = dict(space_for(settings_for("graphsage", "own")))
    assert not flat.keys() & {"poolings", "ratio", "every_level", "link_weight", "conv"}
    assert "readout" in flat
    assert "readout" not in dict(space_for(settings_for("sortpool", "own")))
    assert "hidden" not in dict(space_for(settings_for("diffpool", "own"), ["hidden"]))
    given = space_for(settings_for("diffpool", "own", clusters=(4,)), ["clusters"])
    assert not dict(given).keys() & {"poolings", "ratio"}


def test_a_value_that_is_given_twice_is_tried_once() -> None:
    assert draw_points(make_grid({"hidden": [4, 8, 4]})) == [{"hidden": 4}, {"hidden": 8}]


def test_a_grid_with_too_many_points_is_refused() -> None:
    with pytest.raises(SettingError, match="at most 10000 points, got 139,968"):
        draw_points(DEFAULT_SPACE, sampler="grid")


def test_models_side_by_side_differ_in_more_than_one_setting_even_in_a_long_search() -> None:
    first, *others = draw_points(DEFAULT_SPACE, 500)
    alike = [
        p for p in others if all(p[n] == first[n] for n in ("hidden", "readout", "conv", "ratio"))
    ]
    differing = {name for point in alike for name in point if point[name] != first[name]}
    assert len(differing) > 2


# --- choice --------------------------------------------------------------------------------------------------------


def test_the_highest_accuracy_is_best_then_the_lowest_loss_and_failures_are_last() -> None:
    tried = [
        [result(0.7, 0.9)],
        [result(0.8, 0.9)],
        [result(0.8, 0.5)],
        [result(0.9, 0.1), result(0.9, 0.1, failed=True)],
        [result(0.75, 0.1), result(0.8, 0.1)],
    ]
    assert sorted(range(5), key=lambda n: rank(tried[n])) == [2, 1, 4, 0, 3]
    targets = [[result(math.nan, 0.3)], [result(math.nan, 0.2)]]
    assert min(range(2), key=lambda n: rank(targets[n])) == 1


def test_greedy_selection_takes_the_best_and_then_what_helps_it() -> None:
    y = np.array([0, 0, 1, 1])

    def sure(*right: float) -> HeldOut:
        p = np.array(right)
        first = np.where(y == 0, p, 1 - p)
        return HeldOut(y, np.stack([first, 1 - first], 1))

    good, helper, bad = (
        sure(0.9, 0.9, 0.9, 0.2),
        sure(0.6, 0.6, 0.6, 0.99),
        sure(0.1, 0.1, 0.1, 0.1),
    )
    chosen = choose_members([bad, good, None, helper], 4)
    assert chosen[0] in (1, 3)
    assert set(chosen) == {1, 3}
    assert choose_members([bad, None], 2) == [0, 0]


def test_greedy_selection_of_targets_lowers_the_squared_error() -> None:
    y = np.array([[1.0], [2.0], [3.0]])
    above, below = HeldOut(y, y + 1), HeldOut(y, y - 1)
    assert sorted(choose_members([above, below], 2)) == [0, 1]


def test_inner_folds_are_joined() -> None:
    one, two = (HeldOut(np.array([i]), np.full((1, 2), 0.5)) for i in range(2))
    both = joined([one, two])
    assert both is not None
    assert both.y.tolist() == [0, 1]
    assert joined([one, None]) is None


# --- nested --------------------------------------------------------------------------------------------------------


@pytest.fixture
def dataset() -> GraphDataset:
    return embedded(60, seed=0, rungs=4)


def test_inner_folds_divide_the_training_part(dataset: GraphDataset) -> None:
    method = settings_for("diffpool", "embedded", ensemble=2)
    plan = make_plan(method, dataset)
    protocol = Nested(grid=GRID, trials=3, inner_folds=4)
    tasks = [t for t in protocol.tasks(plan, {}) if t.name.startswith("repeat 0, fold 2,")]
    assert len(tasks) == 3 * 4
    outer = plan.folds[0][2]
    training = np.union1d(outer.train, outer.validation)
    for start in range(0, 12, 4):
        splits = [task.split for task in tasks[start : start + 4]]
        held_out = np.concatenate([split.validation for split in splits])
        assert np.array_equal(np.sort(held_out), training)
        for split in splits:
            assert np.array_equal(np.union1d(split.train, split.validation), training)
            assert not len(split.test)
    assert protocol.models(plan) == 10 * (12 + 2)


@pytest.mark.parametrize("inner_folds", [1, 3])
def test_members_have_settings_of_the_greedy_selection(
    inner_folds: int, dataset: GraphDataset, tmp_path: Path
) -> None:
    method = settings_for("diffpool", "embedded", epochs=2, hidden=4, ensemble=3)
    protocol = Nested(
        grid=make_grid({"readout": ["sum", "max", "mean"], "dropout": [0.0, 0.5]}),
        trials=4,
        inner_folds=inner_folds,
    )
    found = evaluate(method, dataset, protocol, out=tmp_path / "r.jsonl")
    for record in found.records:
        chosen = record.details["chosen_points"]
        assert len(chosen) == 3
        assert all(point in protocol.points for point in chosen)
        assert record.details["points"] == 4
        assert record.settings["architecture"]["readout"] == chosen[0]["readout"]


def test_the_default_of_nested_is_as_before() -> None:
    plain = choose_protocol("nested")
    assert plain == Nested()
    assert len(plain.points) == 6
    assert replace(plain, trials=3).points != plain.points
