"""An architecture as data, and the presets."""

from __future__ import annotations

from dataclasses import dataclass, replace

from diffpool.errors import SettingError
from diffpool.nn.classifier import Clusters, share

STEPS = ("l2", "relu", "tanh", "batch", "node-index")
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
POOLERS = ("diffpool", "graclus", "random", "uniform", "pyramid")
ASSIGNMENTS = ("soft", "straight-through", "gumbel")
READOUTS = ("sum", "mean", "max", "set2set", "sort", "fields")
LABELLINGS = ("wl", "betweenness")  # of `preparation.labellings`

MOST_READ = 2**20
CHOICES: dict[str, tuple[str, tuple[str | None, ...]]] = {
    "conv": ("a convolution", CONVOLUTIONS),
    "readout": ("a readout", READOUTS),
    "pooler": ("a pooler", POOLERS),
    "assignment": ("an assignment", ASSIGNMENTS),
    "assignment_conv": ("a convolution", (None, *(c for c in CONVOLUTIONS if c != "s2v"))),
    "labelling": ("a labelling", LABELLINGS),
}
MOST = {"hidden": 2**20, "layers_before": 1000, "layers_after": 1000, "poolings": 100}


@dataclass(frozen=True)
class Architecture:
    """Everything that fixes the shape of a classifier but the data.

    Attributes:
        conv: the convolution, a name of `CONVOLUTIONS`; "none" does not see the edges.
        hidden: width of every embedding.
        poolings: number of pooling layers; 0 is a flat GNN.
        layers_before: convolutions before the first pooling, in the embedding and in the pooling network.
        layers_after: convolutions after each pooling, likewise.
        ratio: clusters as a share of the nodes; None is the paper's 0.1 for one pooling, 0.25 for two.
        clusters: "graph" for ceil(ratio · n_g) in each graph, "dataset" for that of the largest graph in all of them,
            or the numbers themselves, one for each pooling.
        order: the steps after a convolution, of "l2", "relu", "tanh", "batch" and "node-index".
        last_order: the same after the last convolution of an embedding network.
        assignment_order: the same after the last convolution of a pooling network.
        concat: whether an embedding is the output of all layers side by side.
        assignment_linear: whether a pooling network ends in a linear layer on all its layers side by side.
        readout: "sum" (the paper's S = ones), "mean", "max", "set2set", "sort" (SortPool) or "fields" (PatchySan).
        every_level: whether every level is read out and concatenated, or the last one only.
        head: widths of the hidden layers before the softmax layer.
        pooler: "diffpool", or one that does not learn: "graclus" (DiffPool-Det), the controls "random" and "uniform",
            and "pyramid" (ECC's coarser graphs).
        assignment: "soft", or hard with a gradient: "straight-through" or "gumbel".
        assignment_conv: the convolution of the pooling networks; None is `conv`.
        assignment_layers: convolutions of the pooling networks; None: as many as in the embedding network.
        set2set_steps: how often Set2Set reads; 0 is as many times as the largest graph has nodes (the released code).
        sorted_nodes: how many nodes SortPool keeps; 0 is so many that 60 % of the graphs have as many.
        field_count: receptive fields of PatchySan; 0 is the mean number of nodes.
        field_size: nodes of a receptive field.
        labelling: what orders the nodes for PatchySan, "wl" or "betweenness".
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
    readout: str = "sum"
    every_level: bool = False
    head: tuple[int, ...] = ()
    pooler: str = "diffpool"
    assignment: str = "soft"
    assignment_conv: str | None = None
    assignment_layers: int | None = None
    set2set_steps: int = 3
    sorted_nodes: int = 0
    field_count: int = 0
    field_size: int = 10
    labelling: str = "wl"

    def __post_init__(self) -> None:
        for name, (what, known) in CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                raise SettingError(
                    f"expected {what} of {', '.join(filter(None, known))}, got {value!r}"
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
        for name in ("set2set_steps", "sorted_nodes", "field_count", "field_size"):
            value = getattr(self, name)
            if type(value) is not int or not 0 <= value <= MOST_READ:
                raise SettingError(f"expected {name} from 0 to {MOST_READ}, got {value!r}")
        if self.conv == "edge-conditioned" and self.pooler != "pyramid":
            raise SettingError(
                "expected the pooler pyramid, whose graphs have edges to condition on, "
                f"with the convolution edge-conditioned, got {self.pooler!r}"
            )
        if self.readout in ("sort", "fields") and self.poolings > 0:
            raise SettingError(
                f"expected no poolings with the readout {self.readout}, got {self.poolings}"
            )
        if self.every_level and self.readout not in ("sum", "mean", "max"):
            raise SettingError(
                f"expected a readout of sum, mean or max at every level, got {self.readout!r}"
            )
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
    def edges(self) -> bool | None:
        """Whether it needs edge features; None: it takes them where there are any."""
        if self.conv == "edge-sage":
            return True
        return None if self.conv == "edge-conditioned" or self.readout == "fields" else False

    @property
    def wants_preparation(self) -> bool:
        """Whether something is computed of the graphs beforehand: see `diffpool.baselines`."""
        given = self.poolings > 0 and self.pooler in ("graclus", "random")
        return given or self.pooler == "pyramid" or self.readout == "fields"

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
