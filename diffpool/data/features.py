"""Node and edge features: the columns of X, chosen once for a data set and saved with every model.

Attributes and log-degrees are standardized by the model itself (`nn.Standardize`), with the mean and standard deviation
of its training graphs. Here they are raw, except for columns that float32 could not represent well: these are stored
in separate units (`Unit`), which the standardization cancels.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from diffpool.data.categories import Categories, looks_like_names
from diffpool.data.column_names import ColumnNames, missing_attribute
from diffpool.data.feature_names import EDGE_PARTS, NODE_PARTS
from diffpool.data.raw import MAX_FLOAT, RawGraphs
from diffpool.errors import DataError, SettingError, did_you_mean

STANDARDIZED = ("attributes", "log-degree")
MAX_DEGREE = 127  # larger degrees share the last column of the one-hot degree

# An attribute column has a unit if its sd is outside this range, or below this fraction of its mean.
MIN_SD, MAX_SD, MIN_RELATIVE_SD = 1e-6, 1e12, 1e-4

PART = 10_000  # graphs in memory at a time
BLOCK = 1 << 20  # rows of attributes in memory at a time

Unit = tuple[float, float]  # zero and size: v becomes (v − zero) / size, computed in float64
PLAIN: Unit = (0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Features:
    """The features of some graphs."""

    x: np.ndarray  # [N, F] float32
    edges: np.ndarray | None  # [E, C] float32
    unseen: dict[
        str, Counter[str]
    ]  # labels unknown to the map, and their number of rows, by table and column


@dataclass(frozen=True)
class FeatureMap:
    """Computes the columns of X, and the edge features, in the order of `nodes` and `edges`."""

    nodes: tuple[str, ...]  # keys of NODE_PARTS
    edges: tuple[str, ...] = ()  # keys of EDGE_PARTS
    node_labels: tuple[tuple[str, ...], ...] = ()  # the known names in each column
    node_attributes: int = 0
    most_degree: int = 0
    edge_labels: tuple[tuple[str, ...], ...] = ()
    edge_attributes: int = 0
    node_units: tuple[Unit, ...] = ()  # of each column of attributes; empty: all are plain
    edge_units: tuple[Unit, ...] = ()
    names: ColumnNames | None = None  # of the columns that are used, if the graphs have names
    widths: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for chosen, parts in ((self.nodes, NODE_PARTS), (self.edges, EDGE_PARTS)):
            unknown = [part for part in chosen if part not in parts]
            if unknown:
                raise SettingError(
                    f"expected features among {', '.join(parts)}, got {unknown[0]!r}. "
                    "Separate several features with commas, for example labels,degree."
                    + did_you_mean(unknown[0], parts, prefix=" ")
                )
        widths = {
            "attributes": self.node_attributes,
            "raw-attributes": self.node_attributes,
            "labels": sum(len(names) for names in self.node_labels),
            "degree": self.most_degree + 1,
        }
        object.__setattr__(self, "widths", {p: widths.get(p, 1) for p in self.nodes})

    @classmethod
    def choose(
        cls, raw: RawGraphs, nodes: str | Sequence[str] = "auto", edges: bool | None = False
    ) -> FeatureMap:
        """Choose features for these graphs: parts by name, or `auto` (attributes and labels, otherwise degrees).

        `edges`: also use edge labels and attributes, as channels; None uses them if there are any.
        """
        if isinstance(nodes, str):
            nodes = nodes.split(",") if nodes != "auto" else _default(raw)
        parts = tuple(dict.fromkeys(part.strip() for part in nodes))
        wanted = [
            ("labels" in parts, raw.node_labels, "node labels"),
            ("attributes" in parts or "raw-attributes" in parts, raw.node_attributes, "attributes"),
        ]
        for asked, table, what in wanted:
            if asked and table is None:
                raise SettingError(
                    f"features {','.join(parts)}: {raw.name} has no {what}. "
                    "Try degree, log-degree, clustering or constant."
                )
        channels = []
        if edges is not False:
            channels += ["labels"] if raw.edge_labels is not None else []
            channels += ["attributes"] if raw.edge_attributes is not None else []
            if edges and not channels:
                raise SettingError(
                    f"{raw.name} has neither edge labels nor edge attributes. "
                    "Choose a convolution without edge features."
                )
        use_edge_attributes = "attributes" in channels
        largest = _largest_degree(raw) if "degree" in parts else 0
        labels, attributes = raw.node_labels, raw.node_attributes
        use_labels = labels is not None and "labels" in parts
        use_attributes = attributes is not None and wanted[1][0]
        if use_labels:
            _warn_of_names(raw)
        return cls(
            nodes=parts,
            edges=tuple(channels),
            node_labels=labels.names if use_labels else (),  # type: ignore[union-attr]
            node_attributes=attributes.shape[1] if use_attributes else 0,  # type: ignore[union-attr]
            most_degree=min(largest, MAX_DEGREE),
            edge_labels=raw.edge_labels.names if "labels" in channels else (),  # type: ignore[union-attr]
            edge_attributes=raw.edge_attributes.shape[1] if use_edge_attributes else 0,  # type: ignore[union-attr]
            node_units=_units(attributes) if "attributes" in parts else (),
            edge_units=_units(raw.edge_attributes) if use_edge_attributes else (),
            names=_used_names(
                raw,
                node_labels=use_labels,
                node_attributes=use_attributes,
                edge_labels="labels" in channels,
                edge_attributes=use_edge_attributes,
            ),
        )

    @property
    def num_features(self) -> int:
        return sum(self.widths.values())

    @property
    def num_edge_features(self) -> int:
        labels = sum(len(names) for names in self.edge_labels) if "labels" in self.edges else 0
        return labels + (self.edge_attributes if "attributes" in self.edges else 0)

    @property
    def standardized(self) -> np.ndarray:
        """[F] bool: the columns that a model standardizes."""
        return np.repeat([p in STANDARDIZED for p in self.widths], list(self.widths.values()))

    def apply(self, raw: RawGraphs) -> Features:
        """The features of these graphs. A label unknown to the map becomes a row of zeros and is reported."""
        unseen: dict[str, Counter[str]] = {}
        columns = [self._nodes(part, raw, unseen) for part in self.nodes]
        x = (
            np.concatenate(columns, 1, dtype=np.float32)
            if columns
            else np.zeros((raw.num_nodes, 0))
        )
        channels = []
        for part in self.edges:
            if part == "labels":
                table = _required(raw, "edge_labels", len(self.edge_labels), self.names)
                channels.append(_one_hot(table, self.edge_labels, "edge label", unseen))
            else:
                table = _required(raw, "edge_attributes", self.edge_attributes, self.names)
                channels.append(_in_units(raw, "edge_attributes", table, self.edge_units))
        edges = np.concatenate(channels, 1, dtype=np.float32) if channels else None
        return Features(x.astype(np.float32, copy=False), edges, unseen)

    def _nodes(self, part: str, raw: RawGraphs, unseen: dict[str, Counter[str]]) -> np.ndarray:
        if part in ("attributes", "raw-attributes"):
            table = _required(raw, "node_attributes", self.node_attributes, self.names)
            units = self.node_units if part == "attributes" else ()
            return _in_units(raw, "node_attributes", table, units)
        if part == "labels":
            table = _required(raw, "node_labels", len(self.node_labels), self.names)
            return _one_hot(table, self.node_labels, "node label", unseen)
        if part == "constant":
            return np.ones((raw.num_nodes, 1), np.float32)
        if part == "clustering":
            return clustering_coefficients(raw)[:, None]
        degree = np.diff(raw.indptr)
        if part == "log-degree":
            return np.log1p(degree)[:, None]
        out = np.zeros((raw.num_nodes, self.most_degree + 1), np.float32)
        out[np.arange(raw.num_nodes), degree.clip(max=self.most_degree)] = 1
        return out

    def describe(self) -> str:
        """A summary such as `attributes (18), labels (3)`."""
        nodes = ", ".join(f"{part} ({width})" for part, width in self.widths.items())
        return nodes if not self.edges else f"{nodes}; edges: {', '.join(self.edges)}"

    def to_json(self) -> dict[str, Any]:
        values = asdict(self)
        del values["widths"]
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> FeatureMap:
        """The inverse of `to_json`; raises TypeError, ValueError or SettingError for anything else."""
        counts = ("node_attributes", "most_degree", "edge_attributes")
        lists = ("nodes", "edges", "node_labels", "edge_labels")
        units: dict[str, Any] = {
            name: _read_units(values, name) for name in ("node_units", "edge_units")
        }
        names = _read_names(values)
        values = {k: v for k, v in values.items() if k not in units and k != "names"}
        if set(values) != {*counts, *lists}:
            raise ValueError(f"unknown or missing fields {sorted(set(values) ^ {*counts, *lists})}")
        for name in counts:
            if type(values[name]) is not int or not 0 <= values[name] < 2**31:
                raise ValueError(f"{name} is {values[name]!r}")
        frozen: dict[str, Any] = {name: _words(values[name]) for name in ("nodes", "edges")}
        for name in ("node_labels", "edge_labels"):
            if not isinstance(values[name], list):
                raise ValueError(f"{name} is {values[name]!r}")
            frozen[name] = tuple(_words(names) for names in values[name])
        return cls(**frozen, **units, names=names, **{name: values[name] for name in counts})


def _units(attributes: np.ndarray | None) -> tuple[Unit, ...]:
    """The unit of each column; empty if float32 represents all columns well, as it nearly always does."""
    if attributes is None or len(attributes) == 0:
        return ()
    blocks = [slice(start, start + BLOCK) for start in range(0, len(attributes), BLOCK)]
    low = np.min([attributes[rows].min(0) for rows in blocks], 0)
    high = np.max([attributes[rows].max(0) for rows in blocks], 0)
    largest = np.maximum(np.abs(low), np.abs(high))
    largest[largest == 0] = 1
    mean, variance, count = np.zeros(1), np.zeros(1), 0
    for rows in blocks:
        scaled = attributes[rows] / largest  # squares of 1e-200 would be 0
        share = len(scaled) / (count + len(scaled))
        shift = scaled.mean(0) - mean
        # the pairwise formula of Chan, Golub and LeVeque
        variance = (1 - share) * variance + share * scaled.var(0) + share * (1 - share) * shift**2
        mean, count = mean + share * shift, count + len(scaled)
    mean, sd = mean * largest, np.sqrt(variance) * largest
    spread = (sd > 0) & (low < high)  # rounding gives constant columns a tiny sd
    odd = (sd < MIN_SD) | (sd > MAX_SD) | (sd < MIN_RELATIVE_SD * np.abs(mean))
    needed = spread & odd & (sd > np.finfo(np.float64).tiny)
    if not needed.any():
        return ()
    return tuple(
        (float(m), float(s)) if scaled else PLAIN
        for m, s, scaled in zip(mean, sd, needed, strict=True)
    )


def _largest_degree(raw: RawGraphs) -> int:
    """The largest degree of the undirected graphs."""
    return max(
        (int(np.diff(part.undirected().indptr).max(initial=0)) for part in raw.parts(PART)),
        default=0,
    )


def _in_units(raw: RawGraphs, field: str, table: np.ndarray, units: tuple[Unit, ...]) -> np.ndarray:
    """The attributes in their units; raises an error that names the graph if a number is then too large for float32."""
    if not units or not len(table):
        return table
    zero, size = np.array(units).T
    with np.errstate(over="ignore"):
        table = (table - zero) / size
    wrong = np.flatnonzero(~(np.abs(table) <= MAX_FLOAT).all(1))
    if len(wrong):
        node = raw.target[wrong[0]] if field == "edge_attributes" else wrong[0]
        graph = int(np.searchsorted(np.cumsum(raw.sizes), node, side="right"))
        raise DataError(
            f"{raw.name}, graph {graph}: expected {field.replace('_', ' ')} near those of the training data, "
            "got numbers that are larger by more than 38 orders of magnitude"
        )
    return table


def _read_units(values: dict[str, Any], name: str) -> tuple[Unit, ...]:
    """Units from JSON."""
    pairs = values[name]
    for pair in pairs:
        _, size = pair
        if not all(type(v) in (int, float) and math.isfinite(v) for v in pair) or size <= 0:
            raise ValueError(f"{name} has {pair!r}")
    columns = values.get(name.replace("units", "attributes"))
    if pairs and len(pairs) != columns:
        raise ValueError(f"{name} has {len(pairs)} columns, expected {columns}")
    return tuple((float(zero), float(size)) for zero, size in pairs)


def _read_names(values: dict[str, Any]) -> ColumnNames | None:
    """Names of columns from JSON; None in models of graphs without names."""
    if values["names"] is None:
        return None
    names = ColumnNames.from_json(values["names"])
    for table in ("node_labels", "node_attributes", "edge_labels", "edge_attributes"):
        columns = values[table]
        expected = columns if isinstance(columns, int) else len(columns)
        if len(getattr(names, table)) != expected:
            raise ValueError(f"{table} has {expected} columns, got other names: {names!r}")
    return names


def _words(values: Any) -> tuple[str, ...]:
    """A list of distinct strings as a tuple."""
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{values!r} is not a list of strings")
    if len(set(values)) < len(values):
        raise ValueError(f"{values!r} has a duplicate string")
    return tuple(values)


def _warn_of_names(raw: RawGraphs) -> None:
    """Warn about a node label that differs in nearly every node: each value becomes a feature column."""
    labels = raw.node_labels
    for column, names in enumerate(labels.names if labels is not None else ()):
        if looks_like_names(len(names), raw.num_nodes):
            warnings.warn(
                f"{raw.name}: node label {column + 1} has {len(names):,} distinct strings for {raw.num_nodes:,} nodes, "
                "and each becomes a feature column. If they are node names, remove them",
                stacklevel=3,
            )


def _default(raw: RawGraphs) -> list[str]:
    parts = ["attributes"] if raw.node_attributes is not None else []
    parts += ["labels"] if raw.node_labels is not None else []
    return parts or ["degree", "log-degree"]


def _used_names(raw: RawGraphs, **used: bool) -> ColumnNames | None:
    """The names of the columns of the tables that are used; None if the graphs have no names."""
    if raw.names is None:
        return None
    return ColumnNames(
        **{t: getattr(raw.names, t) if is_used else () for t, is_used in used.items()}
    )


def _required(raw: RawGraphs, field: str, columns: int, names: ColumnNames | None) -> Any:
    """The columns of a table that a model was trained on: by name where both have names, or else by position."""
    table = getattr(raw, field)
    what = field.replace("_", " ")
    rows = raw.num_edges if field.startswith("edge") else raw.num_nodes
    if rows == 0:  # a table without rows may be missing, or have any number of columns
        return _empty(field, columns)
    if names is not None and raw.names is not None:
        index = _columns_by_name(raw, field, names)
        return table.take_columns(index) if isinstance(table, Categories) else table[:, index]
    if table is None:
        raise DataError(f"{raw.name}: expected {columns} columns of {what}, got none")
    got = table.columns if isinstance(table, Categories) else table.shape[1]
    if got != columns:
        raise DataError(f"{raw.name}: expected {columns} columns of {what}, got {got}")
    return table


def _columns_by_name(raw: RawGraphs, field: str, names: ColumnNames) -> list[int]:
    """The index of each named column in a table of these graphs."""
    kind = field.split("_")[0]
    assert raw.names is not None
    wanted, found, present = getattr(names, field), getattr(raw.names, field), raw.names.keys(kind)
    index: list[int] = []
    for name in dict.fromkeys(wanted):
        matches = [column for column, other in enumerate(found) if other == name]
        if name not in present:
            raise DataError(f"{raw.name}: {missing_attribute(kind, name, present)}")
        if not matches:
            expected, got = (
                ("words", "numbers") if field.endswith("labels") else ("numbers", "words")
            )
            raise DataError(
                f"{raw.name}: expected {expected} in the {kind} attribute {name!r}, got {got}"
            )
        if len(matches) != wanted.count(name):
            count = wanted.count(name)
            numbers = "number" if count == 1 else "numbers"
            raise DataError(
                f"{raw.name}: expected {count} {numbers} in the {kind} attribute {name!r}, got {len(matches)}"
            )
        index += matches
    return index


def _empty(field: str, columns: int) -> Any:
    if field.endswith("labels"):
        return Categories(np.empty((0, columns), np.int32), ((),) * columns)
    return np.empty((0, columns))


def _one_hot(
    table: Categories,
    names: tuple[tuple[str, ...], ...],
    what: str,
    unseen: dict[str, Counter[str]],
) -> np.ndarray:
    out = np.zeros((len(table), sum(len(n) for n in names)), np.float32)
    start = 0
    for c, known in enumerate(names):
        index = {name: i for i, name in enumerate(known)}
        column = np.array([index.get(name, -1) for name in table.names[c]], np.int64)
        column = column[table.codes[:, c]] if len(column) else np.empty(0, np.int64)
        rows = np.flatnonzero(column >= 0)
        out[rows, start + column[rows]] = 1
        start += len(known)
        if len(rows) < len(column):
            counts = np.bincount(table.codes[column < 0, c], minlength=len(table.names[c]))
            title = what if len(names) == 1 else f"{what} {c + 1}"
            unseen[title] = Counter(
                {table.names[c][i]: int(counts[i]) for i in np.flatnonzero(counts)}
            )
    return out


def clustering_coefficients(raw: RawGraphs, max_edges: int = 2_000_000) -> np.ndarray:
    """[N]: the fraction of a node's pairs of neighbors that are connected; 0 for fewer than two neighbors.

    Processes about `max_edges` edges at a time, which bounds the memory.
    """
    from scipy.sparse import csr_array

    raw = raw.undirected()
    ends = np.concatenate([[0], np.cumsum(raw.sizes)])
    out = np.zeros(raw.num_nodes)
    start = 0
    while start < len(raw):
        limit = raw.indptr[ends[start]] + max_edges
        stop = int(np.searchsorted(raw.indptr[ends], limit, side="right")) - 1
        stop = min(max(stop, start + 1), len(raw))
        a, b = ends[start], ends[stop]
        source = raw.source[raw.indptr[a] : raw.indptr[b]] - a
        indptr = raw.indptr[a : b + 1] - raw.indptr[a]
        ones = np.ones(len(source))
        adj = csr_array((ones, source, indptr), shape=(b - a, b - a))
        adj.setdiag(0)
        adj.eliminate_zeros()
        degree = np.diff(adj.indptr)
        closed = (adj @ adj).multiply(adj).sum(1)
        pairs = degree * (degree - 1)
        out[a:b] = np.where(pairs > 0, closed / np.maximum(pairs, 1), 0)
        start = stop
    return out
