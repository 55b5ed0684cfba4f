"""The cells of the tables, declared as data: settings and command for each row, data set and protocol."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from diffpool.errors import SettingError, did_you_mean
from diffpool.experiments.grid import Grid
from diffpool.experiments.methods import (
    KERNEL_METHODS,
    METHOD_SETTINGS,
    METHODS,
    Method,
    settings_for,
    title,
)
from diffpool.experiments.records import Record
from diffpool.experiments.reproduce.published import PUBLISHED_FOLDS

FOLDS = 10
TRIALS = 12  # points of the search space to try, the same for every row
FINAL_RUNS = 3
MEMBERS = 10  # of an ensemble
KERNEL_REPEATS = 3
SEED = 0
PROTOCOLS = ("inner-cv", "paper", "nested")
TABLES = ("table1", "table2")


@dataclass(frozen=True)
class DataSet:
    """A column: the training budget of every neural row, and the properties of the data set."""

    name: str
    graphs: int
    mean_nodes: float
    paper_epochs: int
    nested_epochs: int
    nested_patience: int
    features: tuple[str, ...]  # the parts of the default features
    labels: bool  # whether nodes have labels
    shown: bool = True  # by default
    needs: str = ""  # why there may be no records

    @property
    def published_folds(self) -> bool:
        return self.name in PUBLISHED_FOLDS


_DEGREES = ("degree", "log-degree")
_NOT_AVAILABLE = (
    "needs the whole data set: put REDDIT-MULTI-12K.zip into --data-dir, "
    "then --datasets REDDIT-MULTI-12K --run"
)

DATASETS = {
    data.name: data
    for data in (
        DataSet("ENZYMES", 600, 32.6, 300, 300, 80, ("attributes", "labels"), True),
        DataSet("DD", 1178, 284.3, 60, 60, 20, ("labels",), True),
        DataSet(
            *("REDDIT-MULTI-12K", 11929, 391.4, 40, 60, 20, _DEGREES, False), needs=_NOT_AVAILABLE
        ),
        DataSet("COLLAB", 5000, 74.5, 20, 30, 10, _DEGREES, False),
        DataSet("PROTEINS", 1113, 39.1, 60, 100, 25, ("attributes", "labels"), True),
        # 101 graphs of each class of REDDIT-MULTI-12K; not comparable with the whole data set
        DataSet("REDDIT-MULTI-12K-sub1111", 1111, 580.7, 40, 60, 20, _DEGREES, False),
        DataSet("embedded", 400, 60.0, 40, 40, 20, (), False, shown=False),
    )
}
SHOWN = tuple(name for name, data in DATASETS.items() if data.shown)


@dataclass(frozen=True)
class Row:
    """A row of a table: a method, optionally as an ensemble or without node labels."""

    name: str
    title: str
    method: str
    table: str
    kind: str  # kernel, paper, control or ensemble
    ensemble: int = 1
    node_labels: bool = True

    @property
    def kernel(self) -> bool:
        return self.method in KERNEL_METHODS


_PAPER_TITLES = {
    "patchy-san": "PatchySan",
    "graphsage": "GraphSAGE",
    "ecc": "ECC",
    "set2set": "Set2Set",
    "sortpool": "SortPool",
    "diffpool-det": "DiffPool-Det",
    "diffpool-nolp": "DiffPool-NoLP",
    "diffpool": "DiffPool",
}
_KERNEL_TITLES = {
    "graphlet": "Graphlet",
    "graphlet-degree": "Graphlet with degrees",
    "shortest-path": "Shortest-path",
    "wl": "1-WL",
    "wl-oa": "WL-OA",
}
_S2V_TITLES = {
    "s2v": "S2V",
    "s2v-diffpool-1": "S2V with 1 DiffPool",
    "s2v-diffpool-2": "S2V with 2 DiffPool",
}
_CONTROL_TITLES = {
    "gcn": "GCN",
    "gin": "GIN",
    "structure-blind": "Structure-blind",
    "random-assignment": "Random assignment",
    "uniform-assignment": "Uniform assignment",
}


def _rows() -> list[Row]:
    rows = [Row(n, t, n, "table1", "kernel") for n, t in _KERNEL_TITLES.items()]
    rows += [
        Row(f"{n}-unlabeled", f"{t}, labels ignored", n, "table1", "kernel", node_labels=False)
        for n, t in _KERNEL_TITLES.items()
        if n != "graphlet-degree"
    ]
    rows += [Row(n, t, n, "table1", "paper") for n, t in _PAPER_TITLES.items()]
    rows += [Row(n, t, n, "table1", "control") for n, t in _CONTROL_TITLES.items()]
    rows += [Row(n, t, n, "table2", "paper") for n, t in _S2V_TITLES.items()]
    titles = {**_PAPER_TITLES, **_CONTROL_TITLES, **_S2V_TITLES}
    rows += [
        Row(
            name=f"{n}-ensemble",
            title=f"{t}, ensemble of {MEMBERS}",
            method=n,
            table="table2" if n in _S2V_TITLES else "table1",
            kind="ensemble",
            ensemble=MEMBERS,
        )
        for n, t in titles.items()
        if n == "diffpool" or METHODS[n].architecture.poolings == 0
    ]
    return rows


ROWS = {row.name: row for row in _rows()}
# Kernels without node labels are shown where they were measured, and computed only if asked for.
USUAL_ROWS = tuple(row.name for row in ROWS.values() if row.node_labels)
MAIN_ROWS = {"diffpool", "graphsage", "structure-blind"}
FIRST_ROWS = {*MAIN_ROWS, "set2set", "diffpool-nolp", "diffpool-det", "sortpool", *_S2V_TITLES}
FIRST_SETS = ("ENZYMES", "DD", "COLLAB", "PROTEINS")


def search_space(method: Method) -> Grid:
    """The declared search space of `nested`, without the settings that the method does not have."""
    a = method.architecture
    plain = a.readout in ("sum", "mean", "max")
    grid: list[tuple[str, tuple[Any, ...]]] = []
    if plain:
        grid.append(("readout", ("sum", "max", "mean")))
    if plain and a.poolings:
        grid.append(("every_level", (False, True)))
    if a.readout not in ("sort", "fields") and a.conv != "s2v":
        grid.append(("concat", (False, True)))
    grid += [("dropout", (0.0, 0.5)), ("learning_rate", (0.001, 0.0003))]
    if a.poolings and a.pooler in ("diffpool", "uniform"):  # others precompute their clusters
        grid.append(("ratio", (0.1, 0.25)))
    return tuple(grid)


def fixed_settings(method: Method) -> dict[str, Any]:
    """The settings that `nested` fixes, for the methods that have them."""
    a = method.architecture
    fixed: dict[str, Any] = {"monitor": "accuracy"}
    if a.readout not in ("sort", "fields"):  # these have their own layers
        fixed["head"] = (64,)
    if a.poolings and a.pooler == "diffpool" and method.training.link_weight:
        fixed["link_weight"] = 0.1
    return fixed


@dataclass(frozen=True)
class Cell:
    """One accuracy of a table: what is evaluated, and how."""

    row: Row
    dataset: str
    protocol: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    grid: Grid = ()
    changes: Mapping[str, Any] = field(default_factory=dict)  # to the declared settings

    @cached_property
    def name(self) -> str:
        """Its name, also of its files; cells with different changes have different names."""
        declared = f"{self.protocol}-{self.dataset}-{self.row.name}"
        if not self.changes:
            return declared
        text = json.dumps(dict(self.changes), sort_keys=True)
        return f"{declared}-{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}"

    @property
    def data(self) -> DataSet:
        return DATASETS[self.dataset]

    @property
    def repeats(self) -> int:
        return KERNEL_REPEATS if self.row.kernel else 1

    @property
    def published_folds(self) -> bool:
        return self.protocol == "nested" and self.data.published_folds

    @cached_property
    def points(self) -> int:
        """The number of points of the search space that are tried."""
        return min(TRIALS, math.prod(len(values) for _, values in self.grid))

    @property
    def models(self) -> int:
        """The number of models to train; for a kernel, of folds."""
        final = self.row.ensemble if self.row.ensemble > 1 else FINAL_RUNS
        each = self.points + final if self.protocol == "nested" else 1
        return FOLDS * self.repeats * each

    @property
    def work(self) -> float:
        """The estimated size of the job, in nodes seen in training, for the order and the estimated time."""
        epochs = 1 if self.row.kernel else self.settings["epochs"]
        return self.models * epochs * self.data.graphs * self.data.mean_nodes

    @property
    def priority(self) -> int:
        """From 1, computed first. Cells of `nested` come last: each trains 15 to 22 times as many models."""
        if self.dataset not in FIRST_SETS:
            priority = 4
        elif self.row.name in FIRST_ROWS:
            priority = 1 if self.row.name in MAIN_ROWS else 2
        else:
            priority = 3
        return priority + 4 if self.protocol == "nested" else priority

    @cached_property
    def method(self) -> Method:
        """The neural method with the declared settings."""
        ensemble = {"ensemble": self.row.ensemble} if self.row.ensemble > 1 else {}
        return settings_for(self.row.method, self.dataset, **self.settings, **ensemble)

    @cached_property
    def method_title(self) -> str:
        """The method as records name it."""
        return self.row.method if self.row.kernel else title(self.method)

    @property
    def lacks(self) -> str | None:
        """A message about a package that this cell needs and that is not installed."""
        if self.row.method == "patchy-san" and importlib.util.find_spec("igraph") is None:
            return "needs igraph: pip install 'diffpool[patchy-san]'"
        return None

    def fits(self, record: Record) -> bool:
        """Whether this record was made with the declared method, data, folds, settings and search space."""
        same = (record.method, record.dataset, record.protocol, record.seed)
        if same != (self.method_title, self.dataset, self.protocol, SEED):
            return False
        if self.row.kernel:
            return record.features == self._kernel_features()
        return (
            self._has_features(record) and self._has_search(record) and self._has_settings(record)
        )

    def has_folds(self, record: Record) -> bool:
        """Whether this record may be of the folds of this cell; records of earlier versions do not say so."""
        folds = record.details.get("folds")
        return folds is None or (folds == PUBLISHED_FOLDS.get(self.dataset)) == self.published_folds

    def _kernel_features(self) -> str:
        if self.data.labels and self.row.node_labels:
            return "node labels"
        return KERNEL_METHODS[self.row.method].without_labels

    def _has_features(self, record: Record) -> bool:
        parts = tuple(part.split(" (")[0] for part in record.features.split(", "))
        return not self.data.features or parts == self.data.features

    def _has_search(self, record: Record) -> bool:
        folds = record.details.get("folds")
        if self.protocol != "nested":  # records of earlier versions do not have the digest
            return folds is None or folds not in PUBLISHED_FOLDS.values()
        if folds is None or not self.has_folds(record):
            return False
        search = {"grid": dict(self.grid), "trials": TRIALS, "inner_folds": 1}
        return record.details.get("search") == _as_json({**search, "final_runs": FINAL_RUNS})

    def _has_settings(self, record: Record) -> bool:
        free = {"seed", "sorted_nodes", "field_count", *(name for name, _ in self.grid)}
        free |= {"patience"} if self.protocol == "paper" else set()
        for part in ("architecture", "training"):
            declared = _as_json(asdict(getattr(self.method, part)))
            found = record.settings.get(part, {})
            for name in declared.keys() - free:
                if found.get(name, declared[name]) != declared[name]:
                    return False
        return True

    def command(
        self,
        out: str,
        device: str | None = None,
        data_dir: str | None = None,
        folds_dir: str | None = None,
        workers: Sequence[str] = (),
    ) -> list[str]:
        """The arguments of `diffpool` that compute the cell; `workers` are those of a neural network."""
        words = ["evaluate", self.dataset, "--method", self.row.method]
        words += ["--protocol", self.protocol, "--seed", str(SEED)]
        words += [] if self.repeats == 1 else ["--repeats", str(self.repeats)]
        words += [] if self.row.node_labels else ["--no-labels"]
        if self.row.ensemble > 1:
            words += ["--ensemble", str(self.row.ensemble)]
        for name, value in self.settings.items():
            setting = METHOD_SETTINGS[name]
            words += (
                [setting.option, setting.show(value)]
                if setting.show(value) != "empty"
                else ["--set", f"{name}="]
            )
        for name, values in self.grid:
            shown = ",".join(METHOD_SETTINGS[name].show(value) for value in values)
            words += ["--grid", f"{name}={shown}"]
        if self.protocol == "nested":
            words += ["--trials", str(TRIALS)]
        if self.published_folds:
            words += ["--folds", f"{folds_dir or 'FOLDS'}/{self.dataset}_splits.json"]
        words += ["--data-dir", data_dir] if data_dir and self.dataset != "embedded" else []
        words += ["--device", device] if device and not self.row.kernel else []
        words += [] if self.row.kernel else workers
        return [*words, "--out", out]


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def make_cell(
    row: Row, dataset: str, protocol: str, changes: Mapping[str, Any] | None = None
) -> Cell | None:
    """The declared cell, with `changes` to its settings; None if the table has no such cell."""
    data, changes = DATASETS[dataset], dict(changes or {})
    if row.kernel != (protocol == "inner-cv") or (row.kernel and dataset == "embedded"):
        return None
    if row.ensemble > 1 and protocol == "paper":
        return None
    if row.kernel:
        return Cell(row, dataset, protocol) if row.node_labels or data.labels else None
    method = METHODS[row.method]
    if method.architecture.poolings == 0:
        for name in ("ratio", "clusters", "min_clusters", "link_weight", "entropy_weight"):
            changes.pop(name, None)
    if protocol == "paper":
        changes.pop("patience", None)
        settings: dict[str, Any] = {"epochs": data.paper_epochs}
        return Cell(row, dataset, protocol, {**settings, **changes}, changes=changes)
    settings = {"epochs": data.nested_epochs, "patience": data.nested_patience}
    settings |= fixed_settings(method)
    grid = tuple(entry for entry in search_space(method) if entry[0] not in changes)
    return Cell(row, dataset, protocol, {**settings, **changes}, grid, changes)


def declared_cells(
    tables: Sequence[str] = TABLES,
    protocols: Sequence[str] = PROTOCOLS,
    datasets: Sequence[str] = SHOWN,
    rows: Sequence[str] = USUAL_ROWS,
    changes: Mapping[str, Any] | None = None,
) -> list[Cell]:
    """All cells of these tables, in the order in which they are computed: by priority, the largest jobs first."""
    cells = [
        cell
        for row in ROWS.values()
        if row.table in tables and row.name in rows
        for dataset in datasets
        for protocol in protocols
        if (cell := make_cell(row, dataset, protocol, changes)) is not None
    ]
    return sorted(cells, key=lambda cell: (cell.priority, -cell.work))


def choose(words: str | None, known: Iterable[str], what: str) -> list[str]:
    """The names in a comma-separated list, checked; all known names if there is no list."""
    known = list(known)
    if words is None:
        return known
    chosen = [word.strip() for word in words.split(",") if word.strip()]
    for word in chosen:
        if word not in known:
            hint = did_you_mean(word, known)
            raise SettingError(f"expected {what} among {', '.join(known)}, got {word!r}{hint}")
    return chosen
