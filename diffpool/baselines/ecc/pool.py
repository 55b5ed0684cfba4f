"""Max pooling onto precomputed coarser graphs, as in ECC."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from diffpool.errors import DataError
from diffpool.graphs import Graphs
from diffpool.layout import Layout
from diffpool.nn.poolers.pooler import Pooled, Pooler
from diffpool.nn.random import LayerRandom
from diffpool.segment import to_rows


@dataclass(frozen=True, eq=False, repr=False)
class Parents:
    """An `Assignment` of each node to exactly one cluster, stored as its row instead of a row of S.

    Large graphs have thousands of clusters, so S is built only for a graph that is looked at (`of_graph`).
    """

    parent: Tensor  # [N] int64: a row of the coarser level; K for a row that belongs to no graph
    rows: Layout
    clusters: Layout

    def of_graph(self, graph: int) -> Tensor:
        """S of one graph: [n_g, k_g]."""
        start, size = int(self.rows.starts[graph]), int(self.rows.sizes[graph])
        local = self.parent[start : start + size, None] - int(self.clusters.starts[graph])
        s = torch.zeros(size, int(self.clusters.sizes[graph]), device=local.device)
        return s.scatter(1, local, 1.0)

    def lift(self, h: Tensor) -> Tensor:
        """S H', the features of each node's parent: [K, D] → [N, D]; zero for a row that belongs to no graph."""
        return torch.cat([h, h.new_zeros(1, h.shape[1])]).index_select(0, self.parent)

    def __repr__(self) -> str:
        return f"Parents({len(self.parent)} nodes, {len(self.rows)} graphs)"


class PyramidPool(Pooler):
    """The maximum over the nodes of each parent; parents and coarser graphs come from `graphs.prepared`.

    This is the pooling of ECC (Simonovsky and Komodakis, 2017). It has no parameters and no losses, and the pyramid
    determines its clusters, so `clusters` is None.
    """

    def forward(
        self,
        graphs: Graphs,
        z: Tensor,
        scores: Tensor | None,
        clusters: Layout | None = None,
        random: LayerRandom | None = None,
    ) -> Pooled:
        parent, coarser = graphs.prepared.nodes, graphs.prepared.coarser
        if parent is None or coarser is None:
            raise DataError(
                "expected a coarser graph for every pooling, got none: call diffpool.baselines.prepare first"
            )
        rows, columns = graphs.layout, coarser.layout
        parent = to_rows(columns.device_starts, rows) + parent  # [N]
        if rows.real is not None:  # rows that belong to no graph are pooled into an extra row
            parent = torch.where(rows.real, parent, columns.total)
        index = parent[:, None].expand_as(z)
        pooled = z.new_zeros(columns.total + 1, z.shape[1])
        pooled = pooled.scatter_reduce(0, index, z, "amax", include_self=False)[:-1]
        return Pooled(coarser, pooled, Parents(parent, rows, columns))
