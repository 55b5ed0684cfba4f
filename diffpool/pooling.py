"""DiffPool as a layer for models in PyTorch Geometric's style; it needs tensors only."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, Literal, ParamSpec, TypeVar

import torch
from torch import Tensor, nn

from diffpool import equations
from diffpool.edges import sorted_edges
from diffpool.errors import DataError, SettingError
from diffpool.exchange import (
    check_padded,
    dense_from_edges,
    edge_list,
    from_padded,
    padded_adj,
    padded_mask,
    padded_rows,
)
from diffpool.graphs import DenseGraphs, Graphs, SparseGraphs
from diffpool.layout import Layout
from diffpool.nn.classifier import Clusters
from diffpool.nn.convolutions import Sage
from diffpool.nn.encoder import Encoder
from diffpool.nn.poolers import Assignment

Losses = Literal["paper", "pyg"]
P = ParamSpec("P")
R = TypeVar("R")


def _eager(function: Callable[P, R]) -> Callable[P, R]:
    """Keep a function out of compiled programs: torch.compile continues after it."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.compiler.is_compiling():  # importing the compiler takes seconds
            return torch.compiler.disable(function)(*args, **kwargs)
        return function(*args, **kwargs)

    return call


@dataclass(frozen=True, eq=False, repr=False)
class PoolingOutput:
    """The coarser level that `DiffPooling` returns. B graphs with K clusters in all, at most W in a graph.

    `x` [K, D] are the features of the clusters. The coarse graphs come in three formats; each is made when it is first
    asked for:

        out.edge_index, out.edge_weight, out.batch     for PyTorch Geometric's layers
        out.x_dense, out.adj, out.mask                 for its dense layers: [B, W, D], [B, W, W], [B, W]
        out.graphs                                     for another `DiffPooling` and for `diffpool.nn`
    """

    x: Tensor  # [K, D]
    graphs: DenseGraphs
    assignment: Assignment  # S: `assignment.s` [N, W], and `assignment.of_graph(i)` [n_i, k_i]
    losses: dict[str, Tensor]  # `link` and `entropy`: each [B], or [] with losses="pyg"
    loss: Tensor  # []: their weighted sum, averaged over the graphs

    @property
    def batch(self) -> Tensor:
        """The graph of each cluster: [K] int64."""
        return self.graphs.layout.graph_of_row

    @property
    def batch_size(self) -> int:
        """The number of graphs."""
        return len(self.graphs)

    @property
    def edge_index(self) -> Tensor:
        """All ordered pairs of clusters of each graph, a cluster with itself included: [2, Σ k²], sorted by source."""
        return self._edges[0]

    @property
    def edge_weight(self) -> Tensor:
        """A' for each pair in `edge_index`: [Σ k²]; 0 for pairs without an edge between their clusters."""
        weight = self._edges[1]
        assert weight is not None
        return weight.to(self.x.dtype)

    @cached_property
    def _edges(self) -> tuple[Tensor, Tensor | None]:
        return _edge_list(self.graphs)

    @cached_property
    def adj(self) -> Tensor:
        """A' padded: [B, W, W]. `adj[b, i, j]` is the weight of the edge from i to j, as in `to_dense_adj`."""
        return padded_adj(self.graphs).to(self.x.dtype)

    @cached_property
    def mask(self) -> Tensor:
        """Which rows of `x_dense` are clusters: [B, W] bool. All of them, if every graph has W clusters."""
        return padded_mask(self.graphs.layout)

    @cached_property
    def x_dense(self) -> Tensor:
        """The features, padded with zeros: [B, W, D]."""
        return padded_rows(self.x, self.graphs.layout)

    def lift(self, h: Tensor) -> Tensor:
        """S H, from the clusters back to the nodes: [K, D] or [B, W, D] → [N, D]."""
        if h.dim() == 3:
            h = h.flatten(0, 1).index_select(0, self.graphs.layout.slot_of_row)
        if h.shape[:1] != self.x.shape[:1]:
            raise DataError(
                f"expected one row for each of {self.x.shape[0]} clusters, got {list(h.shape)}: lift takes features "
                "of the clusters, [K, D] or [B, W, D]"
            )
        s = self.assignment.s
        with torch.autocast(h.device.type, enabled=False):
            return self.assignment.lift(h.to(s.dtype)).to(h.dtype)

    def __repr__(self) -> str:
        return f"PoolingOutput(x={list(self.x.shape)}, graphs={self.graphs!r}, losses={sorted(self.losses)})"


class DiffPooling(nn.Module):
    """Pool every graph of a batch to a few clusters, with a learned soft assignment (Ying et al., 2018).

        pool = DiffPooling(64, num_clusters=8)               # with its own assignment network
        out = pool(x, edge_index, batch)                     # x [N, 64]
        out.x                                                # [8 B, 64]
        out.edge_index, out.edge_weight, out.batch           # for the next convolution
        out.adj, out.mask                                    # or dense: [B, 8, 8], [B, 8]
        loss = cross_entropy(head(out.x), y) + out.loss      # link and entropy loss

    The number of clusters is `num_clusters` for every graph, or `ratio` times its number of nodes, rounded up. It never
    depends on the rest of the batch, and no graph is padded.

    The assignment S is the softmax of the logits of a network:

    - With `in_channels`, the layer has its own: GraphSAGE with `num_layers` layers, l2 and batch normalization.
    - `assign` is a module of your own. It is called by the names in its `forward`: with `edge_index` (PyTorch
      Geometric's convolutions and models) as `assign(x, edge_index)`, and with `edge_weight`, `edge_attr`, `batch` and
      `batch_size` if it takes them; with `adj` (its dense layers) as `assign(x, adj, mask)`; with `graphs`
      (`diffpool.nn`) as `assign(graphs, x)`; any other (an MLP) as `assign(x)`. It returns logits [N, clusters].
    - Without both, logits are passed to each call: `pool(x, edge_index, batch, s=logits)`.

    Args:
        in_channels: number of features that the layer's own assignment network reads.
        num_clusters: number of clusters of every graph. With `assign`, it is the number of its outputs.
        ratio: number of clusters as a fraction of the nodes of each graph, instead of `num_clusters`.
        max_clusters: with `ratio`, the maximum number of clusters per graph. The layer's own network has as many
            outputs, so it is required with `in_channels`; otherwise it is the number of logits.
        min_clusters: with `ratio`, the minimum number of clusters per graph (or its nodes, if they are fewer).
        assign: a module that computes the logits, instead of `in_channels`.
        hidden_channels: width of the hidden layers of the layer's own network.
        num_layers: number of layers of the layer's own network.
        losses: "paper" for ‖A − SSᵀ‖_F and the mean entropy of each graph: [B]. "pyg" for the two numbers that
            `torch_geometric.nn.dense_diff_pool` returns for the padded batch: [].
        normalize: with losses="pyg", divide the link loss by the number of entries of the padded adjacency matrices.
        link_weight: weight of the link loss in `out.loss`.
        entropy_weight: weight of the entropy loss in `out.loss`.
    """

    def __init__(
        self,
        in_channels: int | None = None,
        num_clusters: int | None = None,
        *,
        ratio: float | None = None,
        max_clusters: int | None = None,
        min_clusters: int = 1,
        assign: nn.Module | None = None,
        hidden_channels: int = 64,
        num_layers: int = 2,
        losses: Losses = "paper",
        normalize: bool = True,
        link_weight: float = 1.0,
        entropy_weight: float = 1.0,
    ):
        super().__init__()
        _check_settings(
            in_channels, num_clusters, ratio, max_clusters, min_clusters, assign, losses
        )
        self.in_channels, self.num_clusters, self.ratio = in_channels, num_clusters, ratio
        self.max_clusters, self.min_clusters = max_clusters, min_clusters
        self.losses, self.normalize = losses, normalize
        self.link_weight, self.entropy_weight = link_weight, entropy_weight
        if in_channels is not None:
            outputs = max_clusters if num_clusters is None else num_clusters
            assert outputs is not None
            sizes = [in_channels, *[hidden_channels] * (num_layers - 1), outputs]
            assign = Encoder(Sage, sizes, last_order=("batch",))
        self.assign = assign
        self._takes = _inputs_of(assign)

    def reset_parameters(self) -> None:
        """Initialize the assignment network again."""
        if self.assign is not None:
            _reset(self.assign)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | Graphs,
        batch: Tensor | None = None,
        *,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch_size: int | None = None,
        mask: Tensor | None = None,
        s: Tensor | None = None,
        assign_x: Tensor | None = None,
    ) -> PoolingOutput:
        """Pool the features x [N, D] of B graphs: X' = SᵀX, A' = SᵀAS.

            out = pool(x, edge_index, batch)                   # [N, D], [2, E], [N]
            out = pool(x, edge_index)                          # a single graph
            out = pool(z, edge_index, batch, assign_x=x)       # pools Z = GNN(A, X), assigns by X, as in the paper
            out = pool(x, edge_index, batch, s=logits)         # with logits [N, clusters]
            next = pool2(h, out.graphs)                        # the next level, h [K, D]
            out = pool(x, adj, mask=mask)                      # padded: [B, n, D], [B, n, n], [B, n]

        All work is done on the device of the tensors. The host waits for the sizes of the graphs, once per batch
        (twice without `batch_size`), and not at all for `out.graphs` or for adj without a mask.

        Args:
            x: features that are pooled: [N, D].
            edge_index: edges from row 0 to row 1, [2, E]; undirected edges in both directions. Or the `graphs` of the
                level before or of `SparseGraphs.from_edge_index`. Or padded adjacency matrices [B, n, n].
            batch: graph of each node in ascending order, [N]. None: a single graph.
            edge_weight: weights of at least 0, [E]. Weights that require a gradient get one; then A is stored as dense
                blocks.
            edge_attr: edge features [E, …]. They are passed to an `assign` that takes them, and not pooled.
            batch_size: number of graphs B; avoids waiting for the device.
            mask: which rows of padded features are nodes, [B, n] bool.
            s: logits of the assignment, [N, clusters], instead of an assignment network.
            assign_x: features that the assignment network reads, [N, in_channels], if they are not x.
        """
        level = _level(x, edge_index, batch, edge_weight, batch_size, mask)
        graphs, dtype = level.graphs, level.graphs.degree.dtype
        rows = level.rows(x)
        if s is None:
            read = rows if assign_x is None else level.rows(assign_x)
            clusters, logits = self._assigned(level, read, edge_index, edge_weight, edge_attr)
        elif assign_x is not None:
            raise DataError("expected either s or assign_x, got both: s holds the logits already")
        else:
            clusters, logits = None, level.rows(s)
        width = _width(logits, graphs.num_nodes)
        if clusters is None:
            clusters = self._clusters(graphs.layout, width)
        if logits.shape[1] > clusters.largest:
            logits = logits[:, : clusters.largest].contiguous()
        step = _pool(graphs, logits.to(dtype), rows.to(dtype), clusters)
        losses = {"link": step.link, "entropy": step.entropy}
        if self.losses == "pyg":
            losses = _padded_losses(losses, graphs.layout, level.padded, self.normalize)
        total = self.link_weight * losses["link"] + self.entropy_weight * losses["entropy"]
        half = not torch.is_autocast_enabled(x.device.type)
        return PoolingOutput(
            x=step.x.to(x.dtype) if half else step.x,
            graphs=step.graphs,
            assignment=Assignment(step.s, graphs.layout, clusters),
            losses=losses,
            loss=total.sum() / max(total.numel(), 1),
        )

    def _assigned(
        self,
        level: _Level,
        x: Tensor,
        edge_index: Tensor | Graphs,
        edge_weight: Tensor | None,
        edge_attr: Tensor | None,
    ) -> tuple[Layout | None, Tensor]:
        """The logits [N, clusters], and the layout of the clusters if they have local columns."""
        graphs, assign, takes = level.graphs, self.assign, self._takes
        if assign is None:
            raise DataError(
                "expected logits, because this layer has no assignment network: pass s=…, or make the layer with "
                "in_channels or assign"
            )
        if isinstance(assign, Encoder):
            clusters = self._clusters(graphs.layout, assign.num_outputs)
            return clusters, _encode(assign, graphs, x.to(graphs.degree.dtype), clusters)
        if "graphs" in takes:
            return None, assign(graphs, x)
        if "edge_index" in takes:
            if not level.given:
                edge_index, edge_weight = _edge_list(graphs)
            extra = {
                "edge_weight": edge_weight,
                "edge_attr": edge_attr,
                "batch": graphs.layout.graph_of_row,
                "batch_size": len(graphs),
            }
            known = {k: v for k, v in extra.items() if k in takes and v is not None}
            return None, assign(x, edge_index, **known)
        if "adj" in takes:
            if not isinstance(graphs, DenseGraphs):
                raise DataError(
                    f"expected an assignment network for edge lists, got {type(assign).__name__} for dense adjacency "
                    "matrices: use its sparse counterpart, or pass adj [B, n, n]"
                )
            rows = graphs.layout
            adj, where = padded_adj(graphs).to(x.dtype), padded_mask(rows)
            logits = assign(padded_rows(x, rows), adj, where)
            return None, logits.flatten(0, 1).index_select(0, rows.slot_of_row)
        known = {"batch": graphs.layout.graph_of_row, "batch_size": len(graphs)}
        return None, assign(x, **{k: v for k, v in known.items() if k in takes})

    def _clusters(self, rows: Layout, width: int) -> Layout:
        """The number of clusters of each graph, for logits with `width` columns."""
        if self.ratio is None:
            if self.num_clusters not in (None, width):
                raise DataError(
                    f"expected logits with num_clusters={self.num_clusters} columns, got {width}: make the assignment "
                    "network with as many outputs"
                )
            return _cluster_layout(Clusters(width), rows)
        most = width if self.max_clusters is None else self.max_clusters
        clusters = _cluster_layout(Clusters(most, self.ratio, self.min_clusters), rows)
        if clusters.largest > width:
            raise DataError(
                f"expected logits for the {clusters.largest} clusters of the largest graph, got {width} columns: make "
                "the assignment network with more outputs, or reduce max_clusters"
            )
        return clusters

    def extra_repr(self) -> str:
        shown: dict[str, Any] = {
            "in_channels": self.in_channels,
            "num_clusters": self.num_clusters,
        }
        if self.ratio is not None:
            shown |= {"ratio": self.ratio, "max_clusters": self.max_clusters}
        if self.losses != "paper":
            shown["losses"] = self.losses
        return ", ".join(f"{name}={value!r}" for name, value in shown.items() if value is not None)


# --- the input --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Level:
    """The graphs of a call, in the format of the package."""

    graphs: Graphs
    given: bool = False  # whether they were given as edge_index
    nodes: Tensor | None = None  # [N]: the padded row of each node
    padded: int | None = None  # n of padded input

    def rows(self, h: Tensor) -> Tensor:
        """One row per node, of features [N, D] or padded features [B, n, D]: [N, D]."""
        if self.padded is not None and h.dim() == 3:
            h = h.flatten(0, 1)
            h = h if self.nodes is None else h.index_select(0, self.nodes)
        if h.dim() != 2 or h.shape[0] != self.graphs.num_nodes:
            raise DataError(
                f"expected one row of features for each of {self.graphs.num_nodes} nodes, [N, D], got {list(h.shape)}"
            )
        return h


@_eager
def _level(
    x: Tensor,
    edge_index: Tensor | Graphs,
    batch: Tensor | None,
    edge_weight: Tensor | None,
    batch_size: int | None,
    mask: Tensor | None,
) -> _Level:
    """The graphs of a call; not compiled, because it waits for sizes."""
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    alone = all(given is None for given in (batch, edge_weight, batch_size))
    if not isinstance(edge_index, Tensor):
        if not alone or mask is not None:
            raise DataError(
                "expected no batch, edge_weight, batch_size or mask with graphs, which have their own: leave them out"
            )
        if isinstance(edge_index, SparseGraphs):
            return _Level(
                edge_index.to(dtype=dtype) if edge_index.degree.dtype != dtype else edge_index
            )
        if edge_index.degree.dtype != dtype:
            raise DataError(
                f"expected features in the precision of the graphs, {edge_index.degree.dtype}, got {x.dtype}: convert "
                "the features"
            )
        return _Level(edge_index)
    if edge_index.dim() == 3:
        check_padded(x, edge_index, mask)
        if not alone:
            raise DataError(
                "expected no batch, edge_weight or batch_size with adj [B, n, n], which has them: leave them out"
            )
        graphs, nodes = from_padded(edge_index.to(dtype), mask)
        return _Level(graphs, nodes=nodes, padded=x.shape[1])
    if mask is not None:
        raise DataError(
            "expected a mask only with adj [B, n, n]: leave it out, batch has its place"
        )
    sizes = [x.shape[0]] if batch is None else None
    if edge_weight is not None and edge_weight.requires_grad and torch.is_grad_enabled():
        edges = sorted_edges(edge_index, batch, sizes, batch_size, edge_weight.detach())
        return _Level(dense_from_edges(edges.layout, edge_index, edge_weight.to(dtype)), given=True)
    return _Level(
        SparseGraphs.from_edge_index(
            edge_index, batch, edge_weight, sizes=sizes, batch_size=batch_size, dtype=dtype
        ),
        given=True,
    )


@_eager
def _encode(encoder: Encoder, graphs: Graphs, x: Tensor, clusters: Layout) -> Tensor:
    """The logits of an encoder of this package, in full precision; not compiled, so that its kernels are used."""
    with torch.autocast(x.device.type, enabled=False):
        return encoder(graphs, x, clusters)


_edge_list = _eager(edge_list)


def _inputs_of(assign: nn.Module | None) -> frozenset[str]:
    """The names of the arguments of a module's `forward`."""
    if assign is None:
        return frozenset()
    module: Any = getattr(assign, "_orig_mod", assign)  # what torch.compile wraps
    names = frozenset(inspect.signature(module.forward).parameters)
    if names == {"args", "kwargs"}:  # PyTorch Geometric's Sequential
        names = frozenset(getattr(getattr(module, "signature", None), "param_dict", names))
    if names == {"args", "kwargs"}:
        raise SettingError(
            f"expected an assignment network whose forward names its arguments, got {type(module).__name__} with *args "
            "and **kwargs: wrap it in a module with forward(self, x, edge_index) or forward(self, x)"
        )
    return names


def _reset(module: nn.Module) -> None:
    reset: Any = getattr(module, "reset_parameters", None)
    if reset is not None:
        reset()
    else:
        for child in module.children():
            _reset(child)


def _width(logits: Tensor, num_nodes: int) -> int:
    """The number of columns of logits, checked."""
    if logits.dim() != 2 or logits.shape[0] != num_nodes or not logits.is_floating_point():
        raise DataError(
            f"expected logits [{num_nodes}, clusters], one row per node, got {logits.dtype} {list(logits.shape)}"
        )
    return logits.shape[1]


def _check_settings(
    in_channels: int | None,
    num_clusters: int | None,
    ratio: float | None,
    max_clusters: int | None,
    min_clusters: int,
    assign: nn.Module | None,
    losses: str,
) -> None:
    for name, value in (
        ("in_channels", in_channels),
        ("num_clusters", num_clusters),
        ("max_clusters", max_clusters),
        ("min_clusters", min_clusters),
    ):
        if value is not None and (not isinstance(value, int) or value < 1):
            hint = ": a module goes to assign=…" if isinstance(value, nn.Module) else ""
            raise SettingError(
                f"expected {name} to be an integer of at least 1, got {value!r}{hint}"
            )
    if ratio is not None and not 0 < ratio <= 1:
        raise SettingError(f"expected a ratio above 0 and up to 1, got {ratio!r}")
    if ratio is not None and num_clusters is not None:
        raise SettingError(
            "expected num_clusters or ratio, got both: to limit the clusters of large graphs, use max_clusters"
        )
    if ratio is None and (max_clusters is not None or min_clusters != 1):
        raise SettingError("expected max_clusters and min_clusters only with a ratio, got no ratio")
    if in_channels is not None and assign is not None:
        raise SettingError(
            "expected in_channels, for the layer's own assignment network, or assign, got both: leave one out"
        )
    if in_channels is not None and num_clusters is None and max_clusters is None:
        raise SettingError(
            "expected the number of outputs of the assignment network: give num_clusters, or max_clusters with a ratio "
            "(the ratio times the nodes of the largest graph)"
        )
    if losses not in ("paper", "pyg"):
        raise SettingError(f"expected losses to be 'paper' or 'pyg', got {losses!r}")


# --- the output -------------------------------------------------------------------------------------------------------


@_eager
def _cluster_layout(clusters: Clusters, rows: Layout) -> Layout:
    return clusters.layout(rows)


@_eager
def _pool(graphs: Graphs, logits: Tensor, z: Tensor, clusters: Layout) -> equations.PoolingStep:
    """`equations.pool` in full precision; not compiled, so that its kernels are used."""
    with torch.autocast(z.device.type, enabled=False):
        return equations.pool(graphs, logits, z, clusters)


def _padded_losses(
    losses: dict[str, Tensor], rows: Layout, size: int | None, normalize: bool
) -> dict[str, Tensor]:
    """The losses of `dense_diff_pool` from those of each graph: [B] → [] each.

    With the graphs padded to n nodes, ‖A − SSᵀ‖_F of the whole batch is divided by B n², and the entropy is averaged
    over all B n rows, padded ones included. Padding adds nothing to either sum.
    """
    graphs, size = len(rows), rows.largest if size is None else size
    link = torch.linalg.vector_norm(losses["link"])
    entropy = losses["entropy"] @ rows.device_sizes.to(losses["entropy"].dtype)
    scale = max(graphs * size**2, 1) if normalize else 1
    return {"link": link / scale, "entropy": entropy / max(graphs * size, 1)}
