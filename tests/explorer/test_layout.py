"""Positions of nodes on the page."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from diffpool.explorer.layout import MAX_EXACT, apart, positions, stress
from diffpool.explorer.plane import next_plane, plane


def ends_of(graph: nx.Graph) -> np.ndarray:
    return np.array(list(graph.edges), np.int64).reshape(-1, 2)


def lengths(x: np.ndarray, ends: np.ndarray) -> np.ndarray:
    return np.linalg.norm(x[ends[:, 0]] - x[ends[:, 1]], axis=1)


@pytest.mark.parametrize("nodes", [0, 1, 2, 3])
def test_tiny_graphs_with_and_without_edges_have_finite_positions(nodes: int) -> None:
    for graph in (nx.empty_graph(nodes), nx.path_graph(nodes)):
        x = positions(nodes, ends_of(graph))
        assert x.shape == (nodes, 2)
        assert np.isfinite(x).all()


def test_a_path_is_straight() -> None:
    ends = ends_of(nx.path_graph(5))
    x = positions(5, ends)
    np.testing.assert_allclose(lengths(x, ends), 1, atol=0.02)
    np.testing.assert_allclose(np.linalg.norm(x[0] - x[4]), 4, atol=0.05)


def test_stress_reproduces_distances_in_the_plane() -> None:
    x = np.random.default_rng(0).random((12, 2)) * 9
    distances = np.linalg.norm(x[:, None] - x[None], axis=-1)
    found = stress(distances)
    again = np.linalg.norm(found[:, None] - found[None], axis=-1)
    np.testing.assert_allclose(again, distances, atol=0.05)


@pytest.mark.parametrize("side", [6, 25])
def test_distances_in_a_drawing_follow_those_in_the_graph(side: int) -> None:
    """A small grid, and one that is larger than what stress majorization draws."""
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(side, side), ordering="sorted")
    assert (side * side > MAX_EXACT) == (side == 25)
    ends = ends_of(graph)
    x = positions(side * side, ends)
    assert np.median(lengths(x, ends)) == pytest.approx(1)
    assert lengths(x, ends).max() < 2.5
    corners = x[[0, side * side - 1]]
    assert np.linalg.norm(corners[0] - corners[1]) > side * 0.8


def test_parts_do_not_cross() -> None:
    graph = nx.disjoint_union_all([nx.cycle_graph(8), nx.cycle_graph(5), nx.empty_graph(2)])
    x = positions(15, ends_of(graph))
    first, second = x[:8], x[8:13]
    low, high = first.min(0), first.max(0)
    assert not ((second > low) & (second < high)).all(1).any()


def test_the_layout_does_not_depend_on_the_run() -> None:
    ends = ends_of(nx.gnp_random_graph(40, 0.1, seed=1))
    np.testing.assert_array_equal(positions(40, ends), positions(40, ends))


def test_discs_are_pushed_apart_and_separate_ones_stay() -> None:
    near = np.array([[0.0, 0.0], [0.1, 0.0], [9.0, 0.0]])
    found = apart(near, np.ones(3))
    assert np.linalg.norm(found[0] - found[1]) > 1.8
    np.testing.assert_allclose(found[2], near[2], atol=0.01)


def test_the_next_plane_is_that_of_pca_and_keeps_the_signs() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(60, 2)) * [3, 1] @ rng.normal(size=(2, 12)) + 0.1 * rng.normal(
        size=(60, 12)
    )
    points, axes = next_plane(vectors, None)
    exact = plane(vectors)
    np.testing.assert_allclose(np.abs(points), np.abs(exact), atol=1e-6)
    for _ in range(3):
        before = points
        vectors = vectors + 0.01 * rng.normal(size=vectors.shape)
        points, axes = next_plane(vectors, axes)
        assert np.abs(points - before).max() < 0.1
        np.testing.assert_allclose(np.abs(points), np.abs(plane(vectors)), atol=1e-4)


@pytest.mark.parametrize("shape", [(1, 3), (5, 1), (4, 6)])
def test_the_next_plane_of_few_or_equal_graphs_is_finite(shape: tuple[int, int]) -> None:
    axes = None
    for value in (np.ones(shape), np.arange(shape[0] * shape[1]).reshape(shape)):
        points, axes = next_plane(value, axes)
        assert points.shape == (shape[0], 2)
        assert np.isfinite(points).all()
