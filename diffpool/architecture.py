"""Architectures as configuration, and the presets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from diffpool.errors import SettingError
from diffpool.settings import check_settings, setting

if TYPE_CHECKING:
    from diffpool.nn.classifier import Clusters

CONVOLUTIONS = (
    "sage",
    "edge-sage",
    "gcn",
    "gin",
    "sum",
    "dgcnn",
    "none",
    "edge-conditioned",
    "s2v",
)
STEPS = ("l2", "relu", "tanh", "batch", "node-index")
# Guards against damaged files and typos; no real model comes close.
MAX_SIZE = 2**20  # nodes or clusters
MAX_WIDTH = 2**14
MAX_LAYERS = 100
MAX_POOLINGS = 10
MAX_STEPS = 1000


@dataclass(frozen=True)
class Architecture:
    """Everything that determines the shape of a classifier, except the data."""

    conv: str = setting(
        "sage",
        help="Convolution. edge-sage uses edge labels and attributes; none ignores the edges.",
        choices=CONVOLUTIONS,
    )
    hidden: int = setting(64, help="Width of the node embeddings.", low=1, high=MAX_WIDTH)
    poolings: int = setting(
        1,
        help="Number of pooling layers. 0 gives a flat GNN; the paper uses 1 or 2.",
        low=0,
        high=MAX_POOLINGS,
    )
    layers_before: int = setting(
        2,
        help="Number of convolutions in each network before the first pooling.",
        low=1,
        high=MAX_LAYERS,
    )
    layers_after: int = setting(
        3,
        help="Number of convolutions in each network after each pooling.",
        low=1,
        high=MAX_LAYERS,
    )
    ratio: float | None = setting(
        None,
        help="Number of clusters as a fraction of the number of nodes.",
        above=0,
        high=1,
        none="0.1 for one pooling, otherwise 0.25",
    )
    clusters: str | tuple[int, ...] = setting(
        "graph",
        help="Number of clusters: graph applies the ratio to each graph, dataset applies it to the largest graph, "
        "and a list such as 20,5 gives one number for each pooling.",
        choices=("graph", "dataset"),
        low=1,
        high=MAX_SIZE,
    )
    min_clusters: int = setting(
        1,
        help="Minimum number of clusters per graph at each pooling, used where the ratio gives fewer. A graph with "
        "fewer nodes than this has one cluster per node.",
        low=1,
        high=MAX_WIDTH,
    )
    order: tuple[str, ...] = setting(
        ("l2", "relu", "batch"),
        help="Steps applied after each convolution.",
        choices=STEPS,
        group="Advanced",
    )
    last_order: tuple[str, ...] = setting(
        ("l2", "relu", "batch"),
        help="Steps applied after the last convolution of an embedding network.",
        choices=STEPS,
        group="Advanced",
    )
    assignment_order: tuple[str, ...] = setting(
        ("batch",),
        help="Steps applied after the last convolution of a pooling network.",
        choices=STEPS,
        group="Advanced",
    )
    concat: bool = setting(
        False,
        help="Concatenate the outputs of all layers of an embedding network.",
        group="Advanced",
    )
    assignment_linear: bool = setting(
        False,
        help="End each pooling network with a linear layer on the concatenated outputs of all its layers.",
        group="Advanced",
    )
    readout: str = setting(
        "sum",
        help="Readout over the nodes. sort is SortPool; fields is PATCHY-SAN.",
        choices=("sum", "mean", "max", "set2set", "sort", "fields"),
    )
    every_level: bool = setting(
        False,
        help="Concatenate the readouts of all levels instead of using only the last one.",
        group="Advanced",
    )
    head: tuple[int, ...] = setting(
        (),
        help="Widths of the hidden layers before the output layer.",
        low=1,
        high=MAX_WIDTH,
        group="Advanced",
    )
    pooler: str = setting(
        "diffpool",
        help="Pooling method. All except diffpool use clusters that are not learned.",
        choices=("diffpool", "graclus", "random", "uniform", "pyramid"),
        group="Advanced",
    )
    assignment: str = setting(
        "soft",
        help="Soft assignment, or hard assignment with a straight-through or Gumbel-softmax gradient.",
        choices=("soft", "straight-through", "gumbel"),
    )
    assignment_conv: str | None = setting(
        None,
        help="Convolution of the pooling networks.",
        choices=tuple(name for name in CONVOLUTIONS if name != "s2v"),
        none="the same as conv",
        group="Advanced",
    )
    assignment_layers: int | None = setting(
        None,
        help="Number of convolutions in each pooling network.",
        low=1,
        high=MAX_LAYERS,
        none="the same as in the embedding network",
        group="Advanced",
    )
    set2set_steps: int = setting(
        3,
        help="Number of Set2Set processing steps. 0 uses the number of nodes of the largest graph.",
        low=0,
        high=MAX_STEPS,
        group="Advanced",
    )
    sorted_nodes: int = setting(
        0,
        help="Number of nodes that SortPool keeps. 0 picks it so that 60 % of the graphs have at least as many nodes.",
        low=0,
        high=MAX_SIZE,
        group="Advanced",
    )
    field_count: int = setting(
        0,
        help="Number of receptive fields in PATCHY-SAN. 0 uses the mean number of nodes.",
        low=0,
        high=MAX_SIZE,
        group="Advanced",
    )
    field_size: int = setting(
        10,
        help="Number of nodes in each receptive field of PATCHY-SAN.",
        low=0,
        high=MAX_SIZE,
        group="Advanced",
    )
    labeling: str = setting(
        "wl",
        help="Node labeling that defines the order of the nodes in PATCHY-SAN.",
        choices=("wl", "betweenness"),
        group="Advanced",
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if self.conv == "edge-conditioned" and self.pooler != "pyramid":
            raise SettingError(
                "expected pooler to be pyramid, whose graphs have edges to condition on, "
                f"because conv is edge-conditioned, got {self.pooler!r}"
            )
        if self.readout in ("sort", "fields") and self.poolings > 0:
            raise SettingError(
                f"expected poolings to be 0 because readout is {self.readout}, got {self.poolings}"
            )
        if self.every_level and self.readout not in ("sum", "mean", "max"):
            raise SettingError(
                f"expected readout to be sum, mean or max because every_level is true, got {self.readout!r}"
            )
        if isinstance(self.clusters, tuple) and len(self.clusters) != self.poolings:
            raise SettingError(
                f"expected one number of clusters for each of {self.poolings} poolings, got {self.clusters}"
            )

    @property
    def edges(self) -> bool | None:
        """Whether the model needs edge features; None if it uses them where they exist."""
        if self.conv == "edge-sage":
            return True
        return None if self.conv == "edge-conditioned" or self.readout == "fields" else False

    @property
    def wants_preparation(self) -> bool:
        """Whether the graphs need precomputed structures; see `diffpool.baselines.prepare`."""
        fixed_clusters = self.poolings > 0 and self.pooler in ("graclus", "random")
        return fixed_clusters or self.pooler == "pyramid" or self.readout == "fields"

    @property
    def cluster_ratio(self) -> float:
        """The ratio, by default the paper's for this number of poolings."""
        if self.ratio is not None:
            return self.ratio
        return 0.1 if self.poolings == 1 else 0.25


PAPER = Architecture()

# Rows 1 to 9 of docs/paper-vs-code-vs-ours.md.
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


def flat(architecture: Architecture) -> Architecture:
    """The flat GNN of the same depth and width, with mean readout (the paper's GraphSAGE baseline)."""
    depth = architecture.layers_before + architecture.poolings * architecture.layers_after
    return replace(architecture, poolings=0, layers_before=depth, readout="mean")


def cluster_counts(architecture: Architecture, largest: int) -> tuple[Clusters, ...]:
    """The number of clusters of each pooling if the largest graph of the data set has `largest` nodes."""
    from diffpool.nn.classifier import Clusters, share  # imports torch, which settings do not need

    if isinstance(architecture.clusters, tuple):
        return tuple(Clusters(count) for count in architecture.clusters)
    ratio = architecture.cluster_ratio
    counts: list[Clusters] = []
    for _ in range(architecture.poolings):
        largest = max(share(ratio, largest), min(architecture.min_clusters, largest), 1)
        per_graph = ratio if architecture.clusters == "graph" else None
        counts.append(Clusters(largest, per_graph, architecture.min_clusters))
    return tuple(counts)
