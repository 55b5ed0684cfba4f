"""Poolers whose assignment is not learned: precomputed clusters (DiffPool-Det), and controls."""

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
    """Equations 3 and 4 with the clusters in `graphs.prepared.nodes`: [N, L], one column for each pooling.

    Column l has the cluster of each input node after pooling l, also for clusters of clusters.
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
        s = z.new_zeros(len(z), clusters.largest).scatter(1, given[:, :1], 1.0)
        if rows.real is not None:
            s = s * rows.real[:, None]
        return _pooled(graphs, s, z, clusters, given_of_clusters(given, rows, clusters))


class UniformClusters(Pooler):
    """A control: every node belongs equally to all clusters of its graph, so all clusters are the same."""

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


def given_of_clusters(given: Tensor, rows: Layout, clusters: Layout) -> Tensor:
    """The columns after the first, one row for each cluster: [N, L] → [K, L − 1]. They agree within a cluster."""
    start = torch.cat(
        [clusters.device_starts, clusters.device_starts.new_full((1,), clusters.total)]
    )
    row = start[rows.graph_of_row]
    row = torch.where(row < clusters.total, row + given[:, 0], clusters.total)  # [N]
    coarser = given.new_zeros(clusters.total + 1, given.shape[1] - 1)
    index = row[:, None].expand(-1, given.shape[1] - 1)
    return coarser.scatter_reduce(0, index, given[:, 1:], reduce="amax")[:-1]
