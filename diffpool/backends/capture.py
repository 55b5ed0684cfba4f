"""A training step of a cohort on a GPU as one captured program, from drawing the batches to updating the models.

A step is about a thousand small operations; launched one by one they keep the GPU waiting for the host. Here a step is
captured once as a CUDA graph and replayed: the host only says which graphs come next. Shapes must then be the same at
every step, so rows and columns have a *capacity*. The sizes of the graphs are known on the host, so the capacity that a
step needs is known before it: a step that needs more than has been captured is captured anew with more.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from diffpool.backends import select as native
from diffpool.graphs import SparseGraphs
from diffpool.layout import LONG, SHORT, Layout, aligned, tile_rows
from diffpool.nn import Clusters
from diffpool.segment import Csr
from diffpool.training.cohort_batches import CohortBatches

LAID_OUT = 2**13  # graphs of all models that one program of a kernel can take
RARE = 0.02  # the share of rows that may be long where the others are short
GROWTH = 1.25  # capacities grow by this factor, so that few of them occur


@dataclass(frozen=True)
class Capacity:
    """Rows of each model and local columns, at every level."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]  # of the input level: the rows of a model

    @classmethod
    def from_rows(cls, rows: int, graphs: int, clusters: Sequence[Clusters]) -> Capacity:
        """The capacity for any `graphs` graphs of each model with up to `rows` nodes together, rounded up."""
        levels = [_round_up(rows)]
        for made in clusters:
            most = made.most * graphs
            if made.ratio is not None:  # each graph's share is rounded up
                most = min(math.floor(made.ratio * levels[-1] + 1e-6) + graphs, most)
            levels.append(aligned(most))
        return cls(tuple(levels), (levels[0], *(aligned(made.most) for made in clusters)))


def _round_up(count: int) -> int:
    """The next of 32, 48, 64, 80, …, each GROWTH times the one before, as multiples of 16."""
    capacity = 32
    while capacity < count:
        capacity = aligned(math.ceil(capacity * GROWTH))
    return capacity


@dataclass(frozen=True, eq=False, repr=False)
class DeviceLayout(Layout):
    """A layout whose sizes are known to the device alone."""

    tile_list: Tensor | None = None
    tile_list_starts: Tensor | None = None

    @property
    def uniform(self) -> bool:
        return False

    @property
    def clean(self) -> bool:
        return False

    @property
    def device_starts(self) -> Tensor:
        return self.starts

    @property
    def tiles(self) -> Tensor:
        assert self.tile_list is not None
        return self.tile_list

    @property
    def tile_starts(self) -> Tensor:
        assert self.tile_list_starts is not None
        return self.tile_list_starts


def device_layout(sizes: Tensor, rows: int, columns: int) -> DeviceLayout:
    """The layout of graphs with these sizes [M, B], on their device, with room for `rows` of each model."""
    models, graphs = sizes.shape
    tile = tile_rows(models * rows, models * graphs)
    sizes = sizes.contiguous()
    tables: tuple[Tensor, ...]
    if native.suits_triton() and sizes.is_cuda and sizes.numel() <= LAID_OUT:
        from diffpool.backends.triton.layout import layout_tables

        tables = layout_tables(sizes, rows, tile)
    else:
        tables = layout_by_hand(sizes, rows, tile)
    starts, graph_of_row, index_in_graph, real, tiles, tile_starts = tables
    return DeviceLayout(
        sizes=sizes.view(-1),
        starts=starts,
        total=models * rows,
        largest=columns,
        graph_of_row=graph_of_row,
        index_in_graph=index_in_graph,
        slot_of_row=index_in_graph,
        device_sizes=sizes.view(-1),
        complete=False,
        real=real,
        models=models,
        tile_list=tiles,
        tile_list_starts=tile_starts,
    )


def layout_by_hand(sizes: Tensor, rows: int, tile: int) -> tuple[Tensor, ...]:
    """The slow twin of `cuda.layout.layout_tables`."""
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
    # Tiles: as many as there could be; those that are not needed have a first row behind all rows.
    count = (sizes.view(-1) + tile - 1) // tile
    last = count.cumsum(0)
    numbers = torch.arange(models * (rows // tile + graphs), device=device)
    of_tile = torch.searchsorted(last, numbers, right=True)
    needed = of_tile < len(count)
    of_tile = of_tile.clamp(max=len(count) - 1)
    first = starts[of_tile] + tile * (numbers - (last - count)[of_tile])
    first = torch.where(needed, first, 1 << 30)
    of_models = last.view(models, graphs)[:, -1]
    tile_starts = torch.cat([of_models.new_zeros(1), of_models])
    return starts, of_row, place, owned.view(-1), torch.stack([of_tile, first], 1), tile_starts


class Lengths(NamedTuple):
    """How many edges the rows of A have: up to `most`, but for a few; see `cuda.spmm`."""

    most: int = 2**62
    longer: Tensor | None = None  # those few rows, among any number of −1; None if there are none

    def drawn(self, numbers: Tensor, layout: Layout) -> Lengths:
        """Of a batch of the graphs with these numbers [M, B], from those of the data set."""
        if self.longer is None:
            return self
        places = self.longer[numbers.view(-1)]
        rows = torch.where(places >= 0, places + layout.device_starts[:, None], -1)
        return Lengths(self.most, rows.view(-1))


@dataclass(frozen=True, eq=False, repr=False)
class DrawnGraphs(SparseGraphs):
    """Graphs of a data set as a batch, their edges left in place: `adj` and `adj_t` are the data set's."""

    nodes: Tensor | None = None  # [N]: of the data set
    shift: Tensor | None = None  # [N]: number in the data set − number in the batch
    means: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # of features, see below
    lengths: Lengths = field(default_factory=Lengths)  # of the rows of A
    lengths_t: Lengths = field(default_factory=Lengths)  # and of Aᵀ

    def propagate(self, h: Tensor) -> Tensor:
        """A H: [N, D] → [N, D]."""
        return _DrawnSpmm.apply(h, self, None)

    def propagate_mean(self, h: Tensor) -> Tensor:
        """D⁻¹A H; that of the input features, which the embedding and the pooling network ask for, is made once."""
        if h.requires_grad:
            return _DrawnSpmm.apply(h, self, self.inverse_degree)
        for known, mean in self.means:
            if known is h:
                return mean
        self.means.append((h, self.product(self.adj, h, scale=self.inverse_degree)))
        return self.means[-1][1]

    def with_mean(self, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return _WithMean.apply(h, self) if h.requires_grad else (h, self.propagate_mean(h), h)

    def propagate_local(self, s: Tensor, clusters: Layout) -> Tensor:
        local = (self.layout.graph_of_row, clusters.device_sizes)
        return self.product(self.adj, s, local=local)

    def add_back_local(self, grad: Tensor, clusters: Layout, out: Tensor) -> None:
        local = (self.layout.graph_of_row, clusters.device_sizes)
        self.product(self.adj_t, grad, local=local, out=out)

    def product(self, matrix: Csr, h: Tensor, **options: Any) -> Tensor:
        """The kernel of `cuda.spmm` on A or Aᵀ."""
        from diffpool.backends.triton import spmm

        assert self.nodes is not None
        assert self.shift is not None
        where = (self.nodes, self.shift, matrix.indptr, matrix.indices, matrix.values)
        lengths = self.lengths if matrix is self.adj else self.lengths_t
        return spmm.spmm(h, *where, **options, most=lengths.most, long_rows=lengths.longer)


class _DrawnSpmm(torch.autograd.Function):
    """A H, or its rows multiplied by `scale` [N]."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, graphs: DrawnGraphs, scale: Tensor | None) -> Tensor:
        ctx.graphs, ctx.scale = graphs, scale
        return graphs.product(graphs.adj, h, scale=scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        graphs = ctx.graphs
        return graphs.product(graphs.adj_t, grad, scale=ctx.scale, back=True), None, None


class _WithMean(torch.autograd.Function):
    """H, D⁻¹A H and H again: their gradients are added up in one pass over memory, in place of the first."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, graphs: DrawnGraphs) -> tuple[Tensor, Tensor, Tensor]:
        ctx.graphs = graphs
        ctx.set_materialize_grads(False)
        mean = graphs.product(graphs.adj, h, scale=graphs.inverse_degree)
        return h.view_as(h), mean, h.view_as(h)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad: Tensor, of_mean: Tensor, of_others: Tensor | None
    ) -> tuple[Tensor, None]:
        graphs = ctx.graphs
        options = {"scale": graphs.inverse_degree, "back": True, "more": of_others}
        return graphs.product(graphs.adj_t, of_mean, out=grad, **options), None


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
        self.lengths = self.lengths_t = _lengths(graphs.adj, graphs.layout)
        if graphs.adj_t is not graphs.adj:
            self.lengths_t = _lengths(graphs.adj_t, graphs.layout)

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
        lengths = self.lengths.drawn(numbers, layout)
        symmetric = graphs.adj_t is graphs.adj
        drawn = DrawnGraphs(
            layout=layout,
            adj=graphs.adj,
            adj_t=graphs.adj_t,
            degree=graphs.degree[nodes],
            inverse_degree=graphs.inverse_degree[nodes],
            squared_norm=graphs.squared_norm[numbers.view(-1)],
            nodes=nodes,
            shift=shift,
            lengths=lengths,
            lengths_t=lengths if symmetric else self.lengths_t.drawn(numbers, layout),
            prepared=graphs.prepared.select(numbers.view(-1), nodes),
        )
        return (
            drawn,
            tuple(layouts[1:]),
            self.batches.features(nodes),
            self.batches.y[numbers.view(-1)],
            real,
        )


def _lengths(matrix: Csr, layout: Layout) -> Lengths:
    """Those of a data set: `longer` has the places within each graph, [B, most of a graph]."""
    device = matrix.indptr.device
    edges = matrix.indptr.diff().cpu()
    most = SHORT if (edges > SHORT).double().mean() <= RARE else LONG
    rows = torch.nonzero(edges > most).view(-1)  # ascending
    if len(rows) == 0:
        return Lengths(most)
    graph = layout.graph_of_row.cpu()[rows]
    count = torch.bincount(graph, minlength=len(layout))
    number = torch.arange(len(rows)) - (count.cumsum(0) - count)[graph]  # within the graph
    places = torch.full((len(layout), int(count.max())), -1)
    places[graph, number] = layout.index_in_graph.cpu()[rows]
    return Lengths(most, places.to(device))


def _counts(clusters: Clusters, sizes: Tensor) -> Tensor:
    """`Clusters.counts` on the device."""
    if clusters.ratio is None:
        return torch.full_like(sizes, clusters.most)
    shares = (sizes.double() * clusters.ratio).round(decimals=9).ceil()
    return shares.to(torch.int64).clamp(max=clusters.most)


def can_capture(batches: CohortBatches) -> bool:
    """Whether steps on these graphs can be captured: edge features and coarser graphs are not drawn on the device."""
    graphs = batches.graphs
    plain = not graphs.channels and graphs.prepared.coarser is None
    return plain and batches.x.is_cuda and native.suits_triton(batches.x)


class CapturedSteps:
    """Steps of a cohort, captured; `work` is a step on what `Drawing.draw` gives.

    The first step of a capacity is not captured, in case no other comes. Overflow is impossible: a step is replayed
    only with a capacity that holds it.
    """

    def __init__(self, batches: CohortBatches, work: Callable[..., None], models: int, graphs: int):
        self.drawing, self.work = Drawing(batches), work
        self.none = len(batches.sizes)  # the number of no graph
        device = batches.x.device
        self.numbers = torch.full((models, graphs), self.none, device=device)
        self.programs: dict[Capacity, torch.cuda.CUDAGraph | None] = {}  # None: seen once
        self.pool = torch.cuda.graph_pool_handle()

    def step(self, numbers: Tensor, capacity: Capacity) -> None:
        """One step on the graphs with these numbers [M, B], on the device."""
        self.numbers.copy_(numbers)
        if capacity not in self.programs:
            self.programs[capacity] = None
            self._run(capacity)  # compiles what must be compiled
            return
        program = self.programs[capacity]
        if program is None:
            program = self.programs[capacity] = self._capture(capacity)
        program.replay()

    def _capture(self, capacity: Capacity) -> torch.cuda.CUDAGraph:
        program = torch.cuda.CUDAGraph()
        gc.collect()
        gc.disable()  # a program that is thrown away during a capture spoils it
        try:
            torch.cuda.synchronize()
            with torch.cuda.graph(program, pool=self.pool):
                self._run(capacity)
        finally:
            gc.enable()
        return program

    def _run(self, capacity: Capacity) -> None:
        self.work(*self.drawing.draw(self.numbers, capacity))

    def epoch(self, orders: Sequence[np.ndarray], sizes: Sequence[int]) -> None:
        """All graphs of each model in its order, in batches of its size. The host does not wait for the device."""
        most = self.numbers.shape[1]
        chosen = self.drawing.batches.divided(orders, sizes, most)
        numbers = torch.from_numpy(np.where(chosen >= 0, chosen, self.none)).to(self.numbers.device)
        batches = self.drawing.batches
        nodes = np.where(chosen >= 0, batches.sizes[chosen], 0).sum(2).max(1, initial=0)  # [steps]
        for own, rows in zip(numbers, nodes.tolist(), strict=True):
            self.step(own, Capacity.from_rows(rows, most, batches.clusters))
