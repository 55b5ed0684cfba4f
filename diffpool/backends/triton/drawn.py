"""Batches drawn on the device from the indices of their graphs, for captured steps.

Only the device knows the sizes of the graphs. The edges are read from the data set without a copy. Rows and columns
have a fixed capacity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from diffpool.backends import accelerated
from diffpool.backends.capture import Batches, Capacity, coarser_rows
from diffpool.backends.triton.gather import gather
from diffpool.backends.triton.spmm import ANY, LONG, SHORT, spmm
from diffpool.backends.triton.tiles import Tiles, aligned, attach, tile_rows
from diffpool.errors import only_on_device
from diffpool.graphs import Channel, SparseGraphs
from diffpool.layout import Counts, Layout
from diffpool.segment import Csr

RARE = 0.02  # the maximum share of long rows in a data set of short rows


# --- layouts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class DeviceLayout(Layout):
    """A layout whose sizes only the device knows: `sizes` and `starts` have shapes but no values on the host."""

    first_rows: Tensor | None = None  # [B] int64, on the device

    @property
    def uniform(self) -> bool:
        return False

    @property
    def max_size(self) -> Tensor:
        return self.device_sizes.max()

    @property
    def slots(self) -> Tensor:
        assert self.real is not None
        count = len(self) * self.largest
        return torch.where(self.real, self.graph_of_row * self.largest + self.index_in_graph, count)

    @property
    def device_starts(self) -> Tensor:
        assert self.first_rows is not None
        return self.first_rows

    def coarser(self, clusters: Counts) -> DeviceLayout:
        graphs = len(self) // self.models
        rows = coarser_rows(clusters, self.total // self.models, graphs)
        sizes = _counts(clusters, self.device_sizes.view(self.models, graphs))
        return device_layout(sizes, rows, clusters.max_count)


def device_layout(sizes: Tensor, rows: int, columns: int) -> DeviceLayout:
    """The layout of graphs with these sizes [M, B], with space for `rows` rows per model, computed on the device."""
    models, graphs = sizes.shape
    tile = tile_rows(models * rows, models * graphs)
    sizes = sizes.contiguous()
    starts, graph_of_row, index_in_graph, real, table, tile_starts = layout_tables(
        sizes, rows, tile
    )
    unknown = torch.empty(models * graphs, dtype=torch.int64, device="meta")
    layout = DeviceLayout(
        sizes=unknown,
        starts=unknown,
        total=models * rows,
        largest=columns,
        graph_of_row=graph_of_row,
        index_in_graph=index_in_graph,
        slot_of_row=index_in_graph,  # not read; see `slots`
        device_sizes=sizes.view(-1),
        complete=False,
        real=real,
        models=models,
        first_rows=starts,
    )
    attach(layout, Tiles(tile, table, tile_starts, clean=False))
    return layout


@accelerated
def layout_tables(sizes: Tensor, rows: int, tile: int) -> tuple[Tensor, ...]:
    """Starts, graph and index of each row, which rows belong to graphs, tiles, and the first tile of each model.

    `sizes` [M, B] int64; space for `rows` rows per model.
    """
    models, graphs = sizes.shape
    device = sizes.device
    ends = sizes.cumsum(1)
    begins = ends - sizes  # [M, B], within the model
    local = torch.arange(rows, device=device).expand(models, rows).contiguous()
    graph = torch.searchsorted(ends, local, right=True)  # B for padding rows
    owned = graph < graphs
    number = torch.arange(models, device=device)[:, None]
    index = torch.where(owned, local - begins.gather(1, graph.clamp(max=graphs - 1)), 0).view(-1)
    graph_of_row = torch.where(owned, graph + number * graphs, models * graphs).view(-1)
    starts = (begins + number * rows).view(-1)
    # The maximum number of tiles; unused ones start after all rows.
    count = (sizes.view(-1) + tile - 1) // tile
    last = count.cumsum(0)
    numbers = torch.arange(models * (rows // tile + graphs), device=device)
    graph_of_tile = torch.searchsorted(last, numbers, right=True)
    needed = graph_of_tile < len(count)
    graph_of_tile = graph_of_tile.clamp(max=len(count) - 1)
    first = starts[graph_of_tile] + tile * (numbers - (last - count)[graph_of_tile])
    first = torch.where(needed, first, 1 << 30)
    tile_ends = last.view(models, graphs)[:, -1]
    tile_starts = torch.cat([tile_ends.new_zeros(1), tile_ends])
    tiles = torch.stack([graph_of_tile, first], 1)
    return starts, graph_of_row, index, owned.view(-1), tiles, tile_starts


# --- graphs ----------------------------------------------------------------------------------------------------------


class Lengths(NamedTuple):
    """The number of edges per row of A: up to `limit`, with a few exceptions (see `spmm`)."""

    limit: int = ANY
    longer: Tensor | None = None  # the exceptions, padded with −1; None if there are none

    def drawn(self, indices: Tensor, layout: Layout) -> Lengths:
        """The lengths of a batch of the graphs with these indices [M, B], from those of the data set."""
        if self.longer is None:
            return self
        index = self.longer[indices.view(-1)]
        rows = torch.where(index >= 0, index + layout.device_starts[:, None], -1)
        return Lengths(self.limit, rows.view(-1))


@dataclass(frozen=True, eq=False, repr=False)
class DrawnGraphs(SparseGraphs):
    """A batch of graphs whose `adj`, `adj_t` and `channels` are those of its data set, so no edge is copied."""

    nodes: Tensor | None = None  # [N]: the node in the data set
    shift: Tensor | None = None  # [N]: index in the data set − index in the batch
    means: list[tuple[Tensor, Tensor]] = field(
        default_factory=list
    )  # cached: features and their means
    lengths: Lengths = field(default_factory=Lengths)  # of the rows of A
    lengths_t: Lengths = field(default_factory=Lengths)  # and of Aᵀ

    @property
    def edge_index(self) -> Tensor:
        raise only_on_device("graphs.edge_index")

    @property
    def first_edges(self) -> Tensor:
        """The first edge of each graph in the data set: [B] int64; any edge for an empty graph."""
        assert self.nodes is not None
        first = self.layout.device_starts.clamp(max=self.num_nodes - 1)
        return self.adj.indptr[self.nodes[first]]

    def propagate(self, h: Tensor) -> Tensor:
        """A H: [N, D] → [N, D]."""
        return _DrawnSpmm.apply(h, self, None, None)

    def propagate_channel(self, channel: int, h: Tensor) -> Tensor:
        """E_c H: [N, D] → [N, D]."""
        return _DrawnSpmm.apply(h, self, None, self.channels[channel])

    def propagate_mean(self, h: Tensor) -> Tensor:
        """D⁻¹A H; cached for the input features, because both networks of a level need it."""
        if h.requires_grad:
            return _DrawnSpmm.apply(h, self, self.inverse_degree, None)
        for known, mean in self.means:
            if known is h:
                return mean
        self.means.append((h, self.product(self.adj, h, scale=self.inverse_degree)))
        return self.means[-1][1]

    def with_mean(self, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """H, D⁻¹A H, and H again, so that their gradients are added in one pass over memory."""
        return _WithMean.apply(h, self)

    def product(
        self, matrix: Csr, h: Tensor, values: Tensor | None = None, **options: Any
    ) -> Tensor:
        """The product of A or Aᵀ with H, by the kernel `spmm`; `values` [E] replace the weights of the edges."""
        assert self.nodes is not None
        assert self.shift is not None
        values = matrix.values if values is None else values
        structure = (self.nodes, self.shift, matrix.indptr, matrix.indices, values)
        lengths = self.lengths if matrix is self.adj else self.lengths_t
        return spmm(h, *structure, **options, max_edges=lengths.limit, long_rows=lengths.longer)


class _DrawnSpmm(torch.autograd.Function):
    """A H, with rows multiplied by `scale` [N] if given, and with a channel of edge features as weights if given."""

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, graphs: DrawnGraphs, scale: Tensor | None, channel: Channel | None
    ) -> Tensor:
        ctx.graphs, ctx.scale, ctx.channel = graphs, scale, channel
        values = None if channel is None else channel.values
        return graphs.product(graphs.adj, h, values, scale=scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        graphs = ctx.graphs
        values = None if ctx.channel is None else ctx.channel.values_t
        back = graphs.product(graphs.adj_t, grad, values, scale=ctx.scale, back=True)
        return back, None, None, None


class _WithMean(torch.autograd.Function):
    """H, D⁻¹A H and H again; one pass over memory adds all gradients to the first."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, graphs: DrawnGraphs) -> tuple[Tensor, Tensor, Tensor]:
        ctx.graphs = graphs
        ctx.set_materialize_grads(False)
        mean = graphs.product(graphs.adj, h, scale=graphs.inverse_degree)
        return h.view_as(h), mean, h.view_as(h)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad: Tensor, grad_mean: Tensor, grad_rest: Tensor | None
    ) -> tuple[Tensor, None]:
        graphs = ctx.graphs
        options = {"scale": graphs.inverse_degree, "back": True, "addend": grad_rest}
        return graphs.product(graphs.adj_t, grad_mean, out=grad, **options), None


# --- batches ---------------------------------------------------------------------------------------------------------

_features: WeakKeyDictionary[Any, Tensor] = WeakKeyDictionary()


def _aligned_features(batches: Batches) -> Tensor:
    """The features of a data set with aligned rows, which make A X ten times faster."""
    known = _features.get(batches)
    if known is None:
        x = batches.x
        known = _features[batches] = F.pad(x, (0, aligned(x.shape[1]) - x.shape[1]))
    return known


class Drawing:
    """Draws batches on the device from the indices of their graphs."""

    def __init__(self, batches: Batches):
        self.batches = batches
        self.features = _aligned_features(batches)
        self.level = _Level(batches.graphs)

    def draw(
        self, indices: Tensor, capacity: Capacity
    ) -> tuple[DrawnGraphs, tuple[DeviceLayout, ...], Tensor, Tensor, Tensor]:
        """The parts of the batch of the graphs with these indices [M, B]; the number of graphs means "no graph"."""
        batches = self.batches
        real = indices < len(batches.graphs) - 1
        drawn = self.level.draw(indices, capacity.columns[0], (capacity.rows[0], *capacity.coarser))
        sizes, layouts = drawn.layout.device_sizes.view(indices.shape), []
        for level, clusters in enumerate(batches.clusters, start=1):
            sizes = torch.where(real, _counts(clusters, sizes), 0)
            layouts.append(device_layout(sizes, capacity.rows[level], capacity.columns[level]))
        assert drawn.nodes is not None
        return (
            drawn,
            tuple(layouts),
            gather(self.features, drawn.nodes)[:, : batches.x.shape[1]],
            batches.y[indices.view(-1)],
            real,
        )


class _Level:
    """The graphs of a data set and, if there are precomputed coarser graphs, those of the next level.

    The last graph has a single node without edges and means "no graph".
    """

    def __init__(self, graphs: SparseGraphs):
        self.graphs = graphs
        device = graphs.degree.device
        sizes = graphs.layout.device_sizes.clone()
        sizes[-1] = 0
        self.sizes = sizes
        self.starts = graphs.layout.starts.to(device)
        self.lengths = self.lengths_t = _lengths(graphs.adj, graphs.layout)
        if graphs.adj_t is not graphs.adj:
            self.lengths_t = _lengths(graphs.adj_t, graphs.layout)
        coarser = graphs.prepared.coarser
        self.coarser = None if coarser is None else _Level(coarser)

    def draw(self, indices: Tensor, largest: int, rows: Sequence[int]) -> DrawnGraphs:
        """The graphs with these indices [M, B], with space for `rows` per model, and then at every coarser level."""
        graphs = self.graphs
        layout = device_layout(self.sizes[indices], rows[0], largest)
        shift = self.starts[indices.view(-1)] - layout.device_starts
        shift = torch.cat([shift, shift.new_zeros(1)])[layout.graph_of_row]
        nodes = torch.arange(layout.total, device=shift.device) + shift
        nodes = torch.where(layout.real, nodes, graphs.num_nodes - 1)  # type: ignore[arg-type]
        lengths = self.lengths.drawn(indices, layout)
        symmetric = graphs.adj_t is graphs.adj
        prepared = replace(graphs.prepared, coarser=None).select(indices.view(-1), nodes)
        if self.coarser is not None:
            prepared = replace(prepared, coarser=self.coarser.draw(indices, largest, rows[1:]))
        return DrawnGraphs(
            layout=layout,
            adj=graphs.adj,
            adj_t=graphs.adj_t,
            degree=graphs.degree[nodes],
            inverse_degree=graphs.inverse_degree[nodes],
            squared_norm=graphs.squared_norm[indices.view(-1)],
            channels=graphs.channels,
            nodes=nodes,
            shift=shift,
            lengths=lengths,
            lengths_t=lengths if symmetric else self.lengths_t.drawn(indices, layout),
            prepared=prepared,
        )


def _lengths(matrix: Csr, layout: Layout) -> Lengths:
    """The lengths of a data set; `longer` holds row indices within each graph: [B, max number of long rows]."""
    device = matrix.indptr.device
    edges = matrix.indptr.diff().cpu()
    limit = SHORT if (edges > SHORT).double().mean() <= RARE else LONG
    rows = torch.nonzero(edges > limit).view(-1)  # ascending
    if len(rows) == 0:
        return Lengths(limit)
    graph = layout.graph_of_row.cpu()[rows]
    count = torch.bincount(graph, minlength=len(layout))
    number = torch.arange(len(rows)) - (count.cumsum(0) - count)[graph]  # within the graph
    indices = torch.full((len(layout), int(count.max())), -1)
    indices[graph, number] = layout.index_in_graph.cpu()[rows]
    return Lengths(limit, indices.to(device))


def _counts(clusters: Counts, sizes: Tensor) -> Tensor:
    """`Clusters.counts` on the device."""
    if clusters.ratio is None:
        return torch.full_like(sizes, clusters.max_count)
    shares = (sizes.double() * clusters.ratio).round(decimals=9).ceil()
    at_least = sizes.clamp(max=max(clusters.min_count, 1))
    return shares.to(torch.int64).maximum(at_least).clamp(max=clusters.max_count)
