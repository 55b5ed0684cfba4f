"""Graphs of your own, from objects of other libraries or from files: docs/own-graphs.md shows every form.

Nothing of those libraries is imported: a graph is known by what it can do. Messages number graphs from 0.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from diffpool.data.archive import translated
from diffpool.data.jsonl import Names, categories, check_size, iter_jsonl, read_jsonl
from diffpool.data.raw import RawGraphs, concatenate
from diffpool.data.tu import read_tu
from diffpool.errors import DataError, SettingError

RAW, PYG, NETWORKX, MATRIX = (
    "RawGraphs",
    "a PyTorch Geometric Data",
    "a NetworkX graph",
    "an adjacency matrix",
)
MOST = sys.float_info.max  # NaN is not below it
FORMS = f"{RAW}, {PYG}, {NETWORKX}, {MATRIX} (of SciPy or NumPy) or a pair (adjacency, features)"


def as_raw(graphs: Any, y: Any = None, name: str = "graphs") -> RawGraphs:
    """Graphs in any form: `RawGraphs`, or a list of those, of PyG, NetworkX or SciPy graphs, or a PyG data set.

    `y` has a class (words, whole numbers, booleans) or one or more numbers (floats) for each graph, in place of those
    that the graphs carry.
    """
    if isinstance(graphs, RawGraphs):
        return graphs if y is None else labeled(graphs, y)
    listed = _listed(graphs)
    kinds = [_kind(graph) for graph in listed]
    for g, kind in enumerate(kinds):
        if kind is None:
            raise DataError(
                f"graph {g}: expected {FORMS}, got {_type(listed[g])}: convert it first"
            )
        if kind != kinds[0]:
            raise DataError(
                f"graph {g}: expected {kinds[0]} as graph 0 is, got {kind}: convert them to one kind"
            )
    if kinds[0] == RAW:
        raw = concatenate(listed, name)
    elif kinds[0] == PYG:
        raw = _from_pyg(listed, name, y is None)
    elif kinds[0] == NETWORKX:
        raw = _from_networkx(listed, name, y is None)
    else:
        raw = _from_matrices(listed, name)
    return raw if y is None else labeled(raw, y)


def labeled(raw: RawGraphs, y: Any) -> RawGraphs:
    """The graphs with these classes or targets and no others."""
    listed = y.tolist() if hasattr(y, "tolist") else y
    if isinstance(listed, str | bytes | dict) or not isinstance(listed, Iterable):
        raise DataError(f"expected a list or an array as y, got {_type(y)}: one for each graph")
    values = list(map(_plain, listed))
    if len(values) != len(raw):
        raise DataError(
            f"expected a y for each of {len(raw)} graphs, got {len(values)}: are some missing?"
        )
    answers: dict[str, Any] = {"classes": None, "targets": None} | _answers(values)
    return replace(raw, **answers)


def read_graphs(
    path: str | Path,
    smiles: str | None = None,
    label: str | None = None,
    target: str | Sequence[str] | None = None,
) -> RawGraphs:
    """The graphs of a file: .jsonl, .jsonl.gz, .csv (molecules; the columns are named), or a TU folder or .zip."""
    path = Path(path)
    form = _form(path, smiles, label, target)
    if form == "jsonl":
        return read_jsonl(path)
    if form == "csv":
        from diffpool.data.molecules import read_molecules

        return read_molecules(path, smiles or "smiles", label, target)
    return read_tu(path, _tu_name(path))


def iter_graphs(
    path: str | Path,
    size: int,
    smiles: str | None = None,
    label: str | None = None,
    target: str | Sequence[str] | None = None,
) -> Iterator[RawGraphs]:
    """The same, `size` graphs at a time. A TU folder is read as a whole all the same."""
    check_size(size)
    path = Path(path)
    form = _form(path, smiles, label, target)
    if form == "jsonl":
        return iter_jsonl(path, size)
    if form == "csv":
        from diffpool.data.molecules import iter_molecules

        return iter_molecules(path, size, smiles or "smiles", label, target)
    raw = read_graphs(path)
    return (raw[start : start + size] for start in range(0, len(raw), size))


def _form(path: Path, *columns: Any) -> str:
    with translated(path):  # the name may be too long, the folder closed
        there = path.exists()
    if not there:
        raise DataError(f"{path}: expected a file or a folder, got none there: is the name right?")
    if path.is_dir() or path.suffix == ".zip":
        form = "tu"
    elif path.name.endswith((".jsonl", ".jsonl.gz")):
        form = "jsonl"
    elif path.suffix == ".csv":
        form = "csv"
    else:
        raise DataError(
            f"{path}: expected a folder or a file that ends in .jsonl, .jsonl.gz, .csv or .zip, "
            f"got {path.suffix or 'no suffix'}: name it after what is in it"
        )
    if form != "csv" and any(column is not None for column in columns):
        raise SettingError(
            f"{path}: expected names of columns for a .csv file only, got some for another: leave them out"
        )
    return form


def _tu_name(path: Path) -> str:
    """The name of the one data set in a TU folder or zip file."""
    with translated(path):
        if path.is_dir():
            places = ("*_A.txt", "*/*_A.txt", "*/raw/*_A.txt")
            files = [file.name for place in places for file in path.glob(place)]
        else:
            with zipfile.ZipFile(path) as archive:
                files = [member.rsplit("/", 1)[-1] for member in archive.namelist()]
    found = {f.removesuffix("_A.txt") for f in files if f.endswith("_A.txt") and f[0] != "."}
    if len(found) != 1:
        got = f"{len(found)} of them ({', '.join(sorted(found)[:5])})" if found else "none"
        raise DataError(f"{path}: expected one file NAME_A.txt, got {got}: is it in the TU format?")
    return found.pop()


def _listed(graphs: Any) -> list[Any]:
    # A data set of PyG has the attributes of its graphs and `indices`.
    kind = None if isinstance(graphs, list | tuple) or hasattr(graphs, "indices") else _kind(graphs)
    if kind is not None or (isinstance(graphs, np.ndarray) and graphs.ndim < 1):
        raise DataError(f"expected a list of graphs, got {kind or 'one value'}: write [graph]")
    iterable = isinstance(graphs, Iterable) or hasattr(graphs, "__getitem__")
    if isinstance(graphs, str | bytes | dict) or not iterable or hasattr(graphs, "edge_types"):
        raise DataError(
            f"expected a list of graphs, got {_type(graphs)}: read files with diffpool.read_graphs"
        )
    listed = list(graphs)
    if not listed:
        raise DataError("expected at least one graph, got an empty list: was everything filtered?")
    return listed


def _kind(graph: Any) -> str | None:
    if isinstance(graph, RawGraphs):
        return RAW
    if hasattr(graph, "is_multigraph") and hasattr(graph, "nodes"):
        return NETWORKX
    if hasattr(graph, "edge_index"):
        return PYG
    first = graph[0] if isinstance(graph, tuple | list) and len(graph) == 2 else graph
    if hasattr(first, "tocoo") or (isinstance(first, np.ndarray) and first.ndim == 2):
        return MATRIX
    return None


def _type(value: Any) -> str:
    return type(value).__name__


def _plain(value: Any) -> Any:
    """Numbers, words and lists of Python for those of NumPy and PyTorch."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return list(value) if isinstance(value, tuple) else value


# --- classes and targets


def _answers(values: list[Any]) -> dict[str, Any]:
    """Classes from words, whole numbers and booleans; targets from floats. One element for each graph, plain."""
    rows = [_row(value) for value in values]
    types = {type(value) for row in rows for value in row}
    if float in types and types <= {int, float}:
        return {"targets": _targets(rows)}
    for g, row in enumerate(rows):
        if len(row) != 1 or type(row[0]) not in (str, int, bool):
            raise DataError(
                f"graph {g}: expected a class (a word or a whole number) or, for every graph, floats as targets, "
                f"got {_short(values[g])}: give all graphs the same"
            )
    return {"classes": _classes([row[0] for row in rows])}


def _row(value: Any) -> list[Any]:
    while isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]  # [[a, b]]: PyG keeps the targets of a graph so
    return value if isinstance(value, list) else [value]


def _classes(values: list[Any]) -> Any:
    names = Names()
    return categories([(names, names.codes(list(map(str, values))))])


def _targets(rows: list[list[Any]]) -> np.ndarray:
    """[B, T]"""
    for g, row in enumerate(rows):
        if not row or not all(type(v) in (int, float) and abs(v) <= MOST for v in row):
            raise DataError(
                f"graph {g}: expected finite numbers as targets, got {_short(row)}: leave the graph out"
            )
        if len(row) != len(rows[0]):
            raise DataError(
                f"graph {g}: expected {len(rows[0])} targets as graph 0 has, got {len(row)}: fill them up"
            )
    return np.array(rows, np.float64)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"{text[:57]}…"


def _all_or_none(what: str, values: Sequence[Any]) -> bool:
    """Whether every graph has one; an error if only some have."""
    has = [value is not None for value in values]
    if any(has) and not all(has):
        without, with_one = has.index(False), has.index(True)
        raise DataError(
            f"graph {without}: expected {what} in every graph or in none, got none here and some in graph {with_one}: "
            "add what is missing or leave it out everywhere"
        )
    return all(has)


def _stacked(what: str, values: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """The rows [·, columns] of all graphs, None if no graph has any."""
    if not _all_or_none(what, values):
        return None
    tables = [value for value in values if value is not None]
    filled = [g for g, table in enumerate(tables) if len(table)]
    for g in filled:
        expected, got = tables[filled[0]].shape[1], tables[g].shape[1]
        if got != expected:
            raise DataError(
                f"graph {g}: expected {expected} columns of {what} as graph {filled[0]} has, got {got}: "
                "give all graphs the same"
            )
    return np.concatenate([tables[g] for g in filled]) if filled else tables[0]


def _numbers(g: int, what: str, value: Any, rows: int) -> np.ndarray:
    """[rows, columns] float64"""
    table = _array(value.toarray() if hasattr(value, "toarray") else value)
    if table.ndim not in (1, 2) or len(table) != rows or table.dtype.kind not in "biuf":
        raise DataError(
            f"graph {g}: expected {what} as numbers [{rows}, columns], got {table.dtype} {list(table.shape)}: "
            "give one row for each"
        )
    table = table[:, None] if table.ndim == 1 else table
    if not np.isfinite(table).all():
        raise DataError(f"graph {g}: expected finite {what}, got NaN or infinity: clean them first")
    return table.astype(np.float64)


def _array(value: Any) -> np.ndarray:
    """Of an array, a tensor or lists; of objects if the lists are ragged."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.double() if value.is_floating_point() else value  # NumPy has no bfloat16
    try:
        return np.asarray(value)
    except ValueError:
        return np.array(None)


def _weights(g: int, weights: np.ndarray) -> np.ndarray:
    if weights.shape[1:] not in ((), (1,)):
        raise DataError(
            f"graph {g}: expected one weight for each edge, got {weights.shape[1]}: give them as edge_attr"
        )
    if (weights < 0).any():
        raise DataError(
            f"graph {g}: expected edge weights of at least 0, got {weights.min()}: shift or leave them out"
        )
    return weights


# --- PyTorch Geometric


def _from_pyg(graphs: list[Any], name: str, own_y: bool) -> RawGraphs:
    sizes, sources, targets = [], [], []
    tables: dict[str, list[np.ndarray | None]] = {
        field: [] for field in ("node_attributes", "edge_attributes", "edge_weights")
    }
    total = 0
    for g, graph in enumerate(graphs):
        if hasattr(graph, "to_data_list"):
            raise DataError(
                f"graph {g}: expected single graphs, got a batch: call its to_data_list()"
            )
        if graph.edge_index is None:
            raise DataError(
                f"graph {g}: expected an edge_index, got none: it is [2, 0] without edges"
            )
        edges = _array(graph.edge_index)
        edges = edges.reshape(2, 0) if edges.size == 0 else edges
        if edges.ndim != 2 or len(edges) != 2 or (edges.size and edges.dtype.kind not in "iu"):
            raise DataError(
                f"graph {g}: expected an edge_index of whole numbers [2, edges], got {edges.dtype} "
                f"{list(edges.shape)}: row 0 has the sources and row 1 the targets"
            )
        x, count = getattr(graph, "x", None), edges.shape[1]
        nodes = len(x) if x is not None else getattr(graph, "num_nodes", None)
        if nodes is None:
            raise DataError(f"graph {g}: expected x or num_nodes, got neither: set num_nodes")
        if edges.size and (edges.min() < 0 or edges.max() >= nodes):
            raise DataError(
                f"graph {g}: expected edges between nodes 0 to {nodes - 1}, "
                f"got node {edges.min() if edges.min() < 0 else edges.max()}: are they counted from 1?"
            )
        attributes, weights = getattr(graph, "edge_attr", None), getattr(graph, "edge_weight", None)
        tables["node_attributes"].append(None if x is None else _numbers(g, "x", x, nodes))
        tables["edge_attributes"].append(
            None if attributes is None else _numbers(g, "edge_attr", attributes, count)
        )
        tables["edge_weights"].append(
            None if weights is None else _weights(g, _numbers(g, "edge_weight", weights, count))
        )
        sizes.append(nodes)
        sources.append(edges[0].astype(np.int64) + total)
        targets.append(edges[1].astype(np.int64) + total)
        total += nodes
    found: dict[str, Any] = {key: _stacked(key, values) for key, values in tables.items()}
    if found["edge_weights"] is not None:
        found["edge_weights"] = found["edge_weights"].reshape(-1)
    answers = [_plain(getattr(graph, "y", None)) for graph in graphs] if own_y else [None]
    given = _answers(answers) if _all_or_none("y", answers) else {}
    return RawGraphs.from_edges(
        name, sizes, np.concatenate(sources), np.concatenate(targets), **found, **given
    )


# --- SciPy and NumPy


def _from_matrices(graphs: list[Any], name: str) -> RawGraphs:
    sizes, sources, targets, weights = [], [], [], []
    features: list[np.ndarray | None] = []
    total = 0
    for g, graph in enumerate(graphs):
        matrix, x = graph if isinstance(graph, tuple | list) else (graph, None)
        if (
            matrix.ndim != 2
            or matrix.shape[0] != matrix.shape[1]
            or matrix.dtype.kind not in "biuf"
        ):
            raise DataError(
                f"graph {g}: expected a square matrix of numbers, got {matrix.dtype} {list(matrix.shape)}: "
                "features go beside it, as a pair (adjacency, features)"
            )
        nodes = matrix.shape[0]
        source, target, values = _entries(matrix)
        if not np.isfinite(values).all():
            raise DataError(
                f"graph {g}: expected finite edge weights, got NaN or infinity: clean them"
            )
        sizes.append(nodes)
        sources.append(source + total)
        targets.append(target + total)
        weights.append(_weights(g, values))
        features.append(None if x is None else _numbers(g, "features", x, nodes))
        total += nodes
    values = np.concatenate(weights)
    return RawGraphs.from_edges(
        name,
        sizes,
        np.concatenate(sources),
        np.concatenate(targets),
        edge_weights=values if (values != 1).any() else None,
        node_attributes=_stacked("features", features),
    )


def _entries(matrix: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row, column and value of the entries other than 0: A[i, j] is an edge from i to j."""
    if isinstance(matrix, np.ndarray):
        matrix = np.asarray(matrix, np.float64)
        row, column = np.nonzero(matrix)
        return row, column, matrix[row, column]
    matrix = matrix.astype(np.float64).tocsr(copy=True)
    matrix.sum_duplicates()
    matrix = matrix.tocoo()
    kept = matrix.data != 0
    return matrix.row[kept].astype(np.int64), matrix.col[kept].astype(np.int64), matrix.data[kept]


# --- NetworkX


def _from_networkx(graphs: list[Any], name: str, own_y: bool) -> RawGraphs:
    nodes: list[dict[Any, Any]] = []  # the attributes of each node
    edges: list[dict[Any, Any]] = []  # and of each directed edge
    source: list[int] = []
    target: list[int] = []
    node_names: list[tuple[int, Any]] = []  # graph and name, for messages
    parallel = False
    for g, graph in enumerate(graphs):
        place = {node: len(nodes) + i for i, node in enumerate(graph.nodes)}
        for node, attributes in graph.nodes(data=True):
            nodes.append(attributes)
            node_names.append((g, node))
        first = len(edges)
        both = not graph.is_directed()
        for u, v, attributes in graph.edges(data=True):
            i, j = place[u], place[v]
            ends = ((i, j), (j, i)) if both and i != j else ((i, j),)
            source.extend(s for s, _ in ends)
            target.extend(t for _, t in ends)
            edges.extend(attributes for _ in ends)
        if graph.is_multigraph():
            pairs = set(zip(source[first:], target[first:], strict=True))
            parallel |= len(pairs) < len(edges) - first

    def of_node(i: int) -> str:
        return f"graph {node_names[i][0]}, node {node_names[i][1]!r}"

    def of_edge(i: int) -> str:
        (g, u), (_, v) = node_names[source[i]], node_names[target[i]]
        return f"graph {g}, edge ({u!r}, {v!r})"

    tables = _columns("node", nodes, of_node)
    tables |= _columns("edge", edges, of_edge)
    if parallel and "edge_weights" not in tables:
        tables["edge_weights"] = np.ones(len(edges))  # so that parallel edges count
    given = _networkx_answers(graphs) if own_y else {}
    sizes = [len(graph) for graph in graphs]
    return RawGraphs.from_edges(
        name,
        sizes,
        np.array(source, np.int64),
        np.array(target, np.int64),
        **tables,
        **given,
    )


Where = Callable[[int], str]  # which graph and node or edge a row is of, for messages


def _columns(kind: str, rows: list[dict[Any, Any]], where: Where) -> dict[str, Any]:
    """The tables of the nodes or edges: a column for each key, in the order of the keys."""
    labels: list[tuple[Names, np.ndarray]] = []
    attributes: list[np.ndarray] = []
    tables: dict[str, Any] = {}
    for key in sorted(dict.fromkeys(key for row in rows for key in row), key=str):
        values = _column(kind, key, rows, where)
        types = set(map(type, values))
        if kind == "edge" and key == "weight":
            tables["edge_weights"] = _nx_numbers(key, values, where, least=0)[:, 0]
        elif types <= {str, bool} or (types <= {str, bool, int} and _is_label(key)):
            names = Names()
            labels.append((names, names.codes(list(map(str, values)))))
        else:
            attributes.append(_nx_numbers(key, values, where))
    if labels:
        tables[f"{kind}_labels"] = categories(labels)
    if attributes:
        tables[f"{kind}_attributes"] = np.concatenate(attributes, 1)
    return tables


def _is_label(key: Any) -> bool:
    """Whether whole numbers under this key are categories."""
    return key == "label" or str(key).endswith(("_label", "type"))


def _column(kind: str, key: Any, rows: list[dict[Any, Any]], where: Where) -> list[Any]:
    """The values of a key in all rows."""
    values = [_plain(row[key]) for row in rows if key in row]
    if len(values) < len(rows):
        i = next(i for i, row in enumerate(rows) if key not in row)
        raise DataError(
            f"{where(i)}: expected the attribute {key!r} as other {kind}s have it, got none: "
            f"add it, or take it from all {kind}s"
        )
    return values


def _nx_numbers(key: Any, values: list[Any], where: Where, least: float = -np.inf) -> np.ndarray:
    """[rows, columns] from numbers, or from vectors of numbers that are as long as the first."""
    width = len(values[0]) if isinstance(values[0], list) else 1
    for i, value in enumerate(values):
        row = value if isinstance(value, list) else [value]
        if any(type(v) not in (int, float) for v in row):
            raise DataError(
                f"{where(i)}: expected numbers, or words in all places, as {key!r}, got {_short(value)}: "
                "give the attribute one kind of value"
            )
        if len(row) != width or not row:
            raise DataError(
                f"{where(i)}: expected {max(width, 1)} numbers as {key!r}, got {len(row)}: give all as many"
            )
        if not all(max(least, -MOST) <= v <= MOST for v in row):
            expected = "finite numbers" if least < 0 else "finite numbers of at least 0"
            raise DataError(
                f"{where(i)}: expected {expected} as {key!r}, got {_short(value)}: clean them first"
            )
    return np.array(values, np.float64).reshape(len(values), width)


def _networkx_answers(graphs: list[Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for g, graph in enumerate(graphs):
        if "label" in graph.graph and "y" in graph.graph:
            raise DataError(f"graph {g}: expected its class as 'label' or 'y', got both: keep one")
    classes = [_plain(graph.graph.get("label", graph.graph.get("y"))) for graph in graphs]
    if _all_or_none("a class", classes):
        for g, value in enumerate(classes):
            if type(value) not in (str, int, bool):
                raise DataError(
                    f"graph {g}: expected a word or a whole number as its class, got {_short(value)}: "
                    "numbers to predict go under 'target'"
                )
        given["classes"] = _classes(classes)
    targets = [_plain(graph.graph.get("target")) for graph in graphs]
    if _all_or_none("a target", targets):
        given["targets"] = _targets([_row(value) for value in targets])
    return given
