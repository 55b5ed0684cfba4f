"""An architecture as data, the presets, and the classifier built from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import nn

from diffpool.errors import SettingError
from diffpool.graphs import How
from diffpool.nn.classifier import Clusters, GraphClassifier, mlp, share
from diffpool.nn.convolutions import EdgeSage, Gcn, Gin, Sage, SumConv
from diffpool.nn.encoder import Encoder
from diffpool.nn.norm import STEPS, Standardise
from diffpool.nn.poolers import DiffPool

CONVOLUTIONS: dict[str, Callable[..., nn.Module]] = {
    "sage": Sage,
    "edge-sage": EdgeSage,
    "gcn": Gcn,
    "gin": Gin,
    "sum": SumConv,
}

MOST = {"hidden": 2**20, "layers_before": 1000, "layers_after": 1000, "poolings": 100}


@dataclass(frozen=True)
class Architecture:
    """Everything that fixes the shape of a classifier but the data.

    Attributes:
        conv: the convolution, a name of `CONVOLUTIONS`.
        hidden: width of every embedding.
        poolings: number of pooling layers; 0 is a flat GNN.
        layers_before: convolutions before the first pooling, in the embedding and in the pooling network.
        layers_after: convolutions after each pooling, likewise.
        ratio: clusters as a share of the nodes; None is the paper's 0.1 for one pooling, 0.25 for two.
        clusters: "graph" for ceil(ratio · n_g) in each graph, "dataset" for that of the largest graph in all of them,
            or the numbers themselves, one for each pooling.
        order: the steps after a convolution, of "l2", "relu", "batch" and "node-index".
        last_order: the same after the last convolution of an embedding network.
        assignment_order: the same after the last convolution of a pooling network.
        concat: whether an embedding is the output of all layers side by side.
        assignment_linear: whether a pooling network ends in a linear layer on all its layers side by side.
        readout: "sum" (the paper's S = ones), "mean" or "max".
        every_level: whether every level is read out and concatenated, or the last one only.
        head: widths of the hidden layers before the softmax layer.
    """

    conv: str = "sage"
    hidden: int = 64
    poolings: int = 1
    layers_before: int = 2
    layers_after: int = 3
    ratio: float | None = None
    clusters: str | tuple[int, ...] = "graph"
    order: tuple[str, ...] = ("l2", "relu", "batch")
    last_order: tuple[str, ...] = ("l2", "relu", "batch")
    assignment_order: tuple[str, ...] = ("batch",)
    concat: bool = False
    assignment_linear: bool = False
    readout: How = "sum"
    every_level: bool = False
    head: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.conv not in CONVOLUTIONS:
            raise SettingError(
                f"expected a convolution of {', '.join(CONVOLUTIONS)}, got {self.conv!r}"
            )
        for name in ("hidden", "layers_before", "layers_after", "poolings"):
            value, least = getattr(self, name), 0 if name == "poolings" else 1
            if type(value) is not int or not least <= value <= MOST[name]:
                raise SettingError(f"expected {name} from {least} to {MOST[name]}, got {value!r}")
        if not all(type(width) is int and width > 0 for width in self.head):
            raise SettingError(f"expected widths of at least 1 in head, got {self.head}")
        if isinstance(self.clusters, list):
            object.__setattr__(self, "clusters", tuple(self.clusters))
        if not 0 < self.cluster_ratio <= 1:
            raise SettingError(f"expected a ratio above 0 and at most 1, got {self.cluster_ratio}")
        if self.readout not in ("sum", "mean", "max"):
            raise SettingError(f"expected a readout of sum, mean, max, got {self.readout!r}")
        unknown = {*self.order, *self.last_order, *self.assignment_order} - set(STEPS)
        if unknown:
            raise SettingError(f"expected steps of {', '.join(STEPS)}, got {sorted(unknown)}")
        if isinstance(self.clusters, str):
            if self.clusters not in ("graph", "dataset"):
                raise SettingError(
                    f"expected clusters graph, dataset or numbers, got {self.clusters!r}"
                )
        elif len(self.clusters) != self.poolings or min(self.clusters, default=1) < 1:
            raise SettingError(
                f"expected one number of clusters, at least 1, for each of {self.poolings} poolings, "
                f"got {self.clusters}"
            )

    @property
    def cluster_ratio(self) -> float:
        return self.ratio if self.ratio is not None else (0.1 if self.poolings == 1 else 0.25)


PAPER = Architecture()

# Rows 1, 2, 3, 4, 5, 6, 7, 8 and 9 of docs/paper-vs-code-vs-ours.md.
RELEASED = Architecture(
    conv="sum",
    hidden=30,
    layers_before=3,
    layers_after=3,
    clusters="dataset",
    order=("l2", "relu", "node-index"),
    last_order=("l2",),
    assignment_order=("l2",),
    concat=True,
    assignment_linear=True,
    readout="max",
    every_level=True,
    head=(50,),
)

PRESETS = {"paper": PAPER, "released": RELEASED}


def flat(architecture: Architecture) -> Architecture:
    """The flat GNN of the same depth and width, with the mean as its readout (the paper's GraphSAGE baseline)."""
    depth = architecture.layers_before + architecture.poolings * architecture.layers_after
    return replace(architecture, poolings=0, layers_before=depth, readout="mean")


def cluster_counts(architecture: Architecture, largest: int) -> tuple[Clusters, ...]:
    """How many clusters each pooling makes when the largest graph of the data set has `largest` nodes."""
    if isinstance(architecture.clusters, tuple):
        return tuple(Clusters(most) for most in architecture.clusters)
    ratio = architecture.cluster_ratio
    counts: list[Clusters] = []
    for _ in range(architecture.poolings):
        largest = max(share(ratio, largest), 1)
        counts.append(Clusters(largest, ratio if architecture.clusters == "graph" else None))
    return tuple(counts)


def build(
    architecture: Architecture,
    num_features: int,
    num_classes: int,
    largest: int,
    models: int = 1,
    edge_features: int = 0,
) -> GraphClassifier:
    """The classifier of this architecture for graphs of up to `largest` nodes."""
    a = architecture
    conv = CONVOLUTIONS[a.conv]
    if conv is EdgeSage:
        if edge_features == 0:
            raise SettingError(
                "expected edge features for the convolution edge-sage, got none: "
                "use sage, or data with edge labels or attributes"
            )
        conv = partial(EdgeSage, channels=edge_features)
    clusters = cluster_counts(a, largest)
    common: dict[str, Any] = {"order": a.order, "models": models}
    encoders, poolers = [], []
    width = num_features
    for level in range(a.poolings + 1):
        hidden = [a.hidden] * (a.layers_before if level == 0 else a.layers_after)
        encoder = Encoder(
            conv, [width, *hidden], last_order=a.last_order, concat=a.concat, **common
        )
        encoders.append(encoder)
        if level < a.poolings:
            most = clusters[level].most
            gnn = Encoder(
                conv,
                [width, *hidden[:-1], most],
                last_order=a.assignment_order,
                concat=a.assignment_linear,
                outputs=most if a.assignment_linear else None,
                **common,
            )
            poolers.append(DiffPool(gnn))
        width = encoder.num_outputs
    read = sum(e.num_outputs for e in encoders) if a.every_level else width
    head = mlp(read, a.head, num_classes, models)
    inputs = Standardise(num_features, models)
    return GraphClassifier(encoders, poolers, clusters, head, a.readout, a.every_level, inputs)
