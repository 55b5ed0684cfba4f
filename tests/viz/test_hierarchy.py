"""What is drawn of the levels of a graph."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from diffpool.attribution import first_choices
from diffpool.explorer.collect import used_clusters
from diffpool.viz.hierarchy import hierarchy, name, ordered


def pooled(sizes: list[int], seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """A random graph and its coarser graphs: adjacency and soft assignment matrices."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((sizes[0], sizes[0])) < 0.3, 1).astype(float)
    adjacency, assignments = [upper + upper.T], []
    for n, k in pairwise(sizes):
        s = rng.dirichlet(np.full(k, 0.3), n)
        assignments.append(s)
        adjacency.append(s.T @ adjacency[-1] @ s)
    return adjacency, assignments


def test_clusters_that_are_no_first_choice_are_left_out() -> None:
    s = np.array([[0.6, 0.0, 0.4], [0.1, 0.0, 0.9], [0.2, 0.1, 0.7]])
    line = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], float)
    first, second = hierarchy([line, s.T @ line @ s], [s])
    assert second.columns.tolist() == [2, 0]  # the largest first
    assert (len(second), second.allowed) == (2, 3)
    assert first.cluster is not None
    assert first.cluster.tolist() == [1, 0, 0]
    np.testing.assert_allclose(second.mass, [2.0, 0.9])
    np.testing.assert_allclose(second.adjacency[0, 1], (s.T @ line @ s)[2, 0])
    assert second.adjacency[0, 0] == 0


@pytest.mark.parametrize("seed", range(5))
def test_the_color_of_a_coarse_node_is_the_weighted_mean_of_its_members(seed: int) -> None:
    levels = hierarchy(*pooled([40, 9, 4, 2], seed))
    for below, above in pairwise(levels):
        assert below.cluster is not None
        assert below.assignment is not None
        assert set(below.cluster.tolist()) == set(range(len(above)))
        for node in range(len(above)):
            members = np.flatnonzero(below.cluster == node)
            taken = below.mass[members] * below.assignment[members, node]
            mixed = np.average(below.colors[members], axis=0, weights=taken)
            np.testing.assert_allclose(above.colors[node], mixed)


def test_clusters_of_the_first_pooling_have_distinct_colors() -> None:
    for sizes in ([60, 12], [60, 12, 3]):
        level = hierarchy(*pooled(sizes))[1]
        assert len(np.unique(level.colors.round(6), axis=0)) == len(level)


def test_a_graph_without_pooling_has_one_level_of_one_color() -> None:
    (level,) = hierarchy([np.zeros((3, 3))], [])
    assert len(np.unique(level.colors, axis=0)) == 1
    assert level.cluster is None


def test_clusters_are_named_by_numbers_and_those_of_later_poolings_by_letters() -> None:
    assert [name(1, i) for i in (0, 9)] == ["1", "10"]
    assert [name(2, i) for i in (0, 25, 26)] == ["A", "Z", "AA"]
    assert name(3, 1) == "B′"


@pytest.mark.parametrize("seed", range(5))
def test_pictures_and_explanations_show_a_node_in_the_same_cluster_of_every_level(
    seed: int,
) -> None:
    random, sizes = np.random.default_rng(seed), (20, 8, 5, 3)
    poolings = [random.dirichlet(np.full(k, 0.3), size=n) for n, k in pairwise(sizes)]
    found, drawn = ordered(20, poolings), np.arange(20)
    explained = first_choices(poolings)
    for level, clusters in enumerate(explained):
        drawn = found.clusters[level][drawn]
        assert found.columns[level + 1][drawn].tolist() == clusters.tolist()
    assert used_clusters(poolings) == [len(kept) for kept in found.columns[1:]]
    assert [len(own) for own in first_choices([np.zeros((0, 0))] * 2)] == [0, 0]
