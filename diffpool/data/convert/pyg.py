"""Convert PyTorch Geometric's `Data`. PyG is not imported: any object with an `edge_index` works."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffpool.data.convert.values import (
    all_or_none,
    answers,
    as_array,
    numbers,
    plain,
    stacked,
    weights,
)
from diffpool.data.raw import RawGraphs, missing_node
from diffpool.errors import DataError, shortened

MAX_NODES = 1_000_000_000  # more do not fit into memory


def from_pyg(graphs: list[Any], name: str, read_y: bool) -> RawGraphs:
    """Convert `x`, `edge_attr`, `edge_weight` and, with `read_y`, `y` of each graph."""
    sizes, sources, targets = [], [], []
    tables: dict[str, list[np.ndarray | None]] = {
        field: [] for field in ("node_attributes", "edge_attributes", "edge_weights")
    }
    total = 0
    for g, graph in enumerate(graphs):
        nodes, edges = _structure(g, graph)
        count = edges.shape[1]
        x = getattr(graph, "x", None)
        attributes, weight = getattr(graph, "edge_attr", None), getattr(graph, "edge_weight", None)
        tables["node_attributes"].append(None if x is None else numbers(g, "x", x, nodes))
        tables["edge_attributes"].append(
            None if attributes is None else numbers(g, "edge_attr", attributes, count)
        )
        tables["edge_weights"].append(
            None if weight is None else weights(g, numbers(g, "edge_weight", weight, count))
        )
        sizes.append(nodes)
        sources.append(edges[0].astype(np.int64) + total)
        targets.append(edges[1].astype(np.int64) + total)
        total += nodes
    found: dict[str, Any] = {key: stacked(key, values) for key, values in tables.items()}
    if found["edge_weights"] is not None:
        found["edge_weights"] = found["edge_weights"].reshape(-1)
    y = [plain(getattr(graph, "y", None)) for graph in graphs] if read_y else [None]
    given = answers(y) if all_or_none("y", y) else {}
    return RawGraphs.from_edges(
        name, sizes, np.concatenate(sources), np.concatenate(targets), **found, **given
    )


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
