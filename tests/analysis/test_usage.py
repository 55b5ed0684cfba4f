"""Clusters used, sizes, entropy, columns of unused clusters."""

from __future__ import annotations

import numpy as np
import pytest
from analysis.drawn import hard

from diffpool.analysis import composed, usage_measures
from diffpool.attribution import first_choices


def test_used_clusters_and_their_sizes() -> None:
    found = usage_measures(hard([0, 0, 0, 2], clusters=4))
    assert (found["clusters"], found["used"], found["used_share"]) == (4, 2, 0.5)
    assert found["largest"] == 0.75
    assert found["clusters_of_most"] == 2
    assert found["effective"] == pytest.approx(4 / 27**0.25)  # exp of H(3/4, 1/4)
    assert found["entropy"] == 0
    assert (found["used_peak"], found["unused_peak"]) == (1, 0)


def test_one_cluster_that_holds_nearly_all_nodes_holds_most() -> None:
    assert usage_measures(hard([0] * 9 + [1], clusters=2))["clusters_of_most"] == 1


def test_a_uniform_assignment_has_relative_entropy_1() -> None:
    found = usage_measures(np.full((6, 5), 0.2))
    assert found["entropy"] == pytest.approx(1)
    assert found["used"] == 1  # the first column wins all ties
    assert found["unused_peak"] == pytest.approx(0.2)


def test_a_single_cluster_has_no_entropy_and_no_unused_columns() -> None:
    found = usage_measures(np.ones((3, 1)))
    assert "entropy" not in found
    assert "unused_peak" not in found


def test_later_assignments_are_those_of_the_input_nodes() -> None:
    first, second = hard([0, 1, 2, 2], clusters=3), hard([1, 0, 1], clusters=2)
    after_one, after_two = composed([first, second])
    assert after_one is first
    assert after_two.argmax(1).tolist() == [1, 0, 1, 1]


def test_the_first_choice_of_both_poolings_is_that_of_every_level_if_they_are_hard() -> None:
    poolings = [hard([3, 1, 0, 1, 2, 3], clusters=4), hard([1, 0, 0, 2], clusters=3)]
    for s, by_level in zip(composed(poolings), first_choices(poolings), strict=True):
        assert s.argmax(1).tolist() == by_level.tolist()


def test_soft_choices_of_both_poolings_may_differ_from_those_of_every_level() -> None:
    poolings = [np.array([[0.4, 0.3, 0.3], [0.8, 0.1, 0.1]]), hard([0, 1, 1], clusters=2)]
    assert composed(poolings)[1].argmax(1).tolist() == [1, 0]  # 0.6 of node 0 is in cluster 1
    assert first_choices(poolings)[1].tolist() == [0, 0]
