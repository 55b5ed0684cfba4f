"""Read the text format of the TU collection (Morris et al., 2020)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from diffpool.data.archive import DOWNLOAD_AGAIN, OPTIONAL, TUFiles
from diffpool.data.categories import Categories
from diffpool.data.raw import RawGraphs
from diffpool.data.table import Kind, line_of_row, read_table
from diffpool.errors import DataError

COLUMNS = {"A": 2, "graph_indicator": 1, "graph_labels": 1}  # the others have any number


def read_tu(path: Path, name: str) -> RawGraphs:
    """Read the data set in a zip file or a folder. Invalid content raises a DataError that names the file and the line.

    Lines of `NAME_A.txt` are source and target. A graph that has a line in `NAME_graph_labels.txt` or
    `NAME_graph_attributes.txt` but none in `NAME_graph_indicator.txt` has no nodes.
    """
    with TUFiles(path, name) as files:
        try:
            return _read(files)
        except MemoryError as error:
            raise DataError(
                f"{path}: the data set does not fit into memory. Use a machine with more memory."
            ) from error


def _read(files: TUFiles) -> RawGraphs:
    graph_of_node = _table(files, "graph_indicator")[:, 0]
    tables = {part: _table(files, part) for part in OPTIONAL if part in files}
    _check_indicator(files, graph_of_node, {part: len(table) for part, table in tables.items()})
    sizes = np.bincount(graph_of_node - 1)
    edges = _table(files, "A")
    for part, table in tables.items():
        if part.startswith("graph"):
            _check_lines(files, part, len(table), len(sizes), "graph in", "graph_indicator")
        elif part.startswith("node"):
            _check_lines(files, part, len(table), len(graph_of_node), "line of", "graph_indicator")
        else:
            _check_lines(files, part, len(table), len(edges), "line of", "A")
    tables = {part: table for part, table in tables.items() if len(table)}
    edges -= 1
    try:
        return RawGraphs.from_edges(
            files.name,
            sizes,
            edges[:, 0],
            edges[:, 1],
            classes=_categories(tables.get("graph_labels")),
            targets=tables.get("graph_attributes"),
            node_labels=_categories(tables.get("node_labels")),
            node_attributes=tables.get("node_attributes"),
            edge_labels=_categories(tables.get("edge_labels")),
            edge_attributes=tables.get("edge_attributes"),
        )
    except DataError as error:
        raise (_edge_fault(files, sizes, edges) or error) from error


def _table(files: TUFiles, part: str) -> np.ndarray:
    kind: Kind = "float" if part.endswith("attributes") else "int"
    with files.open(part) as read:
        return read_table(read, files.file(part), kind, COLUMNS.get(part))


def _categories(labels: np.ndarray | None) -> Categories | None:
    return None if labels is None else Categories.from_values(labels)


# --- checks


def _fault(files: TUFiles, part: str, row: int, message: str) -> DataError:
    """An error that names the file and the line of a row."""
    return DataError(f"{files.file(part)}, line {line_of_row(files.text(part), row)}: {message}")


def _check_indicator(files: TUFiles, graph_of_node: np.ndarray, lines: dict[str, int]) -> None:
    """Check that graph numbers ascend from 1. A skipped number is an empty graph if another file has a line for it."""
    part = "graph_indicator"
    if len(graph_of_node) == 0:
        raise DataError(
            f"{files.file(part)}: expected a line for each node, got none. {DOWNLOAD_AGAIN}"
        )
    low = np.flatnonzero(graph_of_node < 1)
    if len(low):
        value = graph_of_node[low[0]]
        message = f"expected graph numbers from 1, got {value}. Count the graphs from 1."
        raise _fault(files, part, low[0], message)
    step = np.diff(graph_of_node, prepend=0)
    back = np.flatnonzero(step < 0)
    if len(back):
        before, value = graph_of_node[back[0] - 1], graph_of_node[back[0]]
        message = f"expected graph numbers in ascending order, got {value} after {before}. Sort the nodes by graph."
        raise _fault(files, part, back[0], message)
    gap = np.flatnonzero(step > 1)
    line_counts = [count for part, count in lines.items() if part.startswith("graph")]
    if len(gap) and all(count < graph_of_node[-1] for count in line_counts):
        missing = graph_of_node[gap[0]] - step[gap[0]] + 1
        message = (
            f"expected graph {missing}, got {missing + step[gap[0]] - 1}. Number the graphs without gaps, or add "
            f"a line to {files.file('graph_labels')} for graphs without nodes."
        )
        raise _fault(files, part, gap[0], message)


def _check_lines(files: TUFiles, part: str, lines: int, expected: int, each: str, of: str) -> None:
    if lines != expected:
        message = f"expected {expected} lines, one for each {each} {files.file(of)}, got {lines}. {DOWNLOAD_AGAIN}"
        raise _fault(files, part, min(lines, expected), message)


def _edge_fault(files: TUFiles, sizes: np.ndarray, edges: np.ndarray) -> DataError | None:
    """The error about edges between nodes counted from 0, in the numbers of the file; None if they are correct."""
    nodes = int(sizes.sum())
    outside = np.argwhere((edges < 0) | (edges >= nodes))
    if len(outside):
        row, end = outside[0]
        value = (edges[row] + 1)[end]
        advice = "Count the nodes from 1." if value == 0 else DOWNLOAD_AGAIN
        message = f"expected node numbers from 1 to {nodes}, one for each line of {files.file('graph_indicator')}, "
        return _fault(files, "A", row, f"{message}got {value}. {advice}")
    graph = np.repeat(np.arange(len(sizes)), sizes)[edges]
    across = np.flatnonzero(graph[:, 0] != graph[:, 1])
    if len(across) == 0:
        return None
    (a, b), (g, h) = edges[across[0]] + 1, graph[across[0]] + 1
    message = f"expected two nodes of one graph, got node {a} of graph {g} and node {b} of graph {h}. {DOWNLOAD_AGAIN}"
    return _fault(files, "A", across[0], message)
