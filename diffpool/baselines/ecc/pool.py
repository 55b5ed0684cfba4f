"""Pooling onto coarser graphs that were made before any training, as in ECC."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from diffpool.errors import DataError
from diffpool.graphs import Graphs
from diffpool.layout import Layout
from diffpool.nn.poolers.pooler import Assignment, Pooled, Pooler
from diffpool.nn.random import LayerRandom
from diffpool.segment import to_rows


@dataclass(frozen=True, eq=False, repr=False)
class Parents(Assignment):
    """An assignment of each node to one cluster: `s` has only the number of the cluster, [N] int64.

    Large graphs have thousands of clusters; the matrix is made for the one graph that somebody looks at.
    """

    def of_graph(self, graph: int) -> Tensor:
        start, size = int(self.rows.starts[graph]), int(self.rows.sizes[graph])
        own = self.s[start : start + size, None]
        s = torch.zeros(size, int(self.clusters.sizes[graph]), device=own.device)
        return s.scatter(1, own, 1.0)


class PyramidPool(Pooler):
    """The maximum over the nodes of each parent; parents and coarser graphs are in `graphs.prepared`.

    ECC's (Simonovsky and Komodakis, 2017). It knows its clusters, has no parameters and no losses.
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
                "expected coarser graphs for every pooling, got none: call diffpool.baselines.prepare first"
            )
        rows, columns = graphs.layout, coarser.layout
        place = to_rows(columns.device_starts, rows) + parent  # [N]
        if rows.real is not None:  # rows of no graph go behind the last
            place = torch.where(rows.real, place, columns.total)
        index = place[:, None].expand_as(z)
        pooled = z.new_zeros(columns.total + 1, z.shape[1])
        pooled = pooled.scatter_reduce(0, index, z, "amax", include_self=False)[:-1]
        return Pooled(coarser, pooled, Parents(parent, rows, columns))
