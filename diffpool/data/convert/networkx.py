"""Convert NetworkX graphs, directed or not, with or without parallel edges. Does not import NetworkX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffpool.data.categories import Categories, Names, looks_like_names
from diffpool.data.convert.values import (
    all_or_none,
    answer_row,
    classes,
    plain,
    shortened,
    targets,
)
from diffpool.data.raw import MAX_FLOAT, RawGraphs
from diffpool.errors import DataError, did_you_mean

Where = Callable[[int], str]  # the graph and the node or edge of a row, for messages


def from_networkx(
    graphs: list[Any],
    name: str,
    read_y: bool,
    node_attributes: Sequence[str] | None = None,
    edge_attributes: Sequence[str] | None = None,
) -> RawGraphs:
    """Convert graphs with all or the chosen node and edge attributes and, with `read_y`, classes and targets.

    Classes are `label` or `y` of each graph; targets are `target`.
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

    tables = _tables("node", nodes, node_of_row, node_attributes)
    tables |= _tables("edge", edges, edge_of_row, edge_attributes)
    if parallel and "edge_weights" not in tables:
        tables["edge_weights"] = np.ones(len(edges))  # so that the weight counts parallel edges
    given = _answers(graphs) if read_y else {}
    sizes = [len(graph) for graph in graphs]
    return RawGraphs.from_edges(
        name, sizes, np.array(source, np.int64), np.array(target, np.int64), **tables, **given
    )


def _tables(
    kind: str, rows: list[dict[Any, Any]], where: Where, chosen: Sequence[str] | None
) -> dict[str, Any]:
    """The tables of the nodes or edges: a column for each key, sorted by key or in the order of `chosen`."""
    labels: list[tuple[Names, np.ndarray]] = []
    attributes: list[np.ndarray] = []
    tables: dict[str, Any] = {}
    for key in _keys(kind, rows, chosen):
        values = _column(kind, key, rows, where)
        types = set(map(type, values))
        if kind == "edge" and key == "weight":
            tables["edge_weights"] = _numbers(key, values, where, minimum=0)[:, 0]
        elif types <= {str, bool} or (types <= {str, bool, int} and _is_label(key)):
            names = Names()
            labels.append((names, names.codes(list(map(str, values)))))
            if chosen is None:
                _refuse_names(kind, key, len(names), len(values))
        else:
            attributes.append(_numbers(key, values, where))
    if labels:
        tables[f"{kind}_labels"] = Categories.from_columns(labels)
    if attributes:
        tables[f"{kind}_attributes"] = np.concatenate(attributes, 1)
    return tables


def _keys(kind: str, rows: list[dict[Any, Any]], chosen: Sequence[str] | None) -> list[Any]:
    """The keys to read: all of them, sorted, or the chosen ones. Edge weights are always read."""
    found = dict.fromkeys(key for row in rows for key in row)
    if chosen is None:
        return sorted(found, key=str)
    for key in chosen if rows else ():
        if key not in found:
            known = ", ".join(sorted(map(str, found))) or "none"
            raise DataError(
                f"expected {kind}s with the attribute {key!r}, got {known}"
                + did_you_mean(str(key), map(str, found))
            )
    weight = ["weight"] if kind == "edge" and "weight" in found else []
    return list(dict.fromkeys([*(key for key in chosen if key in found), *weight]))


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


def _answers(graphs: list[Any]) -> dict[str, Any]:
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
        given["targets"] = targets([answer_row(value) for value in values])
    return given
