"""Batches of graphs in the objects of PyTorch Geometric, NetworkX and SciPy; each is imported only to make its objects.

`SparseGraphs` has a pair of methods for each library. Here are their edges as tensors, and the way back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from diffpool.errors import DataError


@dataclass(frozen=True, eq=False)
class EdgeList:
    """The edges of several graphs, between nodes numbered across the batch."""

    edge_index: Tensor  # [2, E], from row 0 to row 1
    edge_weight: Tensor | None = None  # [E]
    edge_attr: Tensor | None = None  # [E, C]
    batch: Tensor | None = None  # [N]: the graph of each node; either this or sizes
    batch_size: int | None = None
    sizes: list[int] | None = None  # [B]


def from_pyg(data: Any, edge_features: bool) -> EdgeList:
    """The edges of a `Data` or `Batch`, or of any object with the same attributes; nothing is copied or moved."""
    if isinstance(data, list | tuple):
        raise DataError(
            "expected a Batch or a Data of PyTorch Geometric, got a list: join the graphs with Batch.from_data_list"
        )
    if hasattr(data, "batch_sampler"):
        raise DataError(
            f"expected a Batch or a Data of PyTorch Geometric, got a {type(data).__name__}: loop over it, and pass "
            "each batch"
        )
    if hasattr(data, "edge_types"):
        raise DataError(
            f"expected graphs with one type of nodes, got {type(data).__name__}: convert them with to_homogeneous()"
        )
    edge_index = getattr(data, "edge_index", None)
    if not isinstance(edge_index, Tensor):
        hint = "for a graph without edges, its shape is [2, 0]"
        if getattr(data, "adj_t", None) is not None:
            hint = "leave out the transform ToSparseTensor"
        raise DataError(
            f"expected a Batch or a Data with edge_index [2, E], got {type(data).__name__} without one: {hint}"
        )
    edge_attr = getattr(data, "edge_attr", None) if edge_features else None
    if edge_features and edge_attr is None:
        raise DataError(
            "expected edge_attr, because edge_features=True, got none: leave out edge_features"
        )
    batch, sizes = getattr(data, "batch", None), None
    if batch is None:
        sizes = [_num_nodes(data)]
    return EdgeList(
        edge_index,
        getattr(data, "edge_weight", None),
        edge_attr,
        batch,
        None if batch is None else getattr(data, "num_graphs", None),
        sizes,
    )


def _num_nodes(data: Any) -> int:
    x = getattr(data, "x", None)
    nodes = len(x) if isinstance(x, Tensor) else getattr(data, "num_nodes", None)
    if nodes is None:
        raise DataError("expected x or num_nodes, got neither: set num_nodes")
    return int(nodes)


def to_pyg(parts: EdgeList, x: Tensor | None, y: Tensor | None) -> Any:
    """A `Batch` on the device of the edges. `sizes` are given, and the edges are sorted by graph."""
    try:
        from torch_geometric.data import Batch, Data
    except ImportError as error:
        raise _missing("PyTorch Geometric", "pyg") from error
    sizes = parts.sizes
    assert sizes is not None
    if not sizes:
        raise DataError(
            "expected at least one graph, got none: PyTorch Geometric has no empty Batch"
        )
    nodes = sum(sizes)
    for name, table, count in (("x", x, nodes), ("y", y, len(sizes))):
        if table is not None and len(table) != count:
            what = "nodes" if name == "x" else "graphs"
            raise DataError(
                f"expected {name} with one row for each of {count} {what}, got {len(table)}"
            )
    graphs = []
    for g, (start, size, edges) in enumerate(_edges_of_graphs(parts)):
        fields = {
            "x": None if x is None else x[start : start + size],
            "edge_weight": None if parts.edge_weight is None else parts.edge_weight[edges],
            "edge_attr": None if parts.edge_attr is None else parts.edge_attr[edges],
            "y": None if y is None else y[g : g + 1],
        }
        given = {name: table for name, table in fields.items() if table is not None}
        index = parts.edge_index[:, edges] - start
        graphs.append(Data(edge_index=index, num_nodes=size, **given))
    return Batch.from_data_list(graphs)


def from_networkx(graphs: Any, weight: str) -> EdgeList:
    """The edges of a NetworkX graph or a list of them: undirected edges in both directions, parallel ones repeated."""
    listed = [graphs] if hasattr(graphs, "is_multigraph") else graphs
    if not isinstance(listed, list | tuple):
        raise _unexpected("a NetworkX graph or a list of them", graphs)
    sizes: list[int] = []
    ends: list[tuple[int, int]] = []
    weights: list[Any] = []
    parallel, start = False, 0
    for g, graph in enumerate(listed):
        if not hasattr(graph, "is_multigraph"):
            raise _unexpected("a NetworkX graph", graph, f"graph {g}: ")
        index = {node: start + i for i, node in enumerate(graph.nodes)}
        parallel |= graph.is_multigraph()
        for u, v, attributes in graph.edges(data=True):
            i, j = index[u], index[v]
            both = not graph.is_directed() and i != j
            ends += [(i, j), (j, i)] if both else [(i, j)]
            weights += [attributes.get(weight)] * (1 + both)
        sizes.append(len(index))
        start += len(index)
    missing = sum(value is None for value in weights)
    if 0 < missing < len(weights):
        raise DataError(
            f"expected the attribute {weight!r} on all edges or on none, got {missing} of {len(weights)} edges without "
            "it: add it, or name another attribute with weight=…"
        )
    values = None
    if weights and not missing:
        try:
            values = torch.tensor(np.array(weights, np.float64))
        except (TypeError, ValueError):
            raise DataError(
                f"expected numbers as the attribute {weight!r} of the edges, got others: name another attribute with "
                "weight=…"
            ) from None
    elif parallel:
        values = torch.ones(len(ends), dtype=torch.float64)  # the weights count parallel edges
    edge_index = torch.tensor(ends, dtype=torch.int64).reshape(-1, 2).T
    return EdgeList(edge_index, values, sizes=sizes)


def to_networkx(parts: EdgeList, directed: bool, weight: str) -> list[Any]:
    """One `Graph` or, if `directed`, one `DiGraph` for each graph, with nodes numbered from 0."""
    try:
        import networkx
    except ImportError as error:
        raise _missing("NetworkX", "networkx") from error
    ends = parts.edge_index.T.tolist()
    weights = None if parts.edge_weight is None else parts.edge_weight.tolist()
    features = None if parts.edge_attr is None else parts.edge_attr.tolist()
    graphs = []
    for start, size, edges in _edges_of_graphs(parts):
        graph = networkx.DiGraph() if directed else networkx.Graph()
        graph.add_nodes_from(range(size))
        for e in range(edges.start, edges.stop):
            attributes: dict[str, Any] = {} if weights is None else {weight: weights[e]}
            if features is not None:
                attributes["edge_attr"] = features[e]
            graph.add_edge(ends[e][0] - start, ends[e][1] - start, **attributes)
        graphs.append(graph)
    return graphs


def from_scipy(matrices: Any) -> EdgeList:
    """The nonzero entries of one or more SciPy or NumPy matrices: A[i, j] is the weight of the edge from i to j."""
    from scipy.sparse import coo_array

    listed = matrices if isinstance(matrices, list | tuple) else [matrices]
    sizes: list[int] = []
    ends: list[np.ndarray] = []
    weights: list[np.ndarray] = []
    for g, matrix in enumerate(listed):
        if not hasattr(matrix, "tocoo") and not isinstance(matrix, np.ndarray):
            raise _unexpected("a SciPy or NumPy matrix", matrix, f"graph {g}: ")
        shape = matrix.shape
        if len(shape) != 2 or shape[0] != shape[1] or matrix.dtype.kind not in "biuf":
            raise DataError(
                f"graph {g}: expected a square matrix of numbers, got {matrix.dtype} {list(shape)}: pass the adjacency "
                "matrix alone"
            )
        entries = coo_array(matrix)
        kept = entries.data != 0
        ends.append(np.stack([entries.row, entries.col])[:, kept].astype(np.int64) + sum(sizes))
        weights.append(entries.data[kept].astype(np.float64))
        sizes.append(shape[0])
    edge_index = torch.from_numpy(np.concatenate(ends, 1) if ends else np.empty((2, 0), np.int64))
    values = np.concatenate(weights) if weights else np.empty(0)
    repeated = len(np.unique(edge_index.numpy(), axis=1).T) < len(values)
    weighted = repeated or bool(
        (values != 1).any()
    )  # repeated entries of a COO matrix are added up
    return EdgeList(edge_index, torch.from_numpy(values) if weighted else None, sizes=sizes)


def to_scipy(parts: EdgeList) -> list[Any]:
    """One `csr_array` for each graph: A[i, j] is the weight of the edge from i to j."""
    from scipy.sparse import csr_array

    source, target = parts.edge_index.cpu().numpy()
    given = parts.edge_weight
    weights = np.ones(len(source), np.float32) if given is None else given.cpu().numpy()
    matrices = []
    for start, size, edges in _edges_of_graphs(parts):
        entries = source[edges] - start, target[edges] - start
        matrices.append(csr_array((weights[edges], entries), shape=(size, size)))
    return matrices


def _edges_of_graphs(parts: EdgeList) -> Iterator[tuple[int, int, slice]]:
    """First node, number of nodes and edges of each graph; the edges are sorted by graph."""
    sizes = parts.sizes
    assert sizes is not None
    ends = torch.tensor(sizes, device=parts.edge_index.device).cumsum(0)
    counts = torch.searchsorted(
        parts.edge_index[1].contiguous(), ends
    ).tolist()  # edges up to each graph
    start = first = 0
    for size, last in zip(sizes, counts, strict=True):
        yield start, size, slice(first, last)
        start, first = start + size, last


def _missing(name: str, extra: str) -> DataError:
    return DataError(
        f"{name} is required to make its graphs. Install it with `pip install 'diffpool[{extra}]'`."
    )


def _unexpected(what: str, value: Any, where: str = "") -> DataError:
    hints: Sequence[tuple[str, str]] = (
        ("edge_index", "use SparseGraphs.from_pyg"),
        ("is_multigraph", "use SparseGraphs.from_networkx"),
        ("tocoo", "use SparseGraphs.from_scipy"),
    )
    usual = "for edges as tensors, use SparseGraphs.from_edge_index"
    hint = next((hint for name, hint in hints if hasattr(value, name)), usual)
    return DataError(f"{where}expected {what}, got {type(value).__name__}: {hint}")
