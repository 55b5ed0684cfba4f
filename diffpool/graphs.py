"""Batches of graphs and the four operations that GNN layers and DiffPool need.

    graphs.propagate(h)                 A H
    graphs.contract(s, h, clusters)     SᵀH of each graph
    graphs.readout(h, reduction)        sum, mean or max over each graph's nodes
    graphs.degree, graphs.squared_norm  A1 of each node, ‖A‖²_F of each graph

Edge features add a matrix E_c for each channel c; `graphs.propagate_channel(c, h)` is E_c H.

Convolutions, poolers and losses are written against these operations and do not depend on the storage format. There are
two: `SparseGraphs` (level 0: an edge list, never padded) and `DenseGraphs` (coarser levels: one small dense block per
graph).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from diffpool import libraries
from diffpool.backends import accelerated
from diffpool.edge_checks import check_csr, check_edges
from diffpool.edges import sorted_edges
from diffpool.errors import DataError
from diffpool.layout import Layout
from diffpool.segment import Csr, max_rows, multiply, multiply_tn, spmm, spmm_forward, sum_rows

Reduction = Literal["sum", "mean", "max"]


class _Graphs:
    """What both formats share: everything that needs only the layout."""

    layout: Layout
    inverse_degree: Tensor

    def __len__(self) -> int:
        return len(self.layout)

    @property
    def num_nodes(self) -> int:
        return self.layout.total

    def propagate(self, h: Tensor) -> Tensor:
        raise NotImplementedError

    def contract(self, s: Tensor, h: Tensor, clusters: Layout, square: bool = False) -> Tensor:
        """SᵀH of each graph: local [N, W], [N, D] → [K, D] (`square`: see `segment.multiply`)."""
        return multiply_tn(s, h, self.layout, clusters, square)

    def propagate_mean(self, h: Tensor) -> Tensor:
        """D⁻¹A H, the weighted mean over the neighbors, zero for a node without any: [N, D] → [N, D]."""
        return propagate_mean(self, h)

    def readout(self, h: Tensor, reduction: Reduction) -> Tensor:
        """Sum, mean or max over each graph's nodes: [N, D] → [B, D]; zero for an empty graph."""
        if reduction == "max":
            return max_rows(h, self.layout)
        total = sum_rows(h, self.layout)
        if reduction == "sum":
            return total
        count = self.layout.device_sizes.to(h.dtype).clamp(min=1)  # [B]
        return total / count.view(-1, *(1 for _ in h.shape[1:]))


@accelerated
def propagate_mean(graphs: _Graphs, h: Tensor) -> Tensor:
    """D⁻¹A H: [N, D] → [N, D]."""
    return graphs.propagate(h) * graphs.inverse_degree[:, None]


class Channel(NamedTuple):
    """One feature of every edge: the values in the order of the entries of A, and in the order of those of Aᵀ."""

    values: Tensor  # [E]
    values_t: Tensor  # [E]


@dataclass(frozen=True, eq=False, repr=False)
class Prepared:
    """Precomputed structures of graphs, which are part of every batch of them (see `diffpool.baselines`).

    Nodes, edges and clusters are numbered within their graph, so that the numbers are the same in every batch.
    """

    nodes: Tensor | None = None  # [N, …] int64: one row per node
    graphs: Tensor | None = None  # [B, …] int64: one row per graph
    coarser: SparseGraphs | None = None  # the same graphs with fewer nodes
    what: str = ""  # a description of how the structures were computed

    def with_empty_graph(self) -> Prepared:
        """The same with zeros for one more graph, which has a single node."""

        def grown(t: Tensor | None) -> Tensor | None:
            return None if t is None else torch.cat([t, t.new_zeros(1, *t.shape[1:])])

        coarser = None if self.coarser is None else self.coarser.with_empty_graph()
        return replace(self, nodes=grown(self.nodes), graphs=grown(self.graphs), coarser=coarser)

    def select(self, graphs: Tensor, nodes: Tensor, layout: Layout | None = None) -> Prepared:
        """The structures of these graphs and nodes; the `layout` of the batch is needed if there are coarser graphs."""
        device = nodes.device
        coarser = None
        if self.coarser is not None:
            assert layout is not None
            sizes = torch.where(layout.sizes > 0, self.coarser.layout.sizes[graphs.cpu()], 0)
            coarser, _ = self.coarser.select(
                graphs, Layout.from_sizes(sizes, device, layout.models)
            )
        return replace(
            self,
            nodes=None if self.nodes is None else self.nodes[nodes],
            graphs=None if self.graphs is None else self.graphs[graphs.to(device)],
            coarser=coarser,
        )

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> Prepared:
        return replace(
            self,
            nodes=None if self.nodes is None else self.nodes.to(device),
            graphs=None if self.graphs is None else self.graphs.to(device),
            coarser=None if self.coarser is None else self.coarser.to(device, dtype),
        )


NOTHING = Prepared()


@dataclass(frozen=True, eq=False, repr=False)
class SparseGraphs(_Graphs):
    """B graphs as one edge list: memory is linear in nodes and edges, and no graph is padded, truncated or dropped.

    Row i of A holds the edges that point to node i: (A H)_i = Σ weight · h_source.
    """

    layout: Layout
    adj: Csr  # A
    adj_t: Csr  # Aᵀ; the same object when A is symmetric
    degree: Tensor  # [N]: A1
    inverse_degree: Tensor  # [N]: 1/degree; 0 for a node without edges
    squared_norm: Tensor  # [B]: ‖A‖²_F
    channels: tuple[Channel, ...] = ()  # edge features, one channel per feature
    prepared: Prepared = NOTHING

    @classmethod
    def from_edges(
        cls,
        sizes: np.ndarray | list[int],
        source: np.ndarray | Tensor,
        target: np.ndarray | Tensor,
        weight: np.ndarray | Tensor | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> SparseGraphs:
        """Graphs with these numbers of nodes and directed edges between nodes numbered across the batch.

        An undirected edge must be given in both directions. Duplicate edges are merged: their weights are added;
        without weights, they count once.
        """
        sizes = np.asarray(sizes, dtype=np.int64)
        source, target = np.asarray(source, np.int64), np.asarray(target, np.int64)
        weights = None if weight is None else np.asarray(weight, np.float64)
        check_edges(sizes, source, target, weights)
        num_nodes = int(sizes.sum())
        key, index = np.unique(target * num_nodes + source, return_inverse=True)
        row, column = np.divmod(
            key, max(num_nodes, 1)
        )  # sorted by row, so that sums are deterministic
        values = None if weights is None else np.bincount(index, weights, minlength=len(key))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=num_nodes))])
        return cls.from_csr(sizes, indptr, column, values, dtype=dtype)

    @classmethod
    def from_csr(
        cls,
        sizes: np.ndarray,
        indptr: np.ndarray,
        source: np.ndarray,
        weights: np.ndarray | None = None,
        features: np.ndarray | None = None,
        symmetric: bool | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> SparseGraphs:
        """Graphs whose edges to node i come from `source[indptr[i] : indptr[i + 1]]`, in ascending order.

        `features` has one row per edge: [E, C]. `symmetric` says whether every edge has its reverse; None: find out.
        """
        check_csr(sizes, indptr, source, weights, features)
        num_nodes = len(indptr) - 1
        order: np.ndarray | None = None  # maps entries of Aᵀ to those of A; None if not needed
        adj_t = None
        if weights is not None or features is not None or symmetric is not True:
            indptr_t, source_t, order = _transpose(indptr, source)
            same = np.array_equal(indptr, indptr_t) and np.array_equal(source, source_t)
            if weights is not None:
                same = same and np.array_equal(weights, weights[order])
            if not same:
                values_t = None if weights is None else weights[order]
                adj_t = _csr(indptr_t, source_t, values_t, dtype)
        adj = _csr(indptr, source, weights, dtype)
        degree: np.ndarray = np.diff(indptr).astype(np.float64)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        norms = np.diff(indptr[ends]).astype(np.float64)
        if weights is not None:
            row = np.repeat(np.arange(num_nodes), np.diff(indptr))
            degree = np.bincount(row, weights, minlength=num_nodes)
            graph = np.repeat(np.arange(len(sizes)), np.diff(indptr[ends]))  # of each edge
            # the sum of a graph is the same in every batch
            norms = np.bincount(graph, weights**2, minlength=len(sizes))
        channels = []
        for c in range(0 if features is None else features.shape[1]):
            assert features is not None
            assert order is not None
            values = torch.from_numpy(np.ascontiguousarray(features[:, c])).to(dtype)
            channels.append(Channel(values, values[torch.from_numpy(order)]))
        degrees = torch.from_numpy(degree).to(dtype)
        return cls(
            layout=Layout.from_sizes(sizes),
            adj=adj,
            adj_t=adj if adj_t is None else adj_t,
            degree=degrees,
            inverse_degree=_inverse(degrees),
            squared_norm=torch.from_numpy(norms).to(dtype),
            channels=tuple(channels),
        )

    @classmethod
    def from_edge_index(
        cls,
        edge_index: Tensor,
        batch: Tensor | None = None,
        edge_weight: Tensor | None = None,
        *,
        sizes: np.ndarray | Tensor | Sequence[int] | None = None,
        batch_size: int | None = None,
        edge_attr: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> SparseGraphs:
        """Graphs in PyTorch Geometric's format: `edge_index` [2, E] and `batch` [N] in ascending order.

            graphs = SparseGraphs.from_edge_index(data.edge_index, data.batch)

        Everything is computed on the device of `edge_index`; the host waits once, for a few numbers per graph, and once
        more if `batch_size` is not given. `sizes` [B], on the host, may replace `batch`; for a single graph,
        `sizes=[num_nodes]`. `edge_weight` [E] must be at least 0 and gets no gradient. `edge_attr` [E, C] becomes the
        edge features, one channel per column.

        Edges have the direction of `edge_index`, from row 0 to row 1. An undirected edge must be given in both
        directions. Duplicate edges are merged: their weights are added; without weights, they count once.
        """
        weight = None if edge_weight is None else edge_weight.detach().to(dtype)
        if edge_attr is not None and edge_attr.shape[:1] != edge_index.shape[1:]:
            raise DataError(
                f"expected one row of edge_attr for each of the {edge_index.shape[-1]} edges, got "
                f"{list(edge_attr.shape)}: give [E, C]"
            )
        edges = sorted_edges(
            edge_index, batch, sizes, batch_size, weight, unique=edge_attr is not None
        )
        layout, adj = edges.layout, edges.adj
        if adj.values is None:
            degree = adj.indptr.diff().to(dtype)
            squares = degree
        else:
            ones = adj.values.new_ones(layout.total, 1)
            degree = spmm_forward(ones, adj.indptr, adj.indices, adj.values).squeeze(1)
            squares = spmm_forward(ones, adj.indptr, adj.indices, adj.values.square()).squeeze(1)
        channels: tuple[Channel, ...] = ()
        if edge_attr is not None:
            values = (
                edge_attr.detach().to(dtype)[edges.order].view(edge_attr.shape[0], -1).T
            )  # [C, E]
            channels = tuple(Channel(v.contiguous(), v[edges.order_t]) for v in values)
        return cls(
            layout=layout,
            adj=adj,
            adj_t=edges.adj_t,
            degree=degree,
            inverse_degree=_inverse(degree),
            squared_norm=sum_rows(squares, layout),
            channels=channels,
        )

    @classmethod
    def _from_list(cls, edges: libraries.EdgeList, dtype: torch.dtype) -> SparseGraphs:
        return cls.from_edge_index(
            edges.edge_index,
            edges.batch,
            edges.edge_weight,
            sizes=edges.sizes,
            batch_size=edges.batch_size,
            edge_attr=edges.edge_attr,
            dtype=dtype,
        )

    @classmethod
    def from_pyg(
        cls, data: Any, *, edge_features: bool = False, dtype: torch.dtype = torch.float32
    ) -> SparseGraphs:
        """The graphs of a `Batch` of PyTorch Geometric, or the graph of a `Data`, on the device of its tensors.

            for batch in DataLoader(dataset, batch_size=20):
                prediction = model(SparseGraphs.from_pyg(batch), batch.x)

        `edge_index` and, if there is one, `edge_weight` are read; with `edge_features`, also `edge_attr` [E, C]. An
        object with `graphs` in this format is read without conversion.
        """
        graphs = getattr(data, "graphs", None)
        if isinstance(graphs, SparseGraphs):
            return graphs
        return cls._from_list(libraries.from_pyg(data, edge_features), dtype)

    def to_pyg(self, x: Tensor | None = None, y: Tensor | None = None) -> Any:
        """A `Batch` of PyTorch Geometric with these graphs, on their device.

        `x` [N, F] and `y` [B] or [B, T] become those of the graphs, and edge features become `edge_attr`. Needs the
        extra `pyg`.
        """
        return libraries.to_pyg(self._as_list(), x, y)

    @classmethod
    def from_networkx(
        cls, graphs: Any, weight: str = "weight", dtype: torch.dtype = torch.float32
    ) -> SparseGraphs:
        """The graphs of a list of NetworkX graphs, or of a single one.

        Nodes are in the order of `graph.nodes`. The edge attribute `weight` is read if the edges have it; without it,
        parallel edges become one edge, weighted by their number.
        """
        return cls._from_list(libraries.from_networkx(graphs, weight), dtype)

    def to_networkx(self, weight: str = "weight") -> list[Any]:
        """A NetworkX graph for each graph, with nodes numbered from 0. Needs the extra `networkx`.

        They are of type `Graph` if A is symmetric and there are no edge features, otherwise `DiGraph`. Edges have the
        attribute `weight` unless all weights are 1; edge features become the attribute `edge_attr`.
        """
        directed = self.adj_t is not self.adj or bool(self.channels)
        return libraries.to_networkx(self._as_list(), directed, weight)

    @classmethod
    def from_scipy(cls, matrices: Any, dtype: torch.dtype = torch.float32) -> SparseGraphs:
        """The graphs of a list of adjacency matrices of SciPy (any sparse format) or NumPy, or of a single one.

        Entry [i, j] is the weight of the edge from i to j: the transpose of A, whose row i holds the edges to i.
        """
        return cls._from_list(libraries.from_scipy(matrices), dtype)

    def to_scipy(self) -> list[Any]:
        """The adjacency matrix of each graph as a `csr_array`; entry [i, j] is the weight of the edge from i to j."""
        return libraries.to_scipy(self._as_list())

    def _as_list(self) -> libraries.EdgeList:
        features = [values for values, _ in self.channels]
        return libraries.EdgeList(
            self.edge_index,
            self.edge_weight,
            torch.stack(features, -1) if features else None,
            sizes=self.layout.sizes.tolist(),
        )

    @property
    def edge_index(self) -> Tensor:
        """The edges in PyTorch Geometric's format, from row 0 to row 1, sorted by target: [2, E] int64."""
        target = torch.arange(self.num_nodes, device=self.adj.indptr.device).repeat_interleave(
            self.adj.indptr.diff(), output_size=self.num_edges
        )
        return torch.stack([self.adj.indices, target])

    @property
    def edge_weight(self) -> Tensor | None:
        """The weights of the edges in `edge_index`: [E]; None if all are 1."""
        return self.adj.values

    @property
    def num_edges(self) -> int:
        """The number of directed edges after merging: an undirected edge counts twice, a self-loop once."""
        return self.adj.indices.shape[0]

    @property
    def first_edges(self) -> Tensor:
        """The first edge of each graph: [B] int64."""
        return self.adj.indptr[self.layout.device_starts]

    def propagate(self, h: Tensor) -> Tensor:
        """A H: [N, D] → [N, D]."""
        return spmm(self.adj, self.adj_t, h)

    def propagate_channel(self, channel: int, h: Tensor) -> Tensor:
        """E_c H: [N, D] → [N, D]."""
        values, values_t = self.channels[channel]
        a, t = self.adj, self.adj_t
        return spmm(Csr(a.indptr, a.indices, values), Csr(t.indptr, t.indices, values_t), h)

    def block(self, graph: int) -> Tensor:
        """The dense adjacency matrix of one graph: [n_g, n_g]."""
        start, size = int(self.layout.starts[graph]), int(self.layout.sizes[graph])
        ends = self.adj.indptr[start : start + size + 1]
        rows = torch.repeat_interleave(torch.arange(size, device=ends.device), ends.diff())
        edges = slice(int(ends[0]), int(ends[-1]))
        values = None if self.adj.values is None else self.adj.values[edges]
        dense = self.degree.new_zeros(size, size)
        dense[rows, self.adj.indices[edges] - start] = 1.0 if values is None else values
        return dense

    def with_empty_graph(self) -> SparseGraphs:
        """These graphs and one more, with a single node and no edges."""
        degree = self.degree

        def grown(t: Tensor) -> Tensor:
            return torch.cat([t, t.new_zeros(1)])

        def with_row(m: Csr) -> Csr:
            return Csr(torch.cat([m.indptr, m.indptr[-1:]]), m.indices, m.values)

        adj = with_row(self.adj)
        return replace(
            self,
            layout=Layout.from_sizes(
                grown(self.layout.sizes).index_fill(0, torch.tensor([len(self)]), 1), degree.device
            ),
            adj=adj,
            adj_t=adj if self.adj_t is self.adj else with_row(self.adj_t),
            degree=grown(degree),
            inverse_degree=grown(self.inverse_degree),
            squared_norm=grown(self.squared_norm),
            prepared=self.prepared.with_empty_graph(),
        )

    def select(
        self, graphs: np.ndarray | Tensor | list[int], layout: Layout | None = None
    ) -> tuple[SparseGraphs, Tensor]:
        """The batch of these graphs in this order, and for each of its nodes the node in this batch: [N'].

        `layout` has the sizes of the graphs. Its rows of no graph, if any, become copies of the very last node.
        """
        device = self.degree.device
        chosen = torch.as_tensor(graphs, dtype=torch.int64)
        if layout is None:
            layout = Layout.from_sizes(self.layout.sizes[chosen], device)
        starts = self.layout.starts.index_select(0, chosen)
        nodes, adj, edges = select_rows(self.adj, starts, layout)
        adj_t, edges_t = adj, edges
        if self.adj_t is not self.adj:
            _, adj_t, edges_t = select_rows(self.adj_t, starts, layout)
        return SparseGraphs(
            layout=layout,
            adj=adj,
            adj_t=adj_t,
            degree=self.degree.index_select(0, nodes),
            inverse_degree=self.inverse_degree.index_select(0, nodes),
            squared_norm=self.squared_norm.index_select(0, chosen.to(device)),
            channels=tuple(Channel(v[edges], t[edges_t]) for v, t in self.channels),
            prepared=self.prepared.select(chosen, nodes, layout),
        ), nodes

    def repeated(self, models: int) -> SparseGraphs:
        """The same graphs for each of M models side by side."""
        if models == 1:
            return self
        sizes = self.layout.sizes.repeat(models)
        layout = Layout.from_sizes(sizes, self.degree.device, models)
        return self.select(torch.arange(len(self)).repeat(models), layout)[0]

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> SparseGraphs:
        device = device or self.degree.device
        adj = _move(self.adj, device, dtype)
        return replace(
            self,
            layout=self.layout.to(device),
            adj=adj,
            adj_t=adj if self.adj_t is self.adj else _move(self.adj_t, device, dtype),
            degree=self.degree.to(device, dtype),
            inverse_degree=self.inverse_degree.to(device, dtype),
            squared_norm=self.squared_norm.to(device, dtype),
            channels=tuple(
                Channel(v.to(device, dtype), t.to(device, dtype)) for v, t in self.channels
            ),
            prepared=self.prepared.to(device, dtype),
        )

    def __repr__(self) -> str:
        return f"SparseGraphs({len(self)} graphs, {self.num_nodes} nodes, {self.num_edges} edges)"


@dataclass(frozen=True, eq=False, repr=False)
class DenseGraphs(_Graphs):
    """B graphs as dense blocks of different sizes: the block of graph g is `adj[rows_g, :k_g]`."""

    layout: Layout
    adj: Tensor  # local [K, W]
    degree: Tensor  # [K]: A1
    inverse_degree: Tensor  # [K]: 1/degree, 0 where the degree is 0
    channels: tuple[Tensor, ...] = ()  # edge features: local [K, W] each
    prepared: Prepared = NOTHING

    @classmethod
    def from_adj(
        cls,
        layout: Layout,
        adj: Tensor,
        channels: tuple[Tensor, ...] = (),
        prepared: Prepared = NOTHING,
    ) -> DenseGraphs:
        """Graphs with these blocks: local [K, W]."""
        degree = adj.sum(-1)
        return cls(layout, adj, degree, _inverse(degree), channels, prepared)

    @property
    def squared_norm(self) -> Tensor:
        """‖A‖²_F of each graph: [B]."""
        return squared_norms(self.layout, self.adj)

    def trace(self) -> Tensor:
        """tr(A) of each graph: [B]."""
        diagonal = self.adj.gather(1, self.layout.index_in_graph[:, None]).squeeze(1)  # [K]
        return self.readout(diagonal, "sum")

    def propagate(self, h: Tensor) -> Tensor:
        """A H: [K, D] → [K, D]."""
        return multiply(self.adj, h, self.layout, self.layout)

    def propagate_channel(self, channel: int, h: Tensor) -> Tensor:
        """E_c H: [K, D] → [K, D]."""
        return multiply(self.channels[channel], h, self.layout, self.layout)

    def block(self, graph: int) -> Tensor:
        """The adjacency matrix of one graph: [k_g, k_g]."""
        start, size = int(self.layout.starts[graph]), int(self.layout.sizes[graph])
        return self.adj[start : start + size, :size]

    def __repr__(self) -> str:
        return f"DenseGraphs({len(self)} graphs, {self.num_nodes} nodes, largest {self.layout.largest})"


Graphs = SparseGraphs | DenseGraphs


def squared_norms(layout: Layout, blocks: Tensor) -> Tensor:
    """The squared Frobenius norm of each graph's block: local [K, W] → [B]."""
    return sum_rows(blocks.square().sum(-1), layout)


def _inverse(degree: Tensor) -> Tensor:
    """1/degree; 0 with a zero gradient for a node without edges or an unused cluster."""
    positive = degree > 1e-12  # below this, the gradient could overflow
    return torch.where(positive, 1 / torch.where(positive, degree, 1), 0)


def _csr(
    indptr: np.ndarray, source: np.ndarray, values: np.ndarray | None, dtype: torch.dtype
) -> Csr:
    return Csr(
        indptr=torch.from_numpy(np.ascontiguousarray(indptr, np.int64)),
        indices=torch.from_numpy(np.ascontiguousarray(source, np.int64)),
        values=None if values is None else torch.from_numpy(values).to(dtype),
    )


def _transpose(indptr: np.ndarray, source: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Aᵀ by rows, and the index of each of its entries in A."""
    from scipy.sparse import csr_array

    n = len(indptr) - 1
    t = csr_array((np.arange(len(source)), source, indptr), shape=(n, n)).tocsc()
    return t.indptr.astype(np.int64), t.indices.astype(np.int64), t.data


@accelerated
def select_rows(matrix: Csr, starts: Tensor, layout: Layout) -> tuple[Tensor, Csr, Tensor]:
    """The matrix of graphs with this layout whose rows and columns begin at `starts` [B] in `matrix`.

    Also the row of `matrix` that each row comes from, [N'], and its entry that each entry comes from, [E']. Rows of no
    graph are copies of the last row. `starts` is on the host.
    """
    device = matrix.indptr.device
    shift = (starts - layout.starts).to(device)  # [B]: old − new
    if not layout.complete:
        shift = torch.cat([shift, shift.new_zeros(1)])
    shift = shift.index_select(0, layout.graph_of_row)  # [N']
    rows = torch.arange(layout.total, device=device) + shift
    if layout.real is not None:
        rows = torch.where(layout.real, rows, len(matrix.indptr) - 2)
    first = matrix.indptr.index_select(0, rows)
    count = matrix.indptr.index_select(0, rows + 1) - first  # [N']
    end = count.cumsum(0)
    row = torch.repeat_interleave(torch.arange(len(rows), device=device), count)  # [E']
    offset = first - (end - count)  # [N']: index in the matrix − index in the result
    entries = torch.arange(row.shape[0], device=device) + offset.index_select(0, row)
    selected = Csr(
        indptr=torch.cat([end.new_zeros(1), end]),
        indices=matrix.indices.index_select(0, entries) - shift.index_select(0, row),
        values=None if matrix.values is None else matrix.values.index_select(0, entries),
    )
    return rows, selected, entries


def _move(matrix: Csr, device: torch.device | str, dtype: torch.dtype | None) -> Csr:
    values = None if matrix.values is None else matrix.values.to(device, dtype)
    return Csr(matrix.indptr.to(device), matrix.indices.to(device), values)
