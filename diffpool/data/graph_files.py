"""Graph files read with NetworkX: GML, GraphML, GEXF and edge lists, one graph per file.

A folder of such files is a data set. If the files are in subfolders, the name of the subfolder is the class.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from diffpool.data.archive import read_errors
from diffpool.data.column_names import ColumnNames
from diffpool.data.convert import as_raw
from diffpool.data.raw import RawGraphs
from diffpool.errors import DataError, cut

GRAPH_SUFFIXES = (".gml", ".graphml", ".gexf", ".edgelist")


def find_graph_files(folder: Path) -> list[Path]:
    """The graph files in a folder and in its subfolders, sorted by name: 4.gml comes before 10.gml."""
    with read_errors(folder):
        found = [*folder.glob("*.*"), *folder.glob("*/*.*")]
        files = [f for f in found if f.suffix in GRAPH_SUFFIXES and f.name[0] != "."]
        return sorted(files, key=lambda f: [_natural(part) for part in f.relative_to(folder).parts])


def _natural(name: str) -> tuple[list[tuple[str, int]], str]:
    """A sort key of words and numbers in turn; the name itself decides between 1 and 01."""
    pieces = re.findall(r"([^0-9]*)([0-9]*)", name)
    return [(word, int(digits or -1)) for word, digits in pieces], name


def read_graph_files(
    path: Path,
    node_attributes: Sequence[str] | None = None,
    edge_attributes: Sequence[str] | None = None,
    names: ColumnNames | None = None,
) -> RawGraphs:
    """The graph in a file, or the graphs in a folder, with all of their attributes or only the chosen ones.

    `names` are the attributes that a model was trained on. Without a choice, attributes that only name the nodes are
    left out, with a warning.
    The class of a graph is the attribute `label` of the graph, or the name of the folder inside `path` that it is in.
    The columns are `file`, the path inside the folder, and `label`, the class.
    """
    files = find_graph_files(path) if path.is_dir() else [path]
    graphs = [_read(file) for file in files]
    if node_attributes is None and names is None:
        _drop_names(graphs, path)
    if edge_attributes is None and names is None:
        _drop(("id",), (a for graph in graphs for *_, a in graph.edges(data=True)))
    inner = [file.parent != path for file in files] if path.is_dir() else [False]
    if any(inner) and not all(inner):
        raise DataError(
            f"{path}: expected graph files either in the folder or in its subfolders, one per class, got both. "
            f"Move {files[inner.index(False)].name} to a subfolder."
        )
    classes = [file.parent.name for file in files] if all(inner) else None
    try:
        raw = as_raw(
            graphs,
            classes,
            path.stem if path.is_file() else path.resolve().name,
            node_attributes=node_attributes,
            edge_attributes=edge_attributes,
            names=names,
        )
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    base = path if path.is_dir() else path.parent
    paths = [file.relative_to(base).as_posix() for file in files]
    return replace(raw, columns={"file": paths, **raw.columns}).with_label_column()


def _read(path: Path) -> Any:
    try:
        import networkx as nx
    except ImportError as error:
        raise DataError(
            f"{path}: NetworkX is required to read {path.suffix} files. Install it with "
            "`pip install 'diffpool[networkx]'`."
        ) from error
    read = {
        ".gml": lambda file: nx.read_gml(file, label="id"),
        ".graphml": nx.read_graphml,
        ".gexf": nx.read_gexf,
        ".edgelist": lambda file: _edge_list(nx, file),
    }[path.suffix]
    with read_errors(path):
        try:
            return read(path)
        except (DataError, OSError, MemoryError):
            raise
        except Exception as error:  # parsers raise exceptions of many types
            reason = cut(str(error)) if str(error) else type(error).__name__
            raise DataError(
                f"{path}: expected a graph in {path.suffix[1:]} format, but the file cannot be parsed ({reason}). "
                "Is it complete?"
            ) from error


def _edge_list(nx: Any, path: Path) -> Any:
    """Parse lines `u v`, `u v weight` or `u v {"key": value}`; # starts a comment."""
    lines = [line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    lines = [line for line in lines if line]
    if not lines:
        raise ValueError("no edges")
    if all("{" in line or len(line.split()) == 2 for line in lines):
        return nx.parse_edgelist(lines, data=True)
    return nx.parse_edgelist(lines, data=(("weight", float),))


def _drop_names(graphs: list[Any], path: Path) -> None:
    """Remove `label` and `name` of the nodes if they only name the nodes: no two nodes of a graph have the same.

    A warning says so, unless they repeat the ids of the nodes.
    """
    for key in ("label", "name"):
        rows = [[(n, a[key]) for n, a in graph.nodes(data=True) if key in a] for graph in graphs]
        if all(len({repr(word) for _, word in row}) == len(row) for row in rows):
            if any(str(node) != str(word) for row in rows for node, word in row):
                warnings.warn(
                    f"{path}: the attribute {key!r} of the nodes is left out: no two nodes of a graph have the same. "
                    "If it is more than a name, choose it with node_attributes (--node-attributes), or read the "
                    "attributes of a model with names=model.names",
                    stacklevel=4,
                )
            _drop((key,), (a for graph in graphs for _, a in graph.nodes(data=True)))
    _drop(
        ("viz",), (a for graph in graphs for _, a in graph.nodes(data=True))
    )  # colors in GEXF files


def _drop(keys: Iterable[str], rows: Iterable[dict[str, Any]]) -> None:
    for row in rows:
        for key in keys:
            row.pop(key, None)
