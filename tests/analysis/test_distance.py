"""Distant nodes in the same cluster, and whether they are alike."""

from __future__ import annotations

import numpy as np
import pytest
from analysis.drawn import graph, hard, path

from diffpool.analysis import pair_measures

LINE = path(range(6))


def measured(labels: list[int], x: list[float] | None = None) -> dict[str, float]:
    features = None if x is None else np.array(x)[:, None]
    line = graph(6, LINE, features, hops=1)
    return pair_measures(line, hard(labels, 6), np.array(labels))


def test_neighbors_in_a_cluster_are_not_far() -> None:
    found = measured([0, 0, 0, 1, 1, 1])
    assert found["far"] == pytest.approx(6 / 15)  # the pairs with distance 3, 4 and 5
    assert found["far_in_cluster"] == found["far_ratio"] == 0
    assert found["distance_in_cluster"] == pytest.approx(8 / 6)
    assert found["split_clusters"] == 0


def test_the_ends_of_a_path_in_one_cluster_are_far() -> None:
    found = measured([0, 1, 2, 3, 4, 0])
    assert found["far_in_cluster"] == 1
    assert found["far_ratio"] == pytest.approx(15 / 6)
    assert found["split_clusters"] == 1 / 5


def test_distant_nodes_of_a_cluster_may_be_alike() -> None:
    found = measured([0, 1, 2, 3, 4, 0], x=[1, 5, 2, 9, 4, 1])
    assert found["far_features_alike"] == 0
    assert found["far_alike"] < 1


def test_nodes_that_no_path_joins_are_far() -> None:
    two = graph(4, [(0, 1), (2, 3)])
    found = pair_measures(two, hard([0, 1, 0, 1], 2), np.array([0, 1, 0, 1]))
    assert found["far"] == pytest.approx(4 / 6)
    assert found["far_in_cluster"] == 1
    assert "distance_in_cluster" not in found  # no connected pair shares a cluster
    assert found["split_clusters"] == 1


def test_twins_are_found_and_compared() -> None:
    line = graph(
        6, LINE, np.ones((6, 1)), hops=1
    )  # both ends, and all nodes between them, are alike
    s = hard([0, 1, 1, 1, 1, 0], 2)
    found = pair_measures(line, s, s.argmax(1))
    assert found["twin_difference"] == 0
    assert found["far_twins"] == pytest.approx(4 / 6)  # the ends, and nodes 1 and 4
    other = hard([0, 1, 1, 1, 1, 1], 2)
    assert pair_measures(line, other, other.argmax(1))["twin_difference"] == 1


def test_a_graph_with_one_node_has_no_pairs() -> None:
    found = pair_measures(graph(1, []), hard([0], 1), np.zeros(1, int))
    assert found == {"split_clusters": 0}
