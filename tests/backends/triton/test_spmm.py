"""A H of graphs drawn on the device equals A H of the batch assembled on the host."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from diffpool.backends.capture import Capacity
from diffpool.data import embedded
from diffpool.graphs import SparseGraphs
from diffpool.training import CohortBatches

drawn_graphs = pytest.importorskip("diffpool.backends.triton.drawn")
spmm = pytest.importorskip("diffpool.backends.triton.spmm")

pytestmark = pytest.mark.triton

# SHORT, LONG, RARE, and whether some rows are too long for the main kernel.
BOUNDS = {
    "each row by itself": (0, 512, 0, False),
    "long rows by several programs": (0, 2, 0, True),
    "short rows together": (32, 512, 0, False),
    "short rows together, long rows by several programs": (3, 512, 1, True),
}
CHOSEN = np.array([[3, 0, 1], [5, -1, -1]])


def propagated(graphs: SparseGraphs) -> list[Tensor]:
    """A H and its gradient for each graph; H depends on the index of the graph only."""
    starts, sizes = graphs.layout.device_starts.tolist(), graphs.layout.device_sizes.tolist()
    rows = [slice(start, start + size) for start, size in zip(starts, sizes, strict=True)]
    h = torch.zeros(graphs.num_nodes, 5)
    for g, own in enumerate(rows):
        h[own] = torch.randn(h[own].shape, generator=torch.Generator().manual_seed(g))
    h = h.to(graphs.degree).requires_grad_()
    out = graphs.propagate(h)
    (gradient,) = torch.autograd.grad((out * out.detach().cos()).sum(), h)
    return [t[own].detach().cpu().double() for own in rows for t in (out, gradient)]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", BOUNDS)
def test_propagation_of_drawn_graphs_equals_that_of_the_batch(
    name: str, weighted: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    short, long, rare, some_longer = BOUNDS[name]
    monkeypatch.setattr(spmm, "SHORT", short)
    monkeypatch.setattr(drawn_graphs, "SHORT", short)
    monkeypatch.setattr(drawn_graphs, "LONG", long)
    monkeypatch.setattr(drawn_graphs, "RARE", rare)
    rng = np.random.default_rng(0)
    dataset = embedded(6, seed=0, rungs=3)
    sizes = dataset.graphs.layout.sizes.numpy()
    starts = np.cumsum(sizes) - sizes
    source, target = (
        np.concatenate([s + rng.integers(0, n, 40) for s, n in zip(starts, sizes, strict=True)])
        for _ in range(2)
    )
    weights = rng.random(len(source)) if weighted else None
    graphs = SparseGraphs.from_edges(sizes, source, target, weights)  # directed
    double = replace(dataset, graphs=graphs.to(dtype=torch.float64), x=dataset.x.double())
    expected = propagated(CohortBatches(double, ()).batch(CHOSEN).graphs)
    batches = CohortBatches(replace(dataset, graphs=graphs).to(device), ())
    numbers = torch.from_numpy(np.where(CHOSEN >= 0, CHOSEN, len(sizes))).to(device)
    capacity = Capacity.from_rows(int(batches.level_sizes[0, CHOSEN].sum(1).max()), 3, ())
    drawn, *_ = drawn_graphs.Drawing(batches).draw(numbers, capacity)
    for lengths in (drawn.lengths, drawn.lengths_t):
        assert lengths.limit == (short if short else long)
        assert (lengths.longer is not None) == some_longer
    for a, b in zip(expected, propagated(drawn), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)
