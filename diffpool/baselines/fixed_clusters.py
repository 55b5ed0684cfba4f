"""Poolers whose assignment is not learned: clusters found beforehand (DiffPool-Det), and controls."""

from __future__ import annotations

import torch
from torch import Tensor

from diffpool import equations
from diffpool.errors import DataError
from diffpool.graphs import DenseGraphs, Graphs, Prepared
from diffpool.layout import Layout
from diffpool.nn.poolers.pooler import Assignment, Pooled, Pooler
from diffpool.nn.random import LayerRandom


class GivenClusters(Pooler):
    """Equations 3 and 4 with the clusters of `graphs.prepared.nodes`: [N, L], a column for each pooling.

    Column l is the cluster of each node of the input at pooling l: clusters of clusters are counted by node, too.
    """

    def forward(
        self,
        graphs: Graphs,
        z: Tensor,
        scores: Tensor | None,
        clusters: Layout,
        random: LayerRandom | None = None,
    ) -> Pooled:
        given, rows = graphs.prepared.nodes, graphs.layout
        if given is None or given.shape[1] == 0:
            raise DataError(
                "expected graphs with clusters for every pooling, got none: call diffpool.baselines.prepare first"
            )
        own = given[:, 0]
        s = z.new_zeros(len(z), clusters.largest).scatter(1, own[:, None], 1.0)
        if rows.real is not None:
            s = s * rows.real[:, None]
        return _pooled(graphs, s, z, clusters, _of_clusters(given, rows, clusters))


class UniformClusters(Pooler):
    """A control: every node belongs to all clusters of its graph alike, so all clusters are the same."""

    def forward(
        self,
        graphs: Graphs,
        z: Tensor,
        scores: Tensor | None,
        clusters: Layout,
        random: LayerRandom | None = None,
    ) -> Pooled:
        s = equations.assignment(z.new_zeros(len(z), clusters.largest), graphs.layout, clusters)
        return _pooled(graphs, s, z, clusters)


def _pooled(
    graphs: Graphs, s: Tensor, z: Tensor, clusters: Layout, given: Tensor | None = None
) -> Pooled:
    pooled = equations.pooled_graphs(graphs, s, clusters)
    if given is not None:
        pooled = DenseGraphs.from_adj(clusters, pooled.adj, pooled.channels, Prepared(nodes=given))
    coarse = equations.pooled_features(graphs, s, z, clusters)
    return Pooled(pooled, coarse, Assignment(s, graphs.layout, clusters))


def _of_clusters(given: Tensor, rows: Layout, clusters: Layout) -> Tensor:
    """The columns behind the first, by cluster: [N, L] → [K, L − 1]; all nodes of a cluster have the same."""
    start = torch.cat(
        [clusters.device_starts, clusters.device_starts.new_full((1,), clusters.total)]
    )
    place = start[rows.graph_of_row]
    place = torch.where(place < clusters.total, place + given[:, 0], clusters.total)  # [N]
    of_clusters = given.new_zeros(clusters.total + 1, given.shape[1] - 1)
    index = place[:, None].expand(-1, given.shape[1] - 1)
    return of_clusters.scatter_reduce(0, index, given[:, 1:], reduce="amax")[:-1]
