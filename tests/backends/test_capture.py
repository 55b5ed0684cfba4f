"""Batches drawn on the device are those made on the host. Without a GPU Triton's interpreter runs the kernel."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from interpreter import needs_triton, says_equal

from diffpool.backends.capture import Capacity, Drawing, device_layout
from diffpool.data import embedded
from diffpool.nn import Clusters
from diffpool.training import CohortBatches

CLUSTERS = {
    "share": (Clusters(30, 0.25), Clusters(8, 0.25)),
    "fixed": (Clusters(5), Clusters(2)),
    "none": (),
}
CHOSEN = np.array([[3, 0, 11, -1], [5, 5, -1, -1], [-1, -1, -1, -1], [2, 1, 4, 8]])


@pytest.mark.parametrize("kind", CLUSTERS)
def test_a_drawn_batch_is_the_batch_of_the_host(kind: str) -> None:
    dataset = embedded(12, seed=0, rungs=5)
    batches = CohortBatches(dataset, CLUSTERS[kind])
    drawing = Drawing(batches)
    rows = int(batches.levels(CHOSEN)[0].sum(1).max())
    capacity = Capacity.from_rows(rows, CHOSEN.shape[1], batches.clusters)
    numbers = torch.from_numpy(np.where(CHOSEN >= 0, CHOSEN, len(dataset)))
    graphs, plan, x, y, real = drawing.draw(numbers, capacity)
    host = batches.batch(CHOSEN)
    assert torch.equal(real, host.real)
    assert torch.equal(y, host.y)
    assert torch.equal(graphs.squared_norm, host.graphs.squared_norm)
    for ours, theirs in zip((graphs.layout, *plan), (host.graphs.layout, *host.plan), strict=True):
        assert ours.total >= theirs.total
        assert ours.largest >= theirs.largest
        assert torch.equal(ours.device_sizes, theirs.sizes)
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


def test_tiles_cover_every_row_once_and_no_others() -> None:
    sizes = torch.tensor([[70, 0, 5], [1, 32, 33]])
    layout = device_layout(sizes, rows=80, columns=70)
    covered = np.zeros(layout.total, int)
    for graph, first in layout.tiles.tolist():
        end = layout.device_starts[graph] + layout.device_sizes[graph]
        covered[first : min(first + layout.tile, int(end))] += 1
    assert covered.tolist() == layout.real.long().tolist()


@pytest.mark.parametrize("kind", CLUSTERS)
def test_a_capacity_holds_whatever_graphs_have_so_many_nodes(kind: str) -> None:
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


def test_few_capacities_occur() -> None:
    assert len({Capacity.from_rows(rows, 20, ()) for rows in range(100, 10_000)}) < 22


CODE = """
import numpy as np, torch
from diffpool.data import embedded
from diffpool.graphs import SparseGraphs
from dataclasses import replace
from diffpool.training import CohortBatches
from diffpool.backends.triton import spmm
from diffpool.training import captured
from diffpool.backends.capture import Capacity, Drawing

dataset = embedded(6, seed=0, rungs=3)
rng = np.random.default_rng(0)
# Rows by themselves; long ones by several programs; short ones together; both.
for number, (short, long, rare) in enumerate(((0, 512, 0), (0, 2, 0), (32, 512, 0), (3, 512, 1)) * 2):
    weighted = number >= 4
    spmm.SHORT, captured.SHORT, captured.LONG, captured.RARE = short, short, long, rare
    sizes = dataset.graphs.layout.sizes.numpy()
    starts = np.cumsum(sizes) - sizes
    source = np.concatenate([s + rng.integers(0, n, 40) for s, n in zip(starts, sizes)])
    target = np.concatenate([s + rng.integers(0, n, 40) for s, n in zip(starts, sizes)])
    weights = rng.random(len(source)) if weighted else None
    graphs = SparseGraphs.from_edges(sizes, source, target, weights)  # directed
    batches = CohortBatches(replace(dataset, graphs=graphs), ())
    chosen = np.array([[3, 0, 1], [5, -1, -1]])
    host = batches.batch(chosen)
    drawing = Drawing(batches)
    numbers = torch.from_numpy(np.where(chosen >= 0, chosen, 6))
    drawn, *_ = drawing.draw(numbers, Capacity.from_rows(int(batches.levels(chosen)[0].sum(1).max()), 3, ()))
    for lengths in (drawn.lengths, drawn.lengths_t):
        assert lengths.most == (short if short else long)
        assert (lengths.longer is None) == (number % 4 in (0, 2))
    results = []
    for batch in (drawn, host.graphs):
        own = [slice(s, s + n) for s, n in zip(batch.layout.starts.tolist(), batch.layout.sizes.tolist())]
        h = torch.zeros(batch.num_nodes, 5)
        for g, rows in enumerate(own):
            h[rows] = torch.randn(h[rows].shape, generator=torch.Generator().manual_seed(g))
        h.requires_grad_()
        out = batch.propagate(h)
        (out * out.detach().cos()).sum().backward()
        results.append([(out[rows], h.grad[rows]) for rows in own])
    for ours, theirs in zip(*results):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
print("equal")
"""


@needs_triton
def test_propagation_of_drawn_graphs_is_that_of_the_batch() -> None:
    says_equal(CODE)


LAYOUT = """
import torch
from diffpool.backends.triton.layout import layout_tables
from diffpool.backends.capture import layout_by_hand

generator = torch.Generator().manual_seed(0)
for models, graphs, most in ((1, 1, 5), (3, 7, 90), (5, 20, 40), (2, 3, 0), (2, 1, 400)):
    sizes = torch.randint(0, most + 1, (models, graphs), generator=generator)
    sizes[:, 0] = 0
    for tile in (32, 64):
        rows = int(sizes.sum(1).max()) + 16
        for ours, slow in zip(layout_tables(sizes, rows, tile), layout_by_hand(sizes, rows, tile)):
            assert torch.equal(ours, slow), (models, graphs, tile)
print("equal")
"""


@needs_triton
def test_the_kernels_of_the_layout_equal_the_operations() -> None:
    says_equal(LAYOUT)
