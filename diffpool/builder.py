"""Build a classifier from an architecture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast

from torch import nn

from diffpool.architecture import Architecture, cluster_counts
from diffpool.baselines.ecc.edge_conditioned import EdgeConditioned
from diffpool.baselines.ecc.pool import PyramidPool
from diffpool.baselines.fixed_clusters import GivenClusters, UniformClusters
from diffpool.baselines.patchy_san.convolution import FieldConvolution
from diffpool.baselines.set2set import Set2Set
from diffpool.baselines.sort_pool import SortPool
from diffpool.baselines.structure2vec import Structure2Vec
from diffpool.errors import SettingError
from diffpool.graphs import Reduction
from diffpool.nn.classifier import GraphClassifier, mlp
from diffpool.nn.convolutions import Dgcnn, EdgeSage, Gcn, Gin, NodeWise, Sage, SumConv
from diffpool.nn.encoder import Encoder, Unchanged
from diffpool.nn.node_classifier import NodeClassifier
from diffpool.nn.norm import Standardize
from diffpool.nn.poolers import DiffPool, HardDiffPool

CONVOLUTIONS: dict[str, Callable[..., nn.Module]] = {
    "sage": Sage,
    "edge-sage": EdgeSage,
    "gcn": Gcn,
    "gin": Gin,
    "sum": SumConv,
    "dgcnn": Dgcnn,
    "none": NodeWise,
    "edge-conditioned": EdgeConditioned,
    "s2v": Structure2Vec,
}

USE_EDGE_FEATURES = ("edge-sage", "edge-conditioned")
DERIVED = 2  # edge features that `baselines.ecc.pyramid` derives from the degrees of every graph


def build(
    architecture: Architecture,
    num_features: int,
    num_classes: int,
    largest: int,
    models: int = 1,
    edge_features: int = 0,
) -> GraphClassifier:
    """Build a classifier with this architecture for graphs with up to `largest` nodes."""
    a = architecture
    parts = _Parts(a, models, edge_features)
    clusters = () if a.pooler == "pyramid" else cluster_counts(a, largest)
    encoders, poolers = [], []
    width = num_features
    for level in range(a.poolings + 1):
        layers = a.layers_before if level == 0 else a.layers_after
        encoders.append(parts.encoder(width, layers))
        if level < a.poolings:
            max_clusters = clusters[level].max_count if clusters else 0
            poolers.append(parts.pooler(width, layers, max_clusters))
        width = encoders[-1].num_outputs
    readout = parts.readout(width, largest)
    read = sum(e.num_outputs for e in encoders) if a.every_level else width
    if not isinstance(readout, str):
        read = readout.num_outputs
    head = mlp(read, a.head, num_classes, models)
    inputs = Standardize(num_features, models)
    return GraphClassifier(encoders, poolers, clusters, head, readout, a.every_level, inputs)


def build_for_nodes(
    architecture: Architecture, num_features: int, num_classes: int, largest: int
) -> NodeClassifier:
    """Build a node classifier with the encoders and poolers of this architecture."""
    whole = build(architecture, num_features, num_classes, largest)
    parts = _Parts(architecture, 1, 0)
    widths = [cast(int, encoder.num_outputs) for encoder in whole.encoders]
    lifts, width = [], widths[-1]
    for finer in reversed(widths[:-1]):
        lifts.append(parts.encoder(finer + width, 1))
        width = lifts[-1].num_outputs
    head = mlp(width, architecture.head, num_classes)
    return NodeClassifier(
        list(whole.encoders),
        list(whole.poolers),
        whole.clusters,
        lifts[::-1],
        head,
        whole.inputs,
    )


@dataclass(frozen=True)
class _Parts:
    """The modules of a classifier with this architecture."""

    architecture: Architecture
    models: int
    edge_features: int

    def conv(self, name: str) -> Callable[..., nn.Module]:
        if name not in USE_EDGE_FEATURES:
            return CONVOLUTIONS[name]
        if name == "edge-sage" and self.edge_features == 0:
            raise SettingError(
                "expected edge features for the convolution edge-sage, got none: "
                "use sage, or data with edge labels or attributes"
            )
        derived = DERIVED if name == "edge-conditioned" else 0
        return partial(CONVOLUTIONS[name], channels=self.edge_features + derived)

    def encoder(self, width: int, layers: int) -> Encoder | Structure2Vec | Unchanged:
        """The embedding network of a level."""
        a, models = self.architecture, self.models
        if a.readout == "fields":
            return Unchanged(width)
        if a.conv == "s2v":
            return Structure2Vec(width, a.hidden, layers, a.last_order, models)
        sizes = [width] + [a.hidden] * layers
        if a.readout == "sort":  # SortPool sorts the nodes by a single column
            sizes.append(1)
        return Encoder(
            self.conv(a.conv),
            sizes,
            order=a.order,
            last_order=a.last_order,
            concat=a.concat,
            models=models,
        )

    def pooler(self, width: int, layers: int, max_clusters: int) -> nn.Module:
        """The pooler of a level, for up to `max_clusters` clusters per graph."""
        a = self.architecture
        if a.pooler in ("graclus", "random"):
            return GivenClusters()
        if a.pooler == "uniform":
            return UniformClusters()
        if a.pooler == "pyramid":
            return PyramidPool()
        layers = a.assignment_layers or layers
        gnn = Encoder(
            self.conv(a.assignment_conv or ("sage" if a.conv == "s2v" else a.conv)),
            [width] + [a.hidden] * (layers - 1) + [max_clusters],
            order=a.order,
            last_order=a.assignment_order,
            concat=a.assignment_linear,
            outputs=max_clusters if a.assignment_linear else None,
            models=self.models,
        )
        if a.assignment == "soft":
            return DiffPool(gnn)
        return HardDiffPool(gnn, gumbel=a.assignment == "gumbel")

    def readout(
        self, width: int, largest: int
    ) -> Reduction | Set2Set | SortPool | FieldConvolution:
        """The readout, which maps the nodes of a graph to one vector."""
        a, models = self.architecture, self.models
        if a.readout == "set2set":
            return Set2Set(width, a.set2set_steps or largest, models)
        if a.readout == "sort":
            return SortPool(width, a.sorted_nodes, models=models)
        if a.readout == "fields":
            return FieldConvolution(
                width, a.field_count, a.field_size, self.edge_features, models=models
            )
        return cast(Reduction, a.readout)
