"""What a pooler is: `pooler(graphs, x, z, clusters) → Pooled`.

It gets the graphs of a level, their features X and embeddings Z, and is told how many clusters each graph gets; it
answers with the coarser graphs, their features, the assignment and its own losses. Any module called so plugs in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from diffpool import equations
from diffpool.graphs import Graphs
from diffpool.layout import Layout


class AnyAssignment(Protocol):
    """An assignment S of the nodes of one level to clusters, however it is stored."""

    def of_graph(self, graph: int) -> Tensor:
        """S of one graph: [n_g, k_g]."""

    def lift(self, h: Tensor) -> Tensor:
        """S H', the features of each node's clusters: [K, D] → [N, D]."""


@dataclass(frozen=True, eq=False, repr=False)
class Assignment:
    """The assignment S of the nodes of one level to clusters, with local columns: [N, W]."""

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
    """The next level."""

    graphs: Graphs
    x: Tensor  # [K, D]
    assignment: AnyAssignment
    losses: dict[str, Tensor] = field(default_factory=dict)  # each [B]

    def __repr__(self) -> str:
        return f"Pooled({self.graphs!r}, x {tuple(self.x.shape)}, losses {sorted(self.losses)})"
