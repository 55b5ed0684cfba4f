"""Graphs as given, before features are computed. Every reader returns `RawGraphs`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from diffpool.data.categories import Categories, numerical_order
from diffpool.data.column_names import ColumnNames
from diffpool.edge_checks import check_edges
from diffpool.errors import DataError

Table = np.ndarray | Categories

# The fields of RawGraphs with one row for each node, edge and graph.
NODE_TABLES = ("node_labels", "node_attributes")
EDGE_TABLES = ("edge_weights", "edge_labels", "edge_attributes")
GRAPH_TABLES = ("classes", "targets")

BLOCK = 1 << 20  # edges processed at a time
MAX_FLOAT = float(np.finfo(np.float32).max)  # models compute in float32
NUMBERS = ("node_attributes", "edge_weights", "edge_attributes", "targets")  # the others have names


@dataclass(frozen=True)
class Skipped:
    """A row of a file that is not a graph and was left out on request."""

    index: int  # number of graphs before it
    where: str  # in the file, such as `line 7`
    columns: dict[str, Any]


@dataclass(frozen=True, eq=False, repr=False)
class RawGraphs:
    """B graphs with N nodes and E directed edges, without duplicates, sorted by target and then source.

    An undirected edge is stored in both directions, a self-loop once. `directed`: whether some edge has no reverse.
    """

    name: str
    sizes: np.ndarray  # [B] int64: number of nodes
    indptr: np.ndarray  # [N + 1] int64: edges indptr[i] to indptr[i + 1] point to node i
    source: np.ndarray  # [E] int64: nodes, numbered across all graphs
    directed: bool = False
    edge_weights: np.ndarray | None = None  # [E] float64
    edge_labels: Categories | None = None
    edge_attributes: np.ndarray | None = None  # [E, ·] float64
    node_labels: Categories | None = None
    node_attributes: np.ndarray | None = None  # [N, ·] float64
    classes: Categories | None = None  # one column
    targets: np.ndarray | None = None  # [B, ·] float64: for regression
    # Additional columns of the input file, such as an id: a value or None for each graph, by
    # column. They are not used in computations; predictions repeat them.
    columns: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
    names: ColumnNames | None = (
        None  # of the columns of the node and edge tables, if they have names
    )
    skipped: tuple[Skipped, ...] = ()  # rows of the file that were left out
    digest: str = ""  # of the data set on disk whose mapped arrays these are, see `data/stored.py`

    @classmethod
    def from_edges(
        cls,
        name: str,
        sizes: np.ndarray | Sequence[int],
        source: np.ndarray,
        target: np.ndarray,
        *,
        one_way: bool = False,
        **tables: Any,
    ) -> RawGraphs:
        """Build from directed edges in any order (nodes numbered across all graphs) and tables named like the fields.

        Duplicate edges are merged: weights are added, and the first labels and attributes are kept. `one_way`: the
        edges are undirected, and missing reverse edges are added. Numbers that are not finite, or
        exceed the range of float32, raise a DataError that names the graph.
        """
        sizes = np.asarray(sizes, dtype=np.int64)
        for field in NUMBERS:
            if tables.get(field) is not None:
                tables[field] = _numbers(field, tables[field])
        source, target = np.asarray(source, np.int64), np.asarray(target, np.int64)
        weights = tables.get("edge_weights")
        check_edges(sizes, source, target, weights)
        total, edges = int(sizes.sum()), len(source)
        for field in (*NODE_TABLES, *EDGE_TABLES, *GRAPH_TABLES):
            table = tables.get(field)
            expected = (
                total if field in NODE_TABLES else edges if field in EDGE_TABLES else len(sizes)
            )
            if table is not None and len(table) != expected:
                what = (
                    "node" if field in NODE_TABLES else "edge" if field in EDGE_TABLES else "graph"
                )
                raise DataError(
                    f"expected one row of {field} for each of {expected} {what}s, got {len(table)}."
                )
        check_range(sizes, target, tables)
        if _in_order(source, target):
            indptr, source = _indptr(total, target), source.copy()
        elif total < 2**31 and all(tables.get(field) is None for field in EDGE_TABLES):
            indptr, source = _sort_plain_edges(total, source, target)
        else:
            indptr, order, first = _sort_edges(total, source, target)
            if weights is not None and len(first) < edges:
                sums = np.add.reduceat(weights[order], first) if edges else weights
                check_range(sizes, target[order[first]], {"edge_weights": sums})
            else:
                sums = None if weights is None else weights[order]
            chosen = order[first]
            for field in EDGE_TABLES:
                table = tables.get(field)
                if table is not None:
                    tables[field] = _rows(table, chosen)
            if sums is not None:
                tables["edge_weights"] = sums
            source = source[chosen]
        raw = cls(name, sizes, indptr, source, **tables)
        raw = replace(raw, directed=not raw.is_symmetric())
        return raw.undirected() if one_way else raw

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def num_nodes(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """Number of directed edges."""
        return len(self.source)

    @property
    def target(self) -> np.ndarray:
        """[E]: the node that an edge points to."""
        return np.repeat(np.arange(self.num_nodes), np.diff(self.indptr))

    @property
    def starts(self) -> np.ndarray:
        """[B]: the first node of each graph."""
        return np.cumsum(self.sizes) - self.sizes

    @property
    def edge_counts(self) -> np.ndarray:
        """[B]: number of directed edges."""
        ends = np.concatenate([[0], np.cumsum(self.sizes)])
        return np.diff(self.indptr[ends])

    @property
    def self_loops(self) -> int:
        return int((self.source == self.target).sum())

    def blocks(self) -> Iterator[tuple[slice, slice]]:
        """Slices of nodes and edges, a few graphs at a time, so that temporary arrays stay small."""
        nodes = np.concatenate([[0], np.cumsum(self.sizes)])
        edges, first = self.indptr[nodes], 0
        while first < len(self):
            last = int(np.searchsorted(edges, edges[first] + BLOCK, side="right")) - 1
            last = max(last, first + 1)
            yield slice(nodes[first], nodes[last]), slice(edges[first], edges[last])
            first = last

    def is_symmetric(self) -> bool:
        """Whether every edge has its reverse: whether A is stored the same by columns and by rows."""
        from scipy.sparse import csr_array

        for nodes, edges in self.blocks():
            size, start = nodes.stop - nodes.start, self.indptr[nodes.start]
            small = np.int32 if max(size, edges.stop - edges.start) < 2**31 else np.int64
            indptr = (self.indptr[nodes.start : nodes.stop + 1] - start).astype(small)
            source = (self.source[edges] - nodes.start).astype(small)
            by_rows = csr_array((np.ones(len(source), bool), source, indptr), shape=(size, size))
            by_columns = by_rows.tocsc()
            same = np.array_equal(by_columns.indptr, indptr)
            if not same or not np.array_equal(by_columns.indices, source):
                return False
        return True

    def _without_reverse(self) -> np.ndarray:
        """Indices of the edges that have no reverse."""
        total = self.num_nodes
        keys = self.target * total + self.source  # sorted
        reverse = self.source * total + self.target
        index = np.searchsorted(keys, reverse).clip(max=len(keys) - 1)
        return np.flatnonzero(keys[index] != reverse)

    def undirected(self) -> RawGraphs:
        """Add the missing reverse of every edge, with the same weight, labels and attributes."""
        if not self.directed:
            return self
        missing = self._without_reverse()
        everything = np.concatenate([np.arange(self.num_edges), missing])
        target = self.target
        source, target = (
            np.concatenate([self.source, target[missing]]),
            np.concatenate([target, self.source[missing]]),
        )
        indptr, order, _ = _sort_edges(self.num_nodes, source, target)
        tables: dict[str, Any] = {
            field: _rows(getattr(self, field), everything[order])
            for field in EDGE_TABLES
            if getattr(self, field) is not None
        }
        return replace(
            self, indptr=indptr, source=source[order], directed=False, digest="", **tables
        )

    def with_label_column(self) -> RawGraphs:
        """The same graphs with their classes, if they have any, as the column `label`: predictions repeat it."""
        if self.classes is None:
            return self
        labels = self.classes.labels()
        words = [labels[code] for code in self.classes.codes[:, 0].tolist()]
        return replace(self, columns={**self.columns, "label": words})

    def parts(self, size: int) -> Iterator[RawGraphs]:
        """The graphs in order, `size` at a time."""
        starts = self.starts
        for first in range(0, len(self), size):
            yield self.select(np.arange(first, min(first + size, len(self))), starts)

    def select(
        self, graphs: Sequence[int] | np.ndarray, starts: np.ndarray | None = None
    ) -> RawGraphs:
        """The graphs with these indices, in this order. `starts` is `self.starts`, for many calls in a row."""
        chosen = np.asarray(graphs, dtype=np.int64)
        sizes, starts = self.sizes[chosen], (self.starts if starts is None else starts)[chosen]
        shift = np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)  # [N']: old − new
        nodes = np.arange(len(shift)) + shift
        first_edge = self.indptr[nodes]
        count = self.indptr[nodes + 1] - first_edge  # not of all nodes: there may be very many
        end = np.cumsum(count)
        edges = np.arange(count.sum()) + np.repeat(first_edge - (end - count), count)
        rows = {NODE_TABLES: nodes, EDGE_TABLES: edges, GRAPH_TABLES: chosen}
        tables: dict[str, Any] = {
            field: _rows(getattr(self, field), index)
            for names, index in rows.items()
            for field in names
            if getattr(self, field) is not None
        }
        return replace(
            self,
            sizes=sizes,
            indptr=np.concatenate([[0], end]).astype(np.int64),
            source=self.source[edges] - np.repeat(shift, count),
            columns={
                name: [values[g] for g in chosen.tolist()] for name, values in self.columns.items()
            },
            skipped=(),
            digest="",
            **tables,
        )

    def __getitem__(self, graphs: Any) -> RawGraphs:
        """One or several graphs, by an index, slice, list or mask, as scikit-learn requires."""
        return self.select(np.atleast_1d(np.arange(len(self))[graphs]))

    def __repr__(self) -> str:
        has = [
            f.name for f in fields(self) if f.name in (*NODE_TABLES, *EDGE_TABLES, *GRAPH_TABLES)
        ]
        has = [name for name in has if getattr(self, name) is not None]
        return (
            f"RawGraphs({self.name}: {len(self)} graphs, {self.num_nodes} nodes, {self.num_edges} directed edges"
            f"{''.join(', ' + name for name in has)})"
        )


def concatenate(parts: Sequence[RawGraphs], name: str | None = None) -> RawGraphs:
    """The graphs of all parts. Categories are merged by name; a table that only some parts have is an error."""
    if not parts:
        raise DataError("expected at least one graph, got none.")
    nodes = np.cumsum([0, *(p.num_nodes for p in parts)])
    edges = np.cumsum([0, *(p.num_edges for p in parts)])
    tables: dict[str, Any] = {}
    for field in (*NODE_TABLES, *EDGE_TABLES, *GRAPH_TABLES):
        values = [getattr(part, field) for part in parts]
        if all(v is None for v in values):
            continue
        if any(v is None for v in values):
            missing = next(i for i, v in enumerate(values) if v is None)
            raise DataError(
                f"expected {field} in every graph or in none, but part {missing} of {len(parts)} has none."
            )
        tables[field] = _stack(field, values)
    return RawGraphs(
        name=parts[0].name if name is None else name,
        sizes=np.concatenate([p.sizes for p in parts]),
        indptr=np.concatenate(
            [[0], *(p.indptr[1:] + start for p, start in zip(parts, edges, strict=False))]
        ).astype(np.int64),
        source=np.concatenate(
            [p.source + start for p, start in zip(parts, nodes, strict=False)]
        ).astype(np.int64),
        directed=any(p.directed for p in parts),
        columns=_joined_columns(parts),
        names=_common_names(parts),
        **tables,
    )


def _joined_columns(parts: Sequence[RawGraphs]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for part in parts for name in part.columns)
    return {
        name: [v for part in parts for v in part.columns.get(name, [None] * len(part))]
        for name in names
    }


def _common_names(parts: Sequence[RawGraphs]) -> ColumnNames | None:
    """The names of the columns of all parts; None if some part has none."""
    common: dict[str, Any] = {}
    for field in (*NODE_TABLES, *EDGE_TABLES):
        if field == "edge_weights":
            continue
        # the columns of a table without rows are unknown
        tables = [(part.names, getattr(part, field)) for part in parts]
        filled = [names for names, table in tables if table is not None and len(table)]
        found = list(dict.fromkeys(getattr(names, field) for names in filled if names is not None))
        if len(found) > 1:
            first, other = (", ".join(names) for names in found[:2])
            raise DataError(
                f"expected the same columns of {field} in every graph, got {first} and {other}. "
                "Convert all graphs at once."
            )
        common[field] = found[0] if found else ()
    return ColumnNames(**common) if all(part.names is not None for part in parts) else None


def _stack(field: str, values: list[Any]) -> Table:
    # the columns of a table without rows are unknown
    values = [v for v in values if len(v)] or values[:1]
    widths = {v.columns if isinstance(v, Categories) else v.shape[1:] for v in values}
    if len(widths) > 1:
        raise DataError(
            f"expected the same columns of {field} in every graph, got {sorted(widths)}."
        )
    if not isinstance(values[0], Categories):
        return np.concatenate(values)
    codes, names = [], []
    for c in range(values[0].columns):
        if len({v.names[c] for v in values}) == 1:  # the common case is fast
            names.append(values[0].names[c])
            codes.append(np.concatenate([v.codes[:, c] for v in values]))
            continue
        merged = sorted({name for v in values for name in v.names[c]}, key=numerical_order)
        index = {name: i for i, name in enumerate(merged)}
        names.append(tuple(merged))
        codes.append(
            np.concatenate(
                [np.array([index[n] for n in v.names[c]], np.int32)[v.codes[:, c]] for v in values]
            )
        )
    types = {v.type for v in values}
    if field == "classes" and len(types) > 1:
        raise DataError(
            f"expected classes of one type in every graph, got {' and '.join(sorted(types))}. Convert them first."
        )
    kind = types.pop() if len(types) == 1 else "str"
    return Categories(np.stack(codes, 1).astype(np.int32), tuple(names), kind)


def _numbers(field: str, values: Any) -> np.ndarray:
    """A table of numbers as float64, from an array or from lists."""
    if np.ma.is_masked(values):
        raise DataError(
            f"expected {field} without masked values. Fill the values, or remove the graphs."
        )
    try:
        table = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"expected {field} as rows of numbers of the same length ({error})."
        ) from error
    expected = 1 if field == "edge_weights" else 2
    if table.ndim != expected:
        shape = "[edges]" if field == "edge_weights" else "[rows, columns]"
        raise DataError(f"expected {field} as an array {shape}, got {list(table.shape)}.")
    return table


def check_range(sizes: np.ndarray, target: np.ndarray, tables: dict[str, Any]) -> None:
    """Raise a DataError that names the graph of the first number that is not finite in float32."""
    for field in NUMBERS:
        table = tables.get(field)
        if table is None or not table.size:
            continue
        low, high = table.min(), table.max()
        if low >= -MAX_FLOAT and high <= MAX_FLOAT:  # false for NaN, too
            continue
        row = int(np.argwhere(~(np.abs(table) <= MAX_FLOAT))[0][0])
        graph = row
        if field not in GRAPH_TABLES:
            node = target[row] if field in EDGE_TABLES else row
            graph = int(np.searchsorted(np.cumsum(sizes), node, side="right"))
        value = np.atleast_1d(table[row])
        value = value[~(np.abs(value) <= MAX_FLOAT)][0]
        raise DataError(
            f"graph {graph}: expected {field} from -{MAX_FLOAT:.1e} to {MAX_FLOAT:.1e}, the range of float32, "
            f"got {value:g}. Rescale the column, or remove the graph."
        )


def _rows(table: Table, index: np.ndarray) -> Table:
    return table.rows(index) if isinstance(table, Categories) else table[index]


def _in_order(source: np.ndarray, target: np.ndarray) -> bool:
    """Whether the edges are sorted by target and then source, without duplicates, as in most files."""
    for start in range(0, len(source), BLOCK):
        s, t = source[start : start + BLOCK + 1], target[start : start + BLOCK + 1]
        if not ((t[1:] > t[:-1]) | ((t[1:] == t[:-1]) & (s[1:] > s[:-1]))).all():
            return False
    return True


def _indptr(num_nodes: int, target: np.ndarray) -> np.ndarray:
    """[N + 1]: where the edges to each node start and end, in sorted order."""
    counts = np.bincount(target, minlength=num_nodes)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _sort_plain_edges(
    num_nodes: int, source: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Indptr and source of edges without tables, sorted, without duplicates. COLLAB: 2 s, `_sort_edges` 14 s."""
    keys = target * num_nodes + source
    keys.sort()
    new = np.ones(len(keys), bool)
    new[1:] = keys[1:] != keys[:-1]
    keys = keys if new.all() else keys[new]
    target = keys // num_nodes
    return _indptr(num_nodes, target), keys - target * num_nodes


def _sort_edges(
    num_nodes: int, source: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """indptr, the order of edges by target and then source, and the index of the first of each run of duplicates."""
    from scipy.sparse import csr_array

    number = np.arange(len(source))
    if len(source) and (source[1:] >= source[:-1]).all():  # counting sort is faster
        by_source = csr_array((number, target, _indptr(num_nodes, source)), shape=(num_nodes,) * 2)
        order = by_source.tocsc().data  # stable: within a target by source
    else:
        order = np.lexsort((source, target))
    s, t = source[order], target[order]
    new = np.ones(len(order), bool)
    new[1:] = (s[1:] != s[:-1]) | (t[1:] != t[:-1])
    first = np.flatnonzero(new)
    return _indptr(num_nodes, t[first]), order, first


def missing_node(node: int | str, nodes: int) -> str:
    """The message about an edge to a node that does not exist."""
    numbers = f"{nodes} nodes, numbered 0 to {nodes - 1}" if nodes else "no nodes"
    return f"node {node} does not exist (the graph has {numbers}). Are nodes counted from 1?"
