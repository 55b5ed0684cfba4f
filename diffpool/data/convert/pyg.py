"""Convert PyTorch Geometric's `Data`. PyG is not imported: any object with an `edge_index` works."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from diffpool.data.column_names import ColumnNames, missing_attribute
from diffpool.data.convert.values import (
    all_or_none,
    as_array,
    numbers,
    parse_y,
    plain,
    stacked,
    weights,
)
from diffpool.data.raw import RawGraphs, missing_node
from diffpool.errors import DataError, shortened

MAX_NODES = 1_000_000_000  # more do not fit into memory
USUAL = {"node": "x", "edge": "edge_attr"}  # may be absent, unless they are chosen


def from_pyg(
    graphs: list[Any],
    name: str,
    read_y: bool,
    node_attributes: Sequence[str] | None = None,
    edge_attributes: Sequence[str] | None = None,
    names: ColumnNames | None = None,
) -> RawGraphs:
    """Convert `x`, `edge_attr`, `edge_weight` and, with `read_y`, `y` of each graph.

    `node_attributes` and `edge_attributes` are the tensors to use instead of `x` and `edge_attr`, side by side. The
    columns then have names. `names`: the columns that a model was trained on.
    """
    given = {"node": node_attributes, "edge": edge_attributes}
    named = names is not None or any(chosen is not None for chosen in given.values())
    if names is not None:
        given = {k: names.keys(k) if chosen is None else chosen for k, chosen in given.items()}
    sizes, sources, targets = [], [], []
    tables: dict[str, list[np.ndarray | None]] = {
        field: [] for field in ("node_attributes", "edge_attributes", "edge_weights")
    }
    columns: dict[str, tuple[str, ...]] = {}
    total = 0
    for g, graph in enumerate(graphs):
        nodes, edges = _structure(g, graph)
        count = edges.shape[1]
        weight = getattr(graph, "edge_weight", None)
        for kind, rows in (("node", nodes), ("edge", count)):
            table, found = _table(g, graph, kind, given[kind], rows)
            columns.setdefault(kind, found)
            tables[f"{kind}_attributes"].append(table)
        tables["edge_weights"].append(
            None if weight is None else weights(g, numbers(g, "edge_weight", weight, count))
        )
        sizes.append(nodes)
        sources.append(edges[0].astype(np.int64) + total)
        targets.append(edges[1].astype(np.int64) + total)
        total += nodes
    found_tables: dict[str, Any] = {key: stacked(key, values) for key, values in tables.items()}
    if found_tables["edge_weights"] is not None:
        found_tables["edge_weights"] = found_tables["edge_weights"].reshape(-1)
    y = [plain(getattr(graph, "y", None)) for graph in graphs] if read_y else [None]
    more = parse_y(y) if all_or_none("y", y) else {}
    if named:
        more["names"] = ColumnNames(
            node_attributes=columns["node"], edge_attributes=columns["edge"]
        )
    return RawGraphs.from_edges(
        name, sizes, np.concatenate(sources), np.concatenate(targets), **found_tables, **more
    )


def _table(
    g: int, graph: Any, kind: str, chosen: Sequence[str] | None, rows: int
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """The chosen tensors of a graph side by side [rows, C] and the name of each column; None if there are none."""
    if chosen is None:
        present = getattr(graph, USUAL[kind], None) is not None
        chosen = [USUAL[kind]] if present else []
    parts = []
    for name in chosen:
        value = getattr(graph, name, None)
        if value is None:
            raise DataError(f"graph {g}: {missing_attribute(kind, name, _keys(graph))}")
        part = numbers(g, name, value, rows)
        parts.append(part if part.ndim == 2 else part[:, None])
    if not parts:
        return None, ()
    columns = [name for name, part in zip(chosen, parts, strict=True) for _ in range(part.shape[1])]
    return np.concatenate(parts, 1), tuple(columns)


def _keys(graph: Any) -> list[str]:
    keys = getattr(graph, "keys", None)
    return sorted(map(str, keys())) if callable(keys) else []


def _structure(g: int, graph: Any) -> tuple[int, np.ndarray]:
    """The number of nodes and the edges [2, E], checked."""
    if hasattr(graph, "to_data_list"):
        raise DataError(
            f"graph {g}: expected a single graph, got a batch. Call its to_data_list()."
        )
    if graph.edge_index is None:
        raise DataError(
            f"graph {g}: expected an edge_index, got None. For a graph without edges, its shape is [2, 0]."
        )
    edges = as_array(f"graph {g}: edge_index", graph.edge_index)
    edges = edges.reshape(2, 0) if edges.size == 0 else edges
    if edges.ndim != 2 or len(edges) != 2 or (edges.size and edges.dtype.kind not in "iu"):
        raise DataError(
            f"graph {g}: expected an edge_index of integers [2, edges], got {edges.dtype} {list(edges.shape)}. "
            "Row 0 holds the source nodes and row 1 the target nodes."
        )
    nodes = _num_nodes(g, graph)
    if edges.size and (edges.min() < 0 or edges.max() >= nodes):
        node = edges.min() if edges.min() < 0 else edges.max()
        raise DataError(f"graph {g}: {missing_node(node, nodes)}")
    return nodes, edges


def _num_nodes(g: int, graph: Any) -> int:
    x = getattr(graph, "x", None)
    if x is not None:
        if not hasattr(x, "__len__"):
            raise DataError(
                f"graph {g}: expected x with one row for each node, got {shortened(x)}. Make it a tensor."
            )
        return len(x)
    nodes = plain(getattr(graph, "num_nodes", None))
    if nodes is None:
        raise DataError(f"graph {g}: expected x or num_nodes, got neither. Set num_nodes.")
    if type(nodes) is not int or not 0 <= nodes <= MAX_NODES:
        raise DataError(
            f"graph {g}: expected num_nodes to be an integer from 0 to {MAX_NODES}, got {shortened(nodes)}."
        )
    return nodes
