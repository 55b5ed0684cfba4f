"""Convert NetworkX graphs, directed or not, with or without parallel edges. Does not import NetworkX."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffpool.data.categories import Categories, Names, looks_like_names
from diffpool.data.column_names import ColumnNames, missing_attribute
from diffpool.data.convert.values import (
    all_or_none,
    classes,
    plain,
    row_of_y,
    targets,
)
from diffpool.data.raw import MAX_FLOAT, RawGraphs
from diffpool.errors import DataError, shortened

Where = Callable[[int], str]  # the graph and the node or edge of a row, for messages


def from_networkx(
    graphs: list[Any],
    name: str,
    read_y: bool,
    node_attributes: Sequence[str] | None = None,
    edge_attributes: Sequence[str] | None = None,
    names: ColumnNames | None = None,
) -> RawGraphs:
    """Convert graphs with all or the chosen node and edge attributes and, with `read_y`, classes and targets.

    Classes and targets are `label`, `y` and `target` of each graph. `names`: the columns that a model was trained on
    are read, as labels or as numbers, whatever these graphs look like.
    """
    nodes: list[dict[Any, Any]] = []  # the attributes of each node
    edges: list[dict[Any, Any]] = []  # and of each directed edge
    source: list[int] = []
    target: list[int] = []
    node_names: list[tuple[int, Any]] = []  # graph and name, for messages
    parallel = False
    for g, graph in enumerate(graphs):
        index = {node: len(nodes) + i for i, node in enumerate(graph.nodes)}
        for node, attributes in graph.nodes(data=True):
            nodes.append(attributes)
            node_names.append((g, node))
        first = len(edges)
        both = not graph.is_directed()
        for u, v, attributes in graph.edges(data=True):
            i, j = index[u], index[v]
            ends = ((i, j), (j, i)) if both and i != j else ((i, j),)
            source.extend(s for s, _ in ends)
            target.extend(t for _, t in ends)
            edges.extend(attributes for _ in ends)
        if graph.is_multigraph():
            pairs = set(zip(source[first:], target[first:], strict=True))
            parallel |= len(pairs) < len(edges) - first

    def node_of_row(i: int) -> str:
        return f"graph {node_names[i][0]}, node {node_names[i][1]!r}"

    def edge_of_row(i: int) -> str:
        (g, u), (_, v) = node_names[source[i]], node_names[target[i]]
        return f"graph {g}, edge ({u!r}, {v!r})"

    tables, found = _tables("node", nodes, node_of_row, node_attributes, names)
    edge_tables, found_in_edges = _tables("edge", edges, edge_of_row, edge_attributes, names)
    tables |= edge_tables
    if parallel and "edge_weights" not in tables:
        tables["edge_weights"] = np.ones(len(edges))  # so that the weight counts parallel edges
    given = _read_y(graphs) if read_y else {}
    sizes = [len(graph) for graph in graphs]
    return RawGraphs.from_edges(
        name,
        sizes,
        np.array(source, np.int64),
        np.array(target, np.int64),
        **tables,
        **given,
        names=ColumnNames(**found, **found_in_edges),
    )


def _tables(
    kind: str,
    rows: list[dict[Any, Any]],
    where: Where,
    chosen: Sequence[str] | None,
    names: ColumnNames | None,
) -> tuple[dict[str, Any], dict[str, tuple[str, ...]]]:
    """The tables of the nodes or edges and the names of their columns.

    There is a column for each key, sorted by key, or in the order of the chosen ones.
    """
    labels: dict[str, tuple[Names, np.ndarray]] = {}
    attributes: dict[str, np.ndarray] = {}
    tables: dict[str, Any] = {}
    trained = names is not None and chosen is None
    if names is not None and chosen is None:
        chosen = names.keys(kind)
    known_labels, known_numbers = _known(kind, names)
    for name, key in _keys(kind, rows, chosen, trained).items():
        values = _column(kind, key, rows, where)
        types = set(map(type, values))
        as_label = types <= {str, bool} or (types <= {str, bool, int} and _is_label(key))
        if kind == "edge" and key == "weight":
            tables["edge_weights"] = _numbers(key, values, where, minimum=0)[:, 0]
        elif name in known_labels and types <= {str, bool, int}:
            labels[name] = _codes(values)
        elif name in known_numbers or not as_label:
            attributes[name] = _numbers(key, values, where)
        else:
            labels[name] = _codes(values)
            if chosen is None:
                _refuse_names(kind, key, len(labels[name][0]), len(values))
    if labels:
        tables[f"{kind}_labels"] = Categories.from_columns(list(labels.values()))
    if attributes:
        tables[f"{kind}_attributes"] = np.concatenate(list(attributes.values()), 1)
    repeated = tuple(name for name, table in attributes.items() for _ in range(table.shape[1]))
    return tables, {f"{kind}_labels": tuple(labels), f"{kind}_attributes": repeated}


def _known(kind: str, names: ColumnNames | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The labels and the numbers of a model."""
    if names is None:
        return (), ()
    return getattr(names, f"{kind}_labels"), getattr(names, f"{kind}_attributes")


def _codes(values: list[Any]) -> tuple[Names, np.ndarray]:
    names = Names()
    return names, names.codes(list(map(str, values)))


def _keys(
    kind: str, rows: list[dict[Any, Any]], chosen: Sequence[str] | None, trained: bool
) -> dict[str, Any]:
    """The keys to read, by name: all of them, sorted, or the chosen ones. Weights of edges are always read.

    `trained`: a model was trained on the chosen ones.
    """
    keys = dict.fromkeys(key for row in rows for key in row)
    found = {str(key): key for key in keys}
    if len(found) < len(keys):
        twice = next(name for name, count in Counter(map(str, keys)).items() if count > 1)
        raise DataError(
            f"expected attributes of {kind}s with different names, got {twice} as a string and as another type. "
            "Rename one of them."
        )
    if chosen is None:
        return {name: found[name] for name in sorted(found)}
    names = list(map(str, chosen))
    for name in names if rows else ():
        if name not in found:
            raise DataError(missing_attribute(kind, name, found, trained))
    weight = ["weight"] if kind == "edge" and "weight" in found else []
    return {name: found[name] for name in (*names, *weight) if name in found}


def _refuse_names(kind: str, key: Any, names: int, rows: int) -> None:
    """Raise an error if a label differs in nearly every row: each value would become a feature column."""
    if looks_like_names(names, rows):
        raise DataError(
            f"expected attribute {key!r} to be a label that {kind}s share, got {names:,} distinct strings for "
            f"{rows:,} {kind}s. If it is a name, do not use it: list the attributes to use as {kind}_attributes, "
            f"such as {kind}_attributes=[]"
        )


def _is_label(key: Any) -> bool:
    """Whether integers under this key are categories."""
    return key == "label" or str(key).endswith(("_label", "type"))


def _column(kind: str, key: Any, rows: list[dict[Any, Any]], where: Where) -> list[Any]:
    """The values of a key in all rows."""
    values = [plain(row[key]) for row in rows if key in row]
    if len(values) < len(rows):
        i = next(i for i, row in enumerate(rows) if key not in row)
        raise DataError(
            f"{where(i)}: attribute {key!r} is missing, but other {kind}s have it. "
            f"Add it, or remove it from all {kind}s."
        )
    return values


def _numbers(key: Any, values: list[Any], where: Where, minimum: float = -np.inf) -> np.ndarray:
    """[rows, columns] from numbers, or from vectors of numbers of the same length."""
    width = len(values[0]) if isinstance(values[0], list) else 1
    rows = [value if isinstance(value, list) else [value] for value in values]
    for i, (value, row) in enumerate(zip(values, rows, strict=True)):
        if any(type(v) not in (int, float) for v in row):
            raise DataError(
                f"{where(i)}: expected attribute {key!r} to be all numbers or all strings, "
                f"got {shortened(value)}. Use values of one type."
            )
        if len(row) != width or not row:
            raise DataError(
                f"{where(i)}: expected attribute {key!r} to have length {max(width, 1)}, got {len(row)}. "
                "Give all vectors the same length."
            )
        if not all(max(minimum, -MAX_FLOAT) <= v <= MAX_FLOAT for v in row):
            low = 0 if minimum == 0 else f"-{MAX_FLOAT:.1e}"
            expected = f"finite numbers from {low} to {MAX_FLOAT:.1e}"
            raise DataError(
                f"{where(i)}: expected attribute {key!r} to be {expected}, got {shortened(value)}. "
                "Remove or replace them."
            )
    return np.array(rows, np.float64).reshape(len(values), width)


def _read_y(graphs: list[Any]) -> dict[str, Any]:
    """The classes and targets stored in the graphs."""
    given: dict[str, Any] = {}
    for g, graph in enumerate(graphs):
        if "label" in graph.graph and "y" in graph.graph:
            raise DataError(
                f"graph {g}: expected the class as 'label' or 'y', got both. Keep only one."
            )
    labels = [plain(graph.graph.get("label", graph.graph.get("y"))) for graph in graphs]
    if all_or_none("a class", labels):
        for g, value in enumerate(labels):
            if type(value) not in (str, int, bool):
                raise DataError(
                    f"graph {g}: expected a string or an integer as the class, got {shortened(value)}. "
                    "Put numbers to predict under 'target'."
                )
        given["classes"] = classes(labels)
    values = [plain(graph.graph.get("target")) for graph in graphs]
    if all_or_none("a target", values):
        given["targets"] = targets([row_of_y(value) for value in values])
    return given
