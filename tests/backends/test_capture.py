"""Capacities of captured steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from diffpool.backends.capture import Capacity, Programs, capacities
from diffpool.baselines.prepare import prepare
from diffpool.data import embedded
from diffpool.experiments import METHODS
from diffpool.nn import Clusters
from diffpool.training import CohortBatches

CLUSTERS = {
    "share": (Clusters(30, 0.25), Clusters(8, 0.25)),
    "at least": (Clusters(30, 0.1, 3), Clusters(8, 0.25, 2)),
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


def test_a_capacity_holds_the_precomputed_coarser_graphs() -> None:
    """Also those of graphs that shrink less than usual; and a step with any graphs has one of few capacities."""
    dataset = embedded(30, seed=0, rungs=5)
    graphs = prepare(METHODS["ecc"].architecture, dataset.graphs, keep=False)
    batches = CohortBatches(replace(dataset, graphs=graphs), ())
    finer, levels = batches.sizes, []
    while graphs.prepared.coarser is not None:
        graphs = graphs.prepared.coarser
        levels.append(graphs.layout.sizes.numpy())
    least = np.argsort(levels[-1] / finer)[::-1][:8]  # they shrink least
    rng = np.random.default_rng(0)
    chosen = rng.integers(-1, 30, (200, 3, 8))
    chosen[0] = least
    found = capacities(batches, chosen)
    for step, capacity in zip(chosen, found, strict=True):
        assert len(capacity.coarser) == len(levels) == 2
        for sizes, rows in zip(
            (finer, *levels), (capacity.rows[0], *capacity.coarser), strict=True
        ):
            assert np.where(step >= 0, sizes[step], 0).sum(1).max() <= rows
    assert len(set(found)) < 12


def test_a_first_run_that_fails_is_not_followed_by_a_capture() -> None:
    """A capture would record what only a first run does, like the initialization of an optimizer's state."""
    programs: Programs[str, float] = Programs()
    with pytest.raises(ZeroDivisionError):
        programs.run("a", lambda: 1 / 0)
    assert programs.run("a", lambda: 1 / 2) == 0.5


def test_an_error_in_a_capture_says_what_is_not_possible_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    programs: Programs[str, int] = Programs()
    programs.run("a", lambda: 1)

    def fails(self: object, work: object) -> None:
        raise RuntimeError("operation failed due to a previous error during capture")

    monkeypatch.setattr(Programs, "_capture", fails)
    with pytest.raises(RuntimeError) as caught:
        programs.run("a", lambda: 1)
    assert "Nothing may wait for the GPU there, such as .item()" in caught.value.__notes__[0]
