"""The methods of the command line, as data: architecture and training settings, or a kernel with values of C and h."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from diffpool.architecture import PAPER, RELEASED, Architecture, flat
from diffpool.errors import SettingError
from diffpool.training import Training


@dataclass(frozen=True)
class Method:
    """A row of a table: a neural network."""

    name: str
    summary: str
    architecture: Architecture
    training: Training


_USUAL = Training()
_DROPOUT = replace(_USUAL, dropout=0.5)

_S2V = replace(PAPER, conv="s2v", last_order=("batch",))
_S2V_POOLED = replace(_S2V, layers_before=1, assignment_conv="sage", assignment_layers=2)

# DGCNN of Zhang et al. (2018): convolutions of 32, 32, 32 and 1, side by side.
_SORTPOOL = Architecture(
    conv="dgcnn",
    hidden=32,
    poolings=0,
    layers_before=3,
    order=("tanh",),
    last_order=("tanh",),
    concat=True,
    readout="sort",
)

_PATCHY_SAN = Architecture(conv="none", poolings=0, readout="fields")

# The network of Simonovsky and Komodakis (2017) for ENZYMES.
_ECC = Architecture(
    conv="edge-conditioned",
    pooler="pyramid",
    poolings=2,
    layers_before=3,
    layers_after=2,
    order=("batch", "relu"),
    last_order=("batch", "relu"),
    readout="mean",
    head=(64,),
)

METHODS = {
    method.name: method
    for method in (
        Method("diffpool", "DiffPool as in the paper", PAPER, _USUAL),
        Method("diffpool-nolp", "without the link loss", PAPER, replace(_USUAL, link_weight=0.0)),
        Method(
            "diffpool-det",
            "clusters found beforehand by Graclus",
            replace(PAPER, pooler="graclus"),
            _USUAL,
        ),
        Method(
            "diffpool-released",
            "as in the released code",
            RELEASED,
            replace(_USUAL, link_weight=0.0, entropy_weight=0.0),
        ),
        Method("graphsage", "flat GraphSAGE, mean readout", flat(PAPER), _USUAL),
        Method(
            "set2set", "flat GraphSAGE, Set2Set", replace(flat(PAPER), readout="set2set"), _USUAL
        ),
        Method("sortpool", "DGCNN: SortPool and 1-D convolutions", _SORTPOOL, _DROPOUT),
        Method(
            "s2v",
            "flat Structure2Vec, mean readout",
            replace(_S2V, poolings=0, layers_before=3, readout="mean"),
            _USUAL,
        ),
        Method(
            "s2v-diffpool-1",
            "Structure2Vec with one DiffPool",
            replace(_S2V_POOLED, layers_after=2),
            _USUAL,
        ),
        Method(
            "s2v-diffpool-2",
            "Structure2Vec with two",
            replace(_S2V_POOLED, poolings=2, layers_after=1),
            _USUAL,
        ),
        Method("ecc", "edge-conditioned filters, Kron pyramid", _ECC, replace(_USUAL, dropout=0.2)),
        Method("patchy-san", "PATCHY-SAN: receptive fields and a CNN", _PATCHY_SAN, _DROPOUT),
        Method("gcn", "flat GCN, mean readout", flat(replace(PAPER, conv="gcn")), _USUAL),
        Method("gin", "flat GIN, mean readout", flat(replace(PAPER, conv="gin")), _USUAL),
        Method(
            "structure-blind",
            "a control: graphsage without edges",
            flat(replace(PAPER, conv="none")),
            _USUAL,
        ),
        Method(
            "random-assignment",
            "a control: random clusters",
            replace(PAPER, pooler="random"),
            _USUAL,
        ),
        Method(
            "uniform-assignment",
            "a control: every node in all clusters alike",
            replace(PAPER, pooler="uniform"),
            _USUAL,
        ),
    )
}


COSTS = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)


@dataclass(frozen=True)
class KernelMethod:
    """A row of a table: a graph kernel with an SVM, and what its C and h are chosen from."""

    name: str
    summary: str
    depths: tuple[int | None, ...] = (None,)  # h; None for a kernel without it
    costs: tuple[float, ...] = COSTS  # C
    without_labels: str = "degrees"  # what it goes by where nodes have no labels

    def __post_init__(self) -> None:
        if not self.depths or not self.costs or min(self.costs) <= 0:
            raise SettingError(
                f"expected some values of h and some of C above 0, got {self.depths}, {self.costs}"
            )

    def settings(self) -> dict[str, dict[str, Any]]:
        """As a record has them."""
        depths = [depth for depth in self.depths if depth is not None]
        kernel: dict[str, Any] = {"name": self.name, **({"h": depths} if depths else {})}
        return {"kernel": kernel, "svm": {"C": list(self.costs)}}


_DEPTHS = (0, 1, 2, 3, 4, 5)

KERNEL_METHODS = {
    method.name: method
    for method in (
        KernelMethod("graphlet", "graphlet kernel", without_labels="none"),
        KernelMethod(
            "graphlet-degree",
            "graphlet kernel of labels and degrees, as behind the paper's numbers",
            without_labels="none",
        ),
        KernelMethod("shortest-path", "shortest-path kernel", without_labels="none"),
        KernelMethod("wl", "Weisfeiler-Lehman subtree kernel", _DEPTHS),
        KernelMethod("wl-oa", "Weisfeiler-Lehman optimal assignment kernel", _DEPTHS),
    )
}

# Settings that a data set needs in place of the method's own, whatever the method.
SETTINGS: dict[str, dict[str, Any]] = {
    # Its communities are long and sparse, where ‖A − SSᵀ‖ pulls against whole communities; "together" is the
    # existence of one cluster with both marks, which is a maximum.
    "embedded": {
        "order": ("batch", "relu"),
        "last_order": ("batch", "relu"),
        "learning_rate": 3e-3,
        "link_weight": 0.02,
        "epochs": 40,
    },
}


def settings_for(name: str, dataset: str, **changes: Any) -> Method:
    """A method with the settings of a data set, then with `changes` to fields of either dataclass."""
    if name in KERNEL_METHODS:
        raise SettingError(
            f"expected a neural method of {', '.join(METHODS)}, got the kernel {name!r}: "
            "`diffpool evaluate` takes it with an SVM, and diffpool.baselines.graph_kernels has it as an estimator"
        )
    if name not in METHODS:
        raise SettingError(f"expected a method of {', '.join(METHODS)}, got {name!r}")
    method = METHODS[name]
    values = {**SETTINGS.get(dataset, {}), **changes}
    if method.architecture.poolings == 0:
        values.pop("link_weight", None)
        values.pop("entropy_weight", None)
    for name in ("order", "last_order"):  # a method with an order of its own keeps it
        if name not in changes and getattr(method.architecture, name) != getattr(PAPER, name):
            values.pop(name, None)
    known = (method.architecture, method.training)
    unknown = [name for name in values if not any(hasattr(part, name) for part in known)]
    if unknown:
        raise SettingError(
            f"expected settings of an architecture or of training, got {sorted(unknown)}"
        )
    return with_settings(method, values)


def kernel_method(name: str) -> KernelMethod:
    """The kernel with this name."""
    if name not in KERNEL_METHODS:
        raise SettingError(f"expected a kernel of {', '.join(KERNEL_METHODS)}, got {name!r}")
    return KERNEL_METHODS[name]


def with_settings(method: Method, values: Mapping[str, Any]) -> Method:
    """The method with these fields of its architecture and training changed."""
    architecture = {k: v for k, v in values.items() if hasattr(method.architecture, k)}
    training = {k: v for k, v in values.items() if hasattr(method.training, k)}
    try:
        return replace(
            method,
            architecture=replace(method.architecture, **architecture),
            training=replace(method.training, **training),
        )
    except TypeError as error:
        raise SettingError(
            f"expected values that fit their settings, got {dict(values)}"
        ) from error
