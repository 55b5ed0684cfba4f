"""DiffPool as a layer for models in PyTorch Geometric's style."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor, nn

from diffpool import equations
from diffpool.errors import DataError
from diffpool.graphs import Graphs
from diffpool.layout import Layout
from diffpool.nn.classifier import Clusters
from diffpool.nn.convolutions import Sage
from diffpool.nn.encoder import Encoder
from diffpool.nn.poolers import Assignment
from diffpool.pooling.assign import check_logits, encode, input_names, logits_of, reset
from diffpool.pooling.checks import check_settings
from diffpool.pooling.eager import eager
from diffpool.pooling.inputs import Level, read_level
from diffpool.pooling.losses import dense_losses
from diffpool.pooling.output import PoolingOutput
from diffpool.pooling.precision import full_precision

Losses = Literal["paper", "pyg"]


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
    - `assign` is your own module. The arguments of its `forward` determine how it is called: with `edge_index` (PyTorch
      Geometric's convolutions and models) as `assign(x, edge_index)`, and with `edge_weight`, `edge_attr`, `batch` and
      `batch_size` if it takes them; with `adj` (its dense layers) as `assign(x, adj, mask)`; with `graphs`
      (`diffpool.nn`) as `assign(graphs, x)`; any other (an MLP) as `assign(x)`. It returns logits [N, clusters].
    - Without either, logits are passed to each call: `pool(x, edge_index, batch, s=logits)`.

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
        check_settings(
            in_channels,
            num_clusters,
            ratio,
            max_clusters,
            min_clusters,
            assign,
            hidden_channels,
            num_layers,
            losses,
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
        self._takes = input_names(assign)

    def reset_parameters(self) -> None:
        """Initialize the assignment network again."""
        if self.assign is not None:
            reset(self.assign)

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
        level = read_level(x, edge_index, batch, edge_weight, edge_attr, batch_size, mask)
        graphs, dtype = level.graphs, level.graphs.degree.dtype
        z = level.rows(x)
        if s is None:
            clusters, logits = self._assigned(
                level, z if assign_x is None else level.rows(assign_x)
            )
        elif assign_x is not None:
            raise DataError("expected either s or assign_x, got both: s holds the logits already")
        else:
            clusters, logits = None, check_logits(level.rows(s), graphs.num_nodes)
        if clusters is None:
            clusters = self._clusters(graphs.layout, logits.shape[1])
        if logits.shape[1] > clusters.largest:
            logits = logits[:, : clusters.largest].contiguous()
        step = _pool(graphs, logits.to(dtype), z.to(dtype), clusters)
        losses = {"link": step.link, "entropy": step.entropy}
        if self.losses == "pyg":
            losses = dense_losses(losses, graphs.layout, level.padded, self.normalize)
        total = self.link_weight * losses["link"] + self.entropy_weight * losses["entropy"]
        mixed = torch.is_autocast_enabled(x.device.type)  # then, the results are in full precision
        return PoolingOutput(
            x=step.x if mixed else step.x.to(x.dtype),
            graphs=step.graphs,
            assignment=Assignment(step.s, graphs.layout, clusters),
            losses=losses,
            loss=total.sum() / max(total.numel(), 1),
        )

    def _assigned(self, level: Level, x: Tensor) -> tuple[Layout | None, Tensor]:
        """The logits [N, clusters], and the layout of the clusters if they have local columns."""
        graphs, assign = level.graphs, self.assign
        if assign is None:
            raise DataError(
                "expected logits, because this layer has no assignment network: pass s=…, or make the layer with "
                "in_channels or assign"
            )
        if isinstance(assign, Encoder):
            clusters = self._clusters(graphs.layout, assign.num_outputs)
            return clusters, encode(assign, graphs, x.to(graphs.degree.dtype), clusters)
        return None, check_logits(logits_of(assign, self._takes, level, x), graphs.num_nodes)

    def _clusters(self, rows: Layout, width: int) -> Layout:
        """The number of clusters of each graph, for logits with `width` columns."""
        if self.ratio is None:
            if self.num_clusters not in (None, width):
                raise DataError(
                    f"expected logits with num_clusters={self.num_clusters} columns, got {width}: make the assignment "
                    "network with as many outputs"
                )
            return _cluster_layout(Clusters(width), rows)
        max_count = width if self.max_clusters is None else self.max_clusters
        clusters = _cluster_layout(Clusters(max_count, self.ratio, self.min_clusters), rows)
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


@eager
def _cluster_layout(clusters: Clusters, rows: Layout) -> Layout:
    """The layout of the coarser level; kept for the next batch if all graphs have the same number of clusters."""
    # Training could not use tensors that were made in inference mode. In a captured step, only the device knows sizes.
    if clusters.ratio is not None or torch.is_inference_mode_enabled() or not rows.complete:
        return clusters.layout(rows)
    return _equal_layout(clusters.max_count, len(rows), rows.graph_of_row.device, rows.models)


@lru_cache(maxsize=16)
def _equal_layout(count: int, graphs: int, device: torch.device, models: int) -> Layout:
    return Layout.from_sizes([count] * graphs, device, models)


@eager
def _pool(graphs: Graphs, logits: Tensor, z: Tensor, clusters: Layout) -> equations.PoolingStep:
    """`equations.pool` in full precision."""
    with full_precision(z.device.type):
        return equations.pool(graphs, logits, z, clusters)
