"""The methods as data: neural networks with their settings, and graph kernels with the values of C and h to try."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from diffpool.architecture import PAPER, RELEASED, Architecture, flat
from diffpool.errors import SettingError, did_you_mean
from diffpool.settings import Setting, list_settings
from diffpool.training.settings import Training


@dataclass(frozen=True)
class Method:
    """A neural network: a row of a table of results."""

    name: str
    summary: str
    architecture: Architecture
    training: Training

    def value(self, name: str) -> Any:
        """The value of a setting of the architecture or of training."""
        return getattr(self.training if hasattr(self.training, name) else self.architecture, name)


def title(method: Method) -> str:
    """The name in records and tables: an ensemble has its own row."""
    members = method.training.ensemble
    return method.name if members == 1 else f"{method.name}, ensemble of {members}"


# Every setting of a method, by name.
METHOD_SETTINGS: dict[str, Setting] = {
    setting.name: setting for kind in (Training, Architecture) for setting in list_settings(kind)
}

_DEFAULT = Training()
_DROPOUT = replace(_DEFAULT, dropout=0.5)

_S2V = replace(PAPER, conv="s2v", last_order=("batch",))
_S2V_POOLED = replace(_S2V, layers_before=1, assignment_conv="sage", assignment_layers=2)

# DGCNN of Zhang et al. (2018): convolutions of width 32, 32, 32 and 1, concatenated.
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
        Method("diffpool", "DiffPool as in the paper", PAPER, _DEFAULT),
        Method("diffpool-nolp", "without the link loss", PAPER, replace(_DEFAULT, link_weight=0.0)),
        Method(
            "diffpool-det",
            "precomputed Graclus clusters",
            replace(PAPER, pooler="graclus"),
            _DEFAULT,
        ),
        Method(
            "diffpool-released",
            "as in the released code",
            RELEASED,
            replace(_DEFAULT, link_weight=0.0, entropy_weight=0.0),
        ),
        Method("graphsage", "flat GraphSAGE, mean readout", flat(PAPER), _DEFAULT),
        Method(
            "set2set", "flat GraphSAGE, Set2Set", replace(flat(PAPER), readout="set2set"), _DEFAULT
        ),
        Method("sortpool", "DGCNN: SortPool and 1-D convolutions", _SORTPOOL, _DROPOUT),
        Method(
            "s2v",
            "flat Structure2Vec, mean readout",
            replace(_S2V, poolings=0, layers_before=3, readout="mean"),
            _DEFAULT,
        ),
        Method(
            "s2v-diffpool-1",
            "Structure2Vec with one DiffPool",
            replace(_S2V_POOLED, layers_after=2),
            _DEFAULT,
        ),
        Method(
            "s2v-diffpool-2",
            "Structure2Vec with two DiffPools",
            replace(_S2V_POOLED, poolings=2, layers_after=1),
            _DEFAULT,
        ),
        Method(
            "ecc", "edge-conditioned filters, Kron pyramid", _ECC, replace(_DEFAULT, dropout=0.2)
        ),
        Method("patchy-san", "PATCHY-SAN: receptive fields and a CNN", _PATCHY_SAN, _DROPOUT),
        Method("gcn", "flat GCN, mean readout", flat(replace(PAPER, conv="gcn")), _DEFAULT),
        Method("gin", "flat GIN, mean readout", flat(replace(PAPER, conv="gin")), _DEFAULT),
        Method(
            "structure-blind",
            "a control: graphsage without edges",
            flat(replace(PAPER, conv="none")),
            _DEFAULT,
        ),
        Method(
            "random-assignment",
            "a control: random clusters",
            replace(PAPER, pooler="random"),
            _DEFAULT,
        ),
        Method(
            "uniform-assignment",
            "a control: every node equally in all clusters",
            replace(PAPER, pooler="uniform"),
            _DEFAULT,
        ),
    )
}


COSTS = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)


@dataclass(frozen=True)
class KernelMethod:
    """A graph kernel with an SVM: a row of a table of results, with the values of C and h to choose from."""

    name: str
    summary: str
    depths: tuple[int | None, ...] = (None,)  # h; None for a kernel without h
    costs: tuple[float, ...] = COSTS  # C
    without_labels: str = "degrees"  # replaces the labels of nodes that have none

    def __post_init__(self) -> None:
        if not self.depths or not self.costs or min(self.costs) <= 0:
            raise SettingError(
                f"expected values of h, and values of C above 0, got {self.depths} and {self.costs}"
            )

    def settings(self) -> dict[str, dict[str, Any]]:
        """The settings as they appear in a record."""
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
            "graphlet kernel with labels and degrees, as in the paper's numbers",
            without_labels="none",
        ),
        KernelMethod("shortest-path", "shortest-path kernel", without_labels="none"),
        KernelMethod("wl", "Weisfeiler-Lehman subtree kernel", _DEPTHS),
        KernelMethod("wl-oa", "Weisfeiler-Lehman optimal assignment kernel", _DEPTHS),
    )
}

# Defaults that a data set changes for every method.
DATASET_SETTINGS: dict[str, dict[str, Any]] = {
    # The communities are long and sparse: a link loss with weight 1 works against clusters that are whole communities.
    # The class depends on whether any cluster contains both marks, which is a maximum over clusters.
    "embedded": {
        "order": ("batch", "relu"),
        "last_order": ("batch", "relu"),
        "learning_rate": 3e-3,
        "link_weight": 0.02,
        "epochs": 40,
    },
}


def settings_for(name: str, dataset: str, **changes: Any) -> Method:
    """The method with the data set's defaults and with `changes` to its settings."""
    if name in KERNEL_METHODS:
        raise SettingError(
            f"expected a neural method ({', '.join(METHODS)}), got the kernel {name!r}: use `diffpool evaluate`, "
            "or the estimators in diffpool.baselines.graph_kernels"
        )
    if name not in METHODS:
        raise unknown_method(name, METHODS)
    if unknown := sorted(changes.keys() - METHOD_SETTINGS):
        hint = did_you_mean(unknown[0], METHOD_SETTINGS)
        raise SettingError(
            f"expected settings to be among {', '.join(METHOD_SETTINGS)}, got {unknown}{hint}"
        )
    method = METHODS[name]
    values = {**DATASET_SETTINGS.get(dataset, {}), **changes}
    if method.architecture.poolings == 0:
        values.pop("link_weight", None)
        values.pop("entropy_weight", None)
    for order in (
        "order",
        "last_order",
    ):  # a method that differs from the paper here keeps its order
        if order not in changes and method.value(order) != getattr(PAPER, order):
            values.pop(order, None)
    return with_settings(method, values)


def kernel_method(name: str) -> KernelMethod:
    """The kernel with this name."""
    if name not in KERNEL_METHODS:
        hint = did_you_mean(name, KERNEL_METHODS)
        raise SettingError(
            f"expected the kernel to be one of {', '.join(KERNEL_METHODS)}, got {name!r}{hint}"
        )
    return KERNEL_METHODS[name]


def unknown_method(name: str, known: Iterable[str]) -> SettingError:
    """The error about a method that is not among the `known` ones."""
    known = list(known)
    return SettingError(
        f"expected the method to be one of {', '.join(known)}, got {name!r}{did_you_mean(name, known)}"
    )


def with_settings(method: Method, values: Mapping[str, Any]) -> Method:
    """The method with these settings changed."""
    architecture = {k: v for k, v in values.items() if hasattr(method.architecture, k)}
    training = {k: v for k, v in values.items() if hasattr(method.training, k)}
    return replace(
        method,
        architecture=replace(method.architecture, **architecture),
        training=replace(method.training, **training),
    )


def default_text(setting: Setting, max_names: int = 3) -> str:
    """The default of `diffpool`, and the methods and data sets with another: `0; 0.5 for sortpool and patchy-san`.

    With more than `max_names` of those, they are not listed.
    """
    default = METHODS["diffpool"].value(setting.name)
    values = [(method.name, method.value(setting.name)) for method in METHODS.values()]
    values += [(name, s[setting.name]) for name, s in DATASET_SETTINGS.items() if setting.name in s]
    others: dict[str, list[str]] = {}
    for name, value in values:
        if value != default:
            others.setdefault(setting.show(value), []).append(name)
    text = setting.show(default)
    if sum(map(len, others.values())) > max_names:
        return f"{text}; some methods differ"
    return "; ".join([text, *(f"{value} for {_join(names)}" for value, names in others.items())])


def _join(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
