"""The protocol of a pooler.

A pooler coarsens the graphs of a level in two parts, so that the first can run in parallel with the level's encoder:

    scores = pooler.gnn(graphs, x, clusters)                    from the input of the level; None without a `gnn`
    pooled = pooler(graphs, z, scores, clusters, random)        from the embeddings Z and the scores

`clusters` gives the number of clusters of each graph. `random` provides random numbers in training. Any module with
this interface works; `Pooler` is a base class that documents it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor, nn

from diffpool import equations
from diffpool.errors import DataError
from diffpool.graphs import Graphs
from diffpool.layout import Layout
from diffpool.nn.random import LayerRandom


class AnyAssignment(Protocol):
    """The assignment S of the nodes of one level to clusters, in any storage format."""

    def of_graph(self, graph: int) -> Tensor:
        """S of one graph: [n_g, k_g]."""

    def lift(self, h: Tensor) -> Tensor:
        """S H', the features of each node's clusters: [K, D] → [N, D]."""


@dataclass(frozen=True, eq=False, repr=False)
class Assignment:
    """The assignment S of the nodes of one level to clusters, with local columns: [N, W].

    Examples:
        >>> clusters = Layout.from_sizes([2, 1])
        >>> s = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
        >>> assignment = Assignment(s, graphs.layout, clusters)
        >>> assignment.of_graph(1).shape  # [n, k]
        torch.Size([3, 1])
        >>> assignment.lift(torch.tensor([[10.0], [20.0], [30.0]])).T  # [K, D] → [N, D]
        tensor([[10., 10., 20., 20., 30., 30., 30.]])
    """

    s: Tensor
    rows: Layout
    clusters: Layout

    def of_graph(self, graph: int) -> Tensor:
        """S of one graph: [n_g, k_g]."""
        start, size = int(self.rows.starts[graph]), int(self.rows.sizes[graph])
        return self.s[start : start + size, : int(self.clusters.sizes[graph])]

    def lift(self, h: Tensor) -> Tensor:
        """S H', the features of each node's clusters: [K, D] → [N, D]."""
        return equations.unpooled_features(self.s, h, self.rows, self.clusters)

    def __repr__(self) -> str:
        return f"Assignment({tuple(self.s.shape)}, {len(self.rows)} graphs)"


@dataclass(frozen=True, eq=False, repr=False)
class Pooled:
    """The result of pooling: the next level.

    Examples:
        >>> from diffpool.nn import Clusters, DiffPool, Encoder, Sage
        >>> pool = DiffPool(Encoder(Sage, [3, 2]))
        >>> clusters = Clusters(max_count=2).layout(graphs.layout)
        >>> pooled = pool(graphs, x, pool.gnn(graphs, x, clusters), clusters)
        >>> pooled.x.shape, pooled.graphs.adj.shape  # [K, 3], [K, W]
        (torch.Size([4, 3]), torch.Size([4, 2]))
        >>> pooled.losses["link"].shape  # [B]
        torch.Size([2])
    """

    graphs: Graphs
    x: Tensor  # [K, D]
    assignment: AnyAssignment
    losses: dict[str, Tensor] = field(default_factory=dict)  # each [B]

    def __repr__(self) -> str:
        return f"Pooled({self.graphs!r}, x {tuple(self.x.shape)}, losses {sorted(self.losses)})"


class Pooler(nn.Module):
    """Base class of poolers. The optional `gnn` computes scores from the input of a level.

    Examples:
        >>> class Pairs(Pooler):  # the first two nodes, the next two, …
        ...     def forward(self, graphs, z, scores, clusters, random=None):
        ...         index = graphs.layout.index_in_graph // 2
        ...         s = (index[:, None] == torch.arange(clusters.largest)).to(z.dtype)  # [N, W]
        ...         coarse = equations.pooled_graphs(graphs, s, clusters)
        ...         x = equations.pooled_features(graphs, s, z, clusters)
        ...         return Pooled(coarse, x, Assignment(s, graphs.layout, clusters))
        >>> clusters = Layout.from_sizes([2, 2])
        >>> Pairs()(graphs, x, None, clusters)  # [N, 3] → [K, 3]
        Pooled(DenseGraphs(2 graphs, 4 nodes, largest 2), x (4, 3), losses [])
    """

    def __init__(self, gnn: nn.Module | None = None):
        super().__init__()
        self.register_module("gnn", gnn)

    def forward(
        self,
        graphs: Graphs,
        z: Tensor,
        scores: Tensor | None,
        clusters: Layout,
        random: LayerRandom | None = None,
    ) -> Pooled:
        """Embeddings z [N, D] and scores [N, W] of a level → the next level.

        `random` is None in evaluation, and if no random numbers were passed to the classifier.
        """
        raise NotImplementedError


def check_scores(scores: Tensor | None) -> Tensor:
    """The scores [N, W] of a pooler that has a `gnn`."""
    if scores is None:
        raise DataError(
            "expected the scores of the pooler's gnn, got None: pass pooler.gnn(graphs, x, clusters)"
        )
    return scores
