"""Capacities of captured steps."""

from __future__ import annotations

import numpy as np
import pytest

from diffpool.backends.capture import Capacity
from diffpool.nn import Clusters

CLUSTERS = {
    "share": (Clusters(30, 0.25), Clusters(8, 0.25)),
    "fixed": (Clusters(5), Clusters(2)),
    "none": (),
}


@pytest.mark.parametrize("kind", CLUSTERS)
def test_a_capacity_holds_any_graphs_with_this_number_of_nodes(kind: str) -> None:
    rng = np.random.default_rng(0)
    clusters = CLUSTERS[kind]
    for _ in range(200):
        sizes = rng.integers(0, 121, (3, 7)) * rng.integers(0, 2, (3, 7))
        capacity = Capacity.from_rows(int(sizes.sum(1).max()), 7, clusters)
        for level in range(len(clusters) + 1):
            assert sizes.sum(1).max() <= capacity.rows[level]
            if level > 0:
                assert sizes.max() <= capacity.columns[level]
            if level < len(clusters):
                sizes = clusters[level].counts(sizes)


def test_there_are_few_capacities() -> None:
    assert len({Capacity.from_rows(rows, 20, ()) for rows in range(100, 10_000)}) < 22
