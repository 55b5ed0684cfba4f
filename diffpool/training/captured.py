"""A training step of a cohort on a GPU as one captured program, from drawing the batches to updating the models.

A step is about a thousand small operations; launched one by one they keep the GPU waiting for the host. Here a step is
captured once as a CUDA graph and replayed: the host only says which graphs come next. Shapes must then be the same at
every step, so rows and columns have a *capacity*. The sizes of the graphs are known on the host, so the capacity that a
step needs is known before it: a step that needs more than has been captured is captured anew with more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from diffpool.graphs import SparseGraphs
from diffpool.native import TILE
from diffpool.nn import Clusters
from diffpool.segment import Layout
from diffpool.training.cohort_batches import CohortBatches, divided

GROWTH = 1.25  # capacities grow by this factor, so that few of them occur
WASTE = 2.5  # a program is used for a step that needs at least its cost divided by this


@dataclass(frozen=True)
class Capacity:
    """Rows of each model and local columns, at every level."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]  # of the input level: not used

    @classmethod
    def of(cls, levels: Sequence[np.ndarray], clusters: Sequence[Clusters]) -> Capacity:
        """What graphs with these sizes [M, B] at each level need, rounded up; columns to no more than there can be."""
        rows = tuple(_round_up(int(sizes.sum(1).max(initial=1)), 32) for sizes in levels)
        columns = [int(levels[0].max(initial=1))]
        for sizes, made in zip(levels[1:], clusters, strict=True):
            columns.append(min(_round_up(int(sizes.max(initial=1)), 1), made.most))
        return cls(rows, tuple(columns))

    def holds(self, other: Capacity) -> bool:
        pairs = zip(self.rows + self.columns[1:], other.rows + other.columns[1:], strict=True)
        return all(a >= b for a, b in pairs)

    def joined(self, other: Capacity) -> Capacity:
        """The capacity that holds both."""
        rows = tuple(map(max, self.rows, other.rows))
        return Capacity(rows, tuple(map(max, self.columns, other.columns)))

    @property
    def cost(self) -> int:
        return sum(r * c for r, c in zip(self.rows, (*self.columns[1:], 64), strict=True))


def _round_up(count: int, least: int) -> int:
    """The next of least, least · GROWTH, …"""
    steps = max(math.ceil(math.log(max(count, 1) / least) / math.log(GROWTH) - 1e-9), 0)
    return max(math.ceil(least * GROWTH**steps), count)


@dataclass(frozen=True, eq=False, repr=False)
class DeviceLayout(Layout):
    """A layout whose sizes are known to the device alone."""

    tile_list: Tensor | None = None

    @property
    def uniform(self) -> bool:
        return False

    @property
    def device_starts(self) -> Tensor:
        return self.starts

    @property
    def tiles(self) -> Tensor:
        assert self.tile_list is not None
        return self.tile_list


def device_layout(sizes: Tensor, rows: int, columns: int) -> DeviceLayout:
    """The layout of graphs with these sizes [M, B], on their device, with room for `rows` of each model."""
    models, graphs = sizes.shape
    device = sizes.device
    ends = sizes.cumsum(1)
    begins = ends - sizes  # [M, B], within the model
    local = torch.arange(rows, device=device).expand(models, rows).contiguous()
    graph = torch.searchsorted(ends, local, right=True)  # B for a row of no graph
    owned = graph < graphs
    number = torch.arange(models, device=device)[:, None]
    place = torch.where(owned, local - begins.gather(1, graph.clamp(max=graphs - 1)), 0).view(-1)
    of_row = torch.where(owned, graph + number * graphs, models * graphs).view(-1)
    starts = (begins + number * rows).view(-1)
    flat = sizes.reshape(-1)
    # Tiles: as many as there could be; those that are not needed have a first row behind all rows.
    count = (flat + TILE - 1) // TILE
    last = count.cumsum(0)
    tile = torch.arange(models * (rows // TILE + graphs), device=device)
    of_tile = torch.searchsorted(last, tile, right=True)
    needed = of_tile < len(flat)
    of_tile = of_tile.clamp(max=len(flat) - 1)
    first = starts[of_tile] + TILE * (tile - (last - count)[of_tile])
    first = torch.where(needed, first, 1 << 40)
    return DeviceLayout(
        sizes=flat,
        starts=starts,
        total=models * rows,
        largest=columns,
        graph_of_row=of_row,
        place_of_row=place,
        slot_of_row=place,
        device_sizes=flat,
        complete=False,
        real=owned.view(-1),
        models=models,
        tile_list=torch.stack([of_tile, first], 1),
    )


@dataclass(frozen=True, eq=False, repr=False)
class DrawnGraphs(SparseGraphs):
    """Graphs of a data set as a batch, their edges left in place: `adj` and `adj_t` are the data set's."""

    nodes: Tensor | None = None  # [N]: of the data set
    shift: Tensor | None = None  # [N]: number in the data set − number in the batch

    def propagate(self, h: Tensor) -> Tensor:
        """A H: [N, D] → [N, D]."""
        return _DrawnSpmm.apply(h, self)


class _DrawnSpmm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, graphs: DrawnGraphs) -> Tensor:
        from diffpool import cuda_spmm

        ctx.graphs = graphs
        a = graphs.adj
        assert graphs.nodes is not None
        assert graphs.shift is not None
        return cuda_spmm.spmm(
            h.contiguous(), graphs.nodes, graphs.shift, a.indptr, a.indices, a.values
        )

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        from diffpool import cuda_spmm

        graphs = ctx.graphs
        a = graphs.adj_t
        grad = grad.contiguous()
        return cuda_spmm.spmm(grad, graphs.nodes, graphs.shift, a.indptr, a.indices, a.values), None


class Drawing:
    """Batches made on the device from the numbers of their graphs."""

    def __init__(self, batches: CohortBatches):
        self.batches = batches
        device = batches.x.device
        graphs = batches.graphs
        sizes = graphs.layout.device_sizes.clone()
        sizes[-1] = 0  # the number of no graph
        self.sizes = sizes
        self.starts = graphs.layout.starts.to(device)

    def draw(
        self, numbers: Tensor, capacity: Capacity
    ) -> tuple[DrawnGraphs, tuple[DeviceLayout, ...], Tensor, Tensor, Tensor]:
        """The parts of a `CohortBatch` for numbers [M, B] on the device; one behind the last is no graph."""
        graphs = self.batches.graphs
        real = numbers < len(self.sizes) - 1
        sizes = self.sizes[numbers]
        layouts = [device_layout(sizes, capacity.rows[0], capacity.columns[0])]
        for level, clusters in enumerate(self.batches.clusters, start=1):
            sizes = torch.where(real, _counts(clusters, sizes), 0)
            layouts.append(device_layout(sizes, capacity.rows[level], capacity.columns[level]))
        layout = layouts[0]
        shift = self.starts[numbers.view(-1)] - layout.device_starts
        shift = torch.cat([shift, shift.new_zeros(1)])[layout.graph_of_row]
        nodes = torch.arange(layout.total, device=shift.device) + shift
        nodes = torch.where(layout.real, nodes, graphs.num_nodes - 1)  # type: ignore[arg-type]
        drawn = DrawnGraphs(
            layout=layout,
            adj=graphs.adj,
            adj_t=graphs.adj_t,
            degree=graphs.degree[nodes],
            inverse_degree=graphs.inverse_degree[nodes],
            squared_norm=graphs.squared_norm[numbers.view(-1)],
            nodes=nodes,
            shift=shift,
        )
        return (
            drawn,
            tuple(layouts[1:]),
            self.batches.x[nodes],
            self.batches.y[numbers.view(-1)],
            real,
        )


def _counts(clusters: Clusters, sizes: Tensor) -> Tensor:
    """`Clusters.counts` on the device."""
    if clusters.ratio is None:
        return torch.full_like(sizes, clusters.most)
    shares = (sizes.double() * clusters.ratio).round(decimals=9).ceil()
    return shares.to(torch.int64).clamp(max=clusters.most)


class CapturedSteps:
    """The steps of a cohort's training, captured; `work` is a step on what `Drawing.draw` gives.

    Overflow is impossible: a step is replayed only with a capacity that holds it.
    """

    def __init__(self, batches: CohortBatches, work: Callable[..., None], models: int, graphs: int):
        self.drawing, self.work = Drawing(batches), work
        self.none = len(batches.sizes)  # the number of no graph
        device = batches.x.device
        self.numbers = torch.full((models, graphs), self.none, device=device)
        self.programs: dict[Capacity, torch.cuda.CUDAGraph] = {}
        self.pool = torch.cuda.graph_pool_handle()

    def step(self, numbers: Tensor, needed: Capacity, coming: Sequence[Capacity]) -> None:
        """One step on the graphs with these numbers [M, B], on the device.

        `coming` is what the steps of this epoch need: if this one needs a new program, it is made to hold those of them
        that are not much larger, too.
        """
        self.numbers.copy_(numbers)
        fitting = [c for c in self.programs if c.holds(needed) and c.cost <= WASTE * needed.cost]
        if fitting:
            self.programs[min(fitting, key=lambda c: c.cost)].replay()
            return
        capacity = needed
        for other in coming:
            both = capacity.joined(other)
            if both.cost <= 0.8 * WASTE * needed.cost:
                capacity = both
        self._run(capacity)  # compiles what must be compiled
        torch.cuda.synchronize()
        program = torch.cuda.CUDAGraph()
        with torch.cuda.graph(program, pool=self.pool):
            self._run(capacity)
        self.programs[capacity] = program

    def _run(self, capacity: Capacity) -> None:
        self.work(*self.drawing.draw(self.numbers, capacity))

    def epoch(self, orders: Sequence[np.ndarray], sizes: Sequence[int]) -> None:
        """All graphs of each model in its order, in batches of its size. The host does not wait for the device."""
        most = self.numbers.shape[1]
        chosen = divided(orders, sizes, most)
        numbers = torch.from_numpy(np.where(chosen >= 0, chosen, self.none)).to(self.numbers.device)
        batches = self.drawing.batches
        needed = [Capacity.of(batches.levels(c), batches.clusters) for c in chosen]
        for own, capacity in zip(numbers, needed, strict=True):
            self.step(own, capacity, needed)
