"""The levels of a graph as JSON values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from diffpool.explorer.levels import levels, pairs, significant

# Two triangles and a bridge; nodes 0 to 2 prefer cluster 2, nodes 3 to 5 cluster 0, and nobody cluster 1.
ENDS = np.array([[0, 1], [0, 2], [1, 2], [2, 3], [3, 4], [3, 5], [4, 5]])
S = np.array([[0.1, 0.2, 0.7]] * 3 + [[0.895, 0.1, 0.005]] * 3)


def unpacked(edges: dict[str, Any]) -> list[list[int]]:
    """The inverse of `pairs`, as web/src/data.ts computes it."""
    found, number = [], 0
    for node, count in enumerate(edges["count"]):
        last = node
        for _ in range(count):
            last += edges["step"][number]
            found.append([node, last])
            number += 1
    return found


def test_pairs_can_be_unpacked() -> None:
    edges = pairs(6, ENDS)
    assert unpacked(edges) == ENDS.tolist()
    assert edges == {"count": [2, 1, 1, 2, 1, 0], "step": [1, 1, 1, 1, 1, 1, 1]}
    assert pairs(2, np.zeros((0, 2), np.int64)) == {"count": [0, 0], "step": []}


def test_a_graph_with_one_pooling() -> None:
    adjacency = np.array([[6.0, 0.0, 1.0], [0.0, 1.0, 0.5], [1.0, 0.5, 6.5]])
    (fine, coarse), found = levels(6, ENDS, [adjacency], [S])
    assert fine["cluster"] == [1, 1, 1, 0, 0, 0]  # the larger one, column 0 of S, is called 1
    assert coarse["column"] == [0, 2]
    assert coarse["names"] == ["1", "2"]
    assert coarse["mass"] == pytest.approx([2.985, 2.115], abs=0.006)
    assert unpacked(coarse["edges"]) == [[0, 1]]
    assert (coarse["weight"], coarse["inside"], coarse["outside"]) == ([1], [6, 6.5], [1, 1])
    assert fine["choices"] == [2, 2, 2, 1, 1, 1]  # below 1 % is left out
    assert fine["to"] == [1, 0] * 3 + [0] * 3
    assert fine["share"] == [700, 100] * 3 + [895] * 3
    assert len(fine["x"]) == 6
    assert len(found.columns) == 2


def test_a_graph_without_pooling_has_one_level() -> None:
    (only,), _ = levels(6, ENDS, [], [])
    assert set(only) == {"x", "y", "edges"}


def test_given_positions_are_kept() -> None:
    given = np.arange(12.0).reshape(6, 2)
    (only,), _ = levels(6, ENDS, [], [], given)
    assert only["x"] == [0, 200, 400, 600, 800, 1000]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 20.0], [1, 20]),
        ([0.123456, -1234.56], [0.1235, -1235]),
        ([0.0, 1e-20], [0, 1e-20]),
        ([1e300, 1.0], [1e300, 1]),
    ],
)
def test_four_digits_are_kept(values: list[float], expected: list[float]) -> None:
    assert significant(np.array(values)) == pytest.approx(expected, rel=1e-9)
