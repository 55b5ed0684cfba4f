"""Layouts: no two discs overlap, and the same graph has the same drawing."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("networkx")

from diffpool.viz.positions import centers, force_directed, separate


def overlap(positions: np.ndarray, radii: np.ndarray) -> float:
    """The largest overlap of two discs; negative if there is none."""
    distance = np.linalg.norm(positions[:, None] - positions[None], axis=-1)
    inside = radii[:, None] + radii[None] - distance
    return float(inside[~np.eye(len(radii), dtype=bool)].max())


@pytest.mark.parametrize("count", [2, 7, 60])
@pytest.mark.parametrize("spread", [0.0, 0.01, 1.0, 100.0])
def test_no_two_discs_overlap(count: int, spread: float) -> None:
    rng = np.random.default_rng(count)
    positions, radii = spread * rng.normal(size=(count, 2)), rng.uniform(0.1, 2, count)
    moved = separate(positions, radii, gap=0.05)
    assert overlap(moved, radii) <= -0.05 + 1e-9


def test_discs_with_enough_room_stay_where_they_are() -> None:
    positions = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])
    np.testing.assert_allclose(separate(positions, np.ones(3)), positions, atol=1e-5)


def two_rings() -> np.ndarray:
    adjacency = np.zeros((14, 14))
    for start, size in ((0, 8), (8, 5)):
        ring = start + np.arange(size)
        adjacency[ring, np.roll(ring, 1)] = adjacency[np.roll(ring, 1), ring] = 1
    return adjacency  # the last node is alone


def test_connected_components_are_drawn_next_to_each_other_at_one_scale() -> None:
    positions = force_directed(two_rings())
    assert np.isfinite(positions).all()
    boxes = [(positions[p].min(0), positions[p].max(0)) for p in (range(8), range(8, 13), [13])]
    for i, (low, high) in enumerate(boxes):
        for other_low, other_high in boxes[:i]:
            assert (low > other_high).any() or (high < other_low).any()
    for start, size in ((0, 8), (8, 5)):
        ring = positions[start : start + size]
        lengths = np.linalg.norm(ring - np.roll(ring, 1, axis=0), axis=1)
        np.testing.assert_allclose(lengths, 1, rtol=0.2)


@pytest.mark.parametrize("size", [30, 220])  # with and without a seed
def test_the_layout_is_the_same_for_the_same_seed(size: int) -> None:
    rng = np.random.default_rng(0)
    adjacency = np.triu(rng.random((size, size)) < 3 / size, 1).astype(float)
    np.testing.assert_array_equal(force_directed(adjacency, 1), force_directed(adjacency, 1))


def test_a_cluster_is_in_the_middle_of_its_nodes() -> None:
    s = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    positions = np.array([[0.0, 0.0], [3.0, 0.0], [3.0, 3.0]])
    np.testing.assert_allclose(centers(s, positions), [[1.0, 0.0], [3.0, 2.0]])
