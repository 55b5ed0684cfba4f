"""A clique that is one cluster, joined to a path that is many: both measures see it."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from analysis.drawn import clique, graph, lollipop, path

from diffpool.analysis import contraction, region_spread
from diffpool.analysis.density import diameters, edge_overlap, expected_distinct

COLLAPSED = np.array([0, 0, 0, 0, 0, 1, 2, 3, 4, 5])  # the clique in one cluster
SPREAD = np.array([0, 1, 2, 3, 4, 5, 5, 5, 5, 5])  # the path in one cluster


def test_a_clique_is_dense_and_a_tree_is_sparse() -> None:
    assert graph(4, clique(range(4))).clustering.tolist() == [1] * 4
    assert graph(4, [(0, 1), (0, 2), (0, 3)]).clustering.tolist() == [0] * 4
    assert edge_overlap(graph(4, clique(range(4)))).tolist() == [1] * 6
    assert edge_overlap(graph(4, path(range(4)))).tolist() == [0] * 3


def test_a_clique_in_one_cluster_collapses() -> None:
    found = region_spread(lollipop(), COLLAPSED)
    assert (found["dense_nodes"], found["sparse_nodes"]) == (0.5, 0.5)
    assert found["dense_per_node"] == 1 / 5
    assert found["sparse_per_node"] == 1
    assert found["dense_spread"] < 1 < found["sparse_spread"]
    assert found["dense_collapses_more"] == 1
    assert found["dense_adjacent"] == 1  # pooled together without a loss: all are adjacent
    assert "sparse_adjacent" not in found  # no pair of the path is pooled together


def test_a_path_in_one_cluster_collapses() -> None:
    found = region_spread(lollipop(), SPREAD)
    assert found["dense_spread"] > 1 > found["sparse_spread"]
    assert found["dense_collapses_more"] == 0
    assert found["sparse_adjacent"] == 4 / 10


def test_a_single_cluster_is_no_collapse_beyond_chance() -> None:
    found = region_spread(lollipop(), np.zeros(10, int))
    assert found["dense_spread"] == found["sparse_spread"] == pytest.approx(1)
    assert found["dense_collapses_more"] == 0.5


def test_edges_of_a_clique_are_contracted_more_often() -> None:
    found = contraction(lollipop(), COLLAPSED)
    assert (found["same_dense"], found["same_sparse"]) == (1, 0)
    assert found["same_edge"] == 10 / 15
    assert found["same_pair"] == 10 / 45
    assert found["overlap_correlation"] == pytest.approx(1)
    assert contraction(lollipop(), SPREAD)["overlap_correlation"] == pytest.approx(-0.9, abs=0.2)


@pytest.mark.parametrize("size", [1, 3, 6])
def test_the_expected_number_of_clusters_is_the_mean_over_all_choices_of_nodes(size: int) -> None:
    labels = np.array([0, 0, 0, 1, 1, 2])
    choices = [len(set(labels[list(chosen)])) for chosen in combinations(range(6), size)]
    assert expected_distinct(np.bincount(labels), size) == pytest.approx(np.mean(choices))


def test_the_path_is_longer_than_the_clique() -> None:
    assert diameters(lollipop()) == {"dense_diameter": 1, "sparse_diameter": 4}


def test_graphs_without_edges_and_single_nodes_have_no_regions() -> None:
    for size in (1, 3):
        lonely = graph(size, [])
        assert region_spread(lonely, np.zeros(size, int))["dense_nodes"] == 0
        assert "same_edge" not in contraction(lonely, np.zeros(size, int))
