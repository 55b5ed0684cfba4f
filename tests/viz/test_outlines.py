"""Outlines of clusters."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from diffpool.viz.outlines import outline, regions

LINE = np.diag(np.ones(4), 1) + np.diag(np.ones(4), -1)  # five nodes in a row


def test_a_region_is_a_connected_part_of_a_cluster() -> None:
    found = regions(LINE, np.array([0, 0, 1, 0, 1]))
    parts = [(region.cluster, region.nodes.tolist()) for region in found]
    assert parts == [(0, [0, 1]), (0, [3]), (1, [2]), (1, [4])]


def test_an_outline_surrounds_the_discs_of_its_region_and_no_others() -> None:
    positions, radii = np.stack([np.arange(5.0), np.zeros(5)], 1), np.full(5, 0.3)
    region = regions(LINE, np.array([0, 0, 0, 1, 1]))[0]
    line = outline(region, LINE, positions, radii, margin=0.1)

    def distance(x: float, y: float) -> float:
        return float(line.field[np.abs(line.y - y).argmin(), np.abs(line.x - x).argmin()])

    for x in (0.0, 0.5, 1.0, 1.5, 2.0):  # nodes and the edges between them
        assert distance(x, 0) < 0
    assert distance(-0.3, 0) < 0 < distance(-0.5, 0)
    assert distance(3.0, 0) > 0
    point = line.point_outside(0.3, positions)
    assert np.linalg.norm(positions - point, axis=1).min() > 0.6
