"""Batches drawn on the device equal batches assembled on the host."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from diffpool.backends.capture import Capacity
from diffpool.data import embedded
from diffpool.nn import Clusters
from diffpool.training import CohortBatches

drawn = pytest.importorskip("diffpool.backends.triton.drawn")
from diffpool.backends.triton.tiles import tiles_of  # noqa: E402

pytestmark = pytest.mark.triton

CLUSTERS = {
    "share": (Clusters(30, 0.25), Clusters(8, 0.25)),
    "tiny share": (Clusters(30, 1e-12), Clusters(8, 1e-12)),
    "at least": (Clusters(30, 0.1, 3), Clusters(8, 0.25, 2)),
    "fixed": (Clusters(5), Clusters(2)),
    "none": (),
}
CHOSEN = np.array([[3, 0, 11, -1], [5, 5, -1, -1], [-1, -1, -1, -1], [2, 1, 4, 8]])


@pytest.mark.parametrize("kind", CLUSTERS)
def test_a_drawn_batch_equals_the_batch_assembled_on_the_host(kind: str, device: str) -> None:
    dataset = embedded(12, seed=0, rungs=5).to(device)
    batches = CohortBatches(dataset, CLUSTERS[kind])
    drawing = drawn.Drawing(batches)
    rows = int(batches.level_sizes[0, CHOSEN].sum(1).max())
    capacity = Capacity.from_rows(rows, CHOSEN.shape[1], batches.clusters)
    numbers = torch.from_numpy(np.where(CHOSEN >= 0, CHOSEN, len(dataset))).to(device)
    graphs, plan, x, y, real = drawing.draw(numbers, capacity)
    host = batches.batch(CHOSEN)
    assert torch.equal(real, host.real)
    assert torch.equal(y, host.y)
    assert torch.equal(graphs.squared_norm, host.graphs.squared_norm)
    for ours, theirs in zip((graphs.layout, *plan), (host.graphs.layout, *host.plan), strict=True):
        assert ours.total >= theirs.total
        assert ours.largest >= theirs.largest
        assert torch.equal(ours.device_sizes, theirs.device_sizes)
        for g, (size, start, other) in enumerate(
            zip(
                theirs.sizes.tolist(),
                ours.device_starts.tolist(),
                theirs.starts.tolist(),
                strict=True,
            )
        ):
            rows, same = slice(start, start + size), slice(other, other + size)
            assert (ours.graph_of_row[rows] == g).all()
            assert torch.equal(ours.index_in_graph[rows], theirs.index_in_graph[same])
            if ours is graphs.layout:
                assert torch.equal(x[rows], host.x[same])
                assert torch.equal(graphs.degree[rows], host.graphs.degree[same])
        owned = ours.graph_of_row < len(ours)
        assert int(owned.sum()) == int(theirs.sizes.sum())
        assert torch.equal(owned, ours.real)
    assert (x[~graphs.layout.real] == 0).all()


def test_tiles_cover_every_row_of_a_graph_exactly_once(device: str) -> None:
    sizes = torch.tensor([[70, 0, 5], [1, 32, 33]])
    layout = drawn.device_layout(sizes.to(device), rows=80, columns=70)
    tiles = tiles_of(layout)
    covered = np.zeros(layout.total, int)
    for graph, first in tiles.table.tolist():
        end = layout.device_starts[graph] + layout.device_sizes[graph]
        covered[first : min(first + tiles.rows, int(end))] += 1
    assert covered.tolist() == layout.real.long().tolist()
