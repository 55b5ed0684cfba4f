"""Checks of the edges of a batch of graphs: every problem is a DataError that names the first wrong edge."""

from __future__ import annotations

import numpy as np

from diffpool.errors import DataError
from diffpool.layout import checked_sizes


def check_edges(
    sizes: np.ndarray, source: np.ndarray, target: np.ndarray, weights: np.ndarray | None
) -> None:
    """Raise a DataError unless the edges lie within graphs of these sizes and have nonnegative weights."""
    if len(source) != len(target):
        raise DataError(
            f"expected as many sources as targets, got {len(source)} and {len(target)}: "
            "give both for every directed edge"
        )
    if weights is not None and len(weights) != len(source):
        raise DataError(
            f"expected one weight for each of the {len(source)} edges, got {len(weights)}: "
            "leave the weights out if all are 1"
        )
    if weights is not None and not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise DataError(
            "expected finite edge weights of at least 0, got others: remove or replace them"
        )
    check_sizes(sizes)
    if len(source) == 0:
        return
    num_nodes = int(sizes.sum())
    low = min(source.min(), target.min())
    high = max(source.max(), target.max())
    if low < 0 or high >= num_nodes:
        raise DataError(
            f"expected node numbers from 0 to {num_nodes - 1}, got {low if low < 0 else high}: "
            "are nodes counted from 1, or are these the edges of another batch?"
        )
    graph_of_node = np.repeat(np.arange(len(sizes)), sizes)
    across = np.flatnonzero(graph_of_node[source] != graph_of_node[target])
    if len(across):
        edge = across[0]
        raise DataError(
            f"expected both ends of an edge in one graph, got edge {edge} from node {source[edge]} (graph "
            f"{graph_of_node[source[edge]]}) to node {target[edge]} (graph {graph_of_node[target[edge]]}): remove it"
        )


def check_csr(
    sizes: np.ndarray,
    indptr: np.ndarray,
    source: np.ndarray,
    weights: np.ndarray | None,
    features: np.ndarray | None,
) -> None:
    """Raise a DataError unless these are the edges of graphs of these sizes, sorted by target."""
    check_sizes(sizes)
    num_nodes, num_edges = int(np.sum(sizes)), len(source)
    if len(indptr) != num_nodes + 1 or indptr[0] != 0 or indptr[-1] != num_edges:
        raise DataError(
            f"expected indptr from 0 to the number of edges, {num_edges}, with an entry for each of "
            f"{num_nodes} nodes and one more, got {len(indptr)} entries"
        )
    counts = np.diff(indptr)
    if (counts < 0).any():
        raise DataError(
            "expected indptr in ascending order: entry i is the first edge that points to node i"
        )
    for name, table in (("weight", weights), ("row of features", features)):
        if table is not None and len(table) != num_edges:
            raise DataError(f"expected one {name} for each of {num_edges} edges, got {len(table)}")
    ends = np.cumsum(sizes)
    low = np.repeat(np.repeat(ends - sizes, sizes), counts)  # [E]: the first node of the graph
    outside = (source < low) | (source >= np.repeat(np.repeat(ends, sizes), counts))
    if outside.any():
        edge = int(np.argmax(outside))
        target = int(np.searchsorted(indptr, edge, side="right")) - 1
        raise DataError(
            f"expected edges between nodes of one graph, got edge {edge} from node {source[edge]} to node "
            f"{target}: remove it"
        )


def check_sizes(sizes: np.ndarray) -> None:
    """Raise a DataError unless these can be the sizes of graphs."""
    try:
        checked_sizes(sizes)
    except ValueError as error:
        raise DataError(str(error)) from None
