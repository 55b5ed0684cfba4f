"""Graphs in a JSON lines file, one per line. The schema is in docs/own-graphs.md."""

from __future__ import annotations

import difflib
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np

from diffpool.data.archive import max_unpacked
from diffpool.data.categories import INTEGER, Categories, Label, Names, common_type
from diffpool.data.raw import MAX_FLOAT, RawGraphs, concatenate, missing_node
from diffpool.data.raw_checks import check_raw
from diffpool.errors import DataError, SettingError, shortened
from diffpool.files import atomic_write

# Keys that must be present in all lines or in none, and their fields in RawGraphs.
SHARED = {
    "node_labels": "node_labels",
    "node_attributes": "node_attributes",
    "edge_labels": "edge_labels",
    "edge_attributes": "edge_attributes",
    "edge_weights": "edge_weights",
    "label": "classes",
    "target": "targets",
}
KEYS = ("id", "nodes", "edges", "directed", *SHARED)
LABEL_TYPES: dict[type, str] = {str: "a word", int: "an integer", bool: "true or false"}
COPIED = ("id", "label", "target")  # keys among these that also become columns

MAX_NODES = 10_000_000  # per line: a few bytes can ask for any number of nodes
MAX_EXTRA_NODES = 10_000_000  # nodes in memory beyond one for each byte read
MAX_BYTES = 1 << 28  # per line: a small .gz file can hold any number of bytes
ONE_PER_LINE = "Write one graph per line."


def read_jsonl(path: str | Path, name: str | None = None) -> RawGraphs:
    """All graphs of a file."""
    return next(_chunks(Path(path), None, name))


def iter_jsonl(path: str | Path, size: int, name: str | None = None) -> Iterator[RawGraphs]:
    """The graphs of a file, `size` at a time: no more than that are in memory."""
    check_size(size)
    return _chunks(Path(path), size, name)


def write_jsonl(path: str | Path, raw: RawGraphs) -> None:
    """Write graphs. `read_jsonl` reads them back, without unused categories."""
    path = Path(path)
    check_raw(raw)
    try:
        with atomic_write(path) as temporary, temporary.open("wb") as plain:
            # no name or time in the gzip header, so that equal graphs give equal files
            file: Any = gzip.GzipFile("", "wb", 6, plain, 0) if path.suffix == ".gz" else plain
            for graph in _objects(raw):
                text = json.dumps(graph, ensure_ascii=False, allow_nan=False)
                file.write(text.encode() + b"\n")
            if file is not plain:
                file.close()
    except OSError as error:
        raise DataError(
            f"{path}: the file could not be written ({error.strerror}). Choose another path."
        ) from error
    except ValueError as error:
        raise DataError(
            f"{path}: expected finite numbers and valid text ({error}). Remove or replace the invalid values."
        ) from error


def check_size(size: int) -> None:
    """Raise a SettingError unless graphs can be read `size` at a time."""
    if size < 1:
        raise SettingError(f"expected a size of at least 1 graph, got {size}.")


class _Fault(Exception):
    """An error message about a line."""


@dataclass(frozen=True, eq=False)
class _Graph:
    """The graph of one line. A table without rows has no columns."""

    nodes: int
    edges: np.ndarray  # [E, 2]
    directed: bool
    names: dict[str, list[list[str]]] = field(default_factory=dict)  # the columns of each key
    numbers: dict[str, np.ndarray] = field(default_factory=dict)  # [rows, columns] of each key
    label: Label | None = None
    columns: dict[str, Any] = field(
        default_factory=dict
    )  # id and all keys without a special meaning

    @property
    def widths(self) -> dict[str, int]:
        return {k: len(v) for k, v in self.names.items()} | {
            k: v.shape[1] for k, v in self.numbers.items()
        }


def _chunks(path: Path, size: int | None, name: str | None) -> Iterator[RawGraphs]:
    with _open(path) as file:
        yield from parse_lines(path, _lines(path, file), size, name)


def parse_lines(
    path: Path,
    lines: Iterable[tuple[int, bytes]],
    size: int | None,
    name: str | None = None,
    unit: str = "line",
) -> Iterator[RawGraphs]:
    """The graphs of numbered lines, `size` at a time, or all of them."""
    chunk = _Chunk(path.name.split(".")[0] if name is None else name)
    for number, line in lines:
        try:
            chunk.add(_parse(line), number, len(line))
        except _Fault as fault:
            raise DataError(f"{path}, {unit} {number}: {fault}") from None
        if len(chunk.sizes) == size:
            yield chunk.take()
    if not chunk.first:
        raise DataError(f"{path}: the file is empty. Write one graph per {unit}.")
    if chunk.sizes:
        yield chunk.take()


def _open(path: Path) -> IO[bytes]:
    try:
        file: Any = gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # noqa: SIM115
    except OSError as error:
        raise DataError(
            f"{path}: the file could not be read ({error.strerror}). Is the name right?"
        ) from error
    return file


def _lines(path: Path, file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Number and content of each line that is not blank."""
    number = 0
    left = max_unpacked(path) if path.suffix == ".gz" else None
    while True:
        number += 1
        limit = MAX_BYTES if left is None else min(MAX_BYTES, left)
        try:
            line = file.readline(limit + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(
                f"{path}, line {number}: the file is damaged ({error}). Try downloading it again."
            ) from error
        if left is not None:
            left -= len(line)
            if left < 0:
                raise DataError(
                    f"{path}, line {number}: expected at most {max_unpacked(path):,} unpacked bytes, got more. "
                    "The file is damaged or malicious. If you trust it, unpack it first."
                )
        if len(line) > MAX_BYTES:
            raise DataError(
                f"{path}, line {number}: expected at most {MAX_BYTES} bytes, got more. Write one graph per line."
            )
        if not line:
            return
        line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if line.strip():
            yield number, line


class _Chunk:
    """The graphs read since the last `take`, and the properties that all chunks of the file share."""

    def __init__(self, name: str):
        self.name = name
        self.first = 0  # line number of the first graph
        self.keys: set[str] = set()  # keys of SHARED in that graph
        self.widths: dict[
            str, tuple[int, int]
        ] = {}  # number of columns, and the line where it was first seen
        self.label_type: type | None = None  # of the label of the first graph
        self._clear()

    def _clear(self) -> None:
        self.sizes: list[int] = []
        self.extra_nodes = 0
        self.directed: list[bool] = []
        self.edges: list[np.ndarray] = []
        self.tables: dict[str, list[np.ndarray]] = {}  # numbers or codes [rows, columns], by graph
        self.names: dict[str, list[Names]] = {}  # for each column of codes
        self.labels: list[Label | None] = []
        self.columns: dict[str, list[Any]] = {}

    def add(self, graph: _Graph, line: int, num_bytes: int) -> None:
        self._check(graph, line)
        self.extra_nodes += graph.nodes - num_bytes
        if self.extra_nodes > MAX_EXTRA_NODES:
            raise _Fault(
                f"more than {MAX_EXTRA_NODES} nodes have neither edges nor labels. Read fewer graphs at a time."
            )
        self.sizes.append(graph.nodes)
        self.directed.append(graph.directed)
        self.edges.append(graph.edges)
        self.labels.append(graph.label)
        for name, value in graph.columns.items():
            column = self.columns.setdefault(name, [])
            column += [None] * (len(self.sizes) - 1 - len(column)) + [value]
        for key, numbers in graph.numbers.items():
            self.tables.setdefault(key, []).append(numbers)
        for key, columns in graph.names.items():
            names = self.names.setdefault(key, [])
            names.extend(Names() for _ in columns[len(names) :])
            codes = [n.codes(column) for n, column in zip(names, columns, strict=False)]
            table = np.stack(codes, 1) if codes else np.empty((0, 0), np.int32)
            self.tables.setdefault(key, []).append(table)

    def _check(self, graph: _Graph, line: int) -> None:
        widths = graph.widths
        if not self.first:
            self.first, self.keys, self.label_type = line, set(widths), type(graph.label)
        for key in sorted(self.keys ^ set(widths)):
            verb = "lacks" if key in self.keys else "has"
            raise _Fault(
                f"expected {key} in every graph or in none, but unlike line {self.first} this line {verb} it. "
                "Add it where it is missing, or remove it everywhere."
            )
        if type(graph.label) is not self.label_type:
            expected_type = LABEL_TYPES[self.label_type or str]
            raise _Fault(
                f"expected label to be {expected_type}, as in line {self.first}, got {shortened(graph.label)}. "
                "Use one type for all labels."
            )
        for key, width in widths.items():
            expected, where = self.widths.setdefault(key, (width, line)) if width else (0, 0)
            if width != expected:
                raise _Fault(
                    f"expected {expected} columns of {key}, as in line {where}, got {width}. "
                    "Give all graphs the same columns."
                )

    def take(self) -> RawGraphs:
        """The graphs added since the last call."""
        groups = [np.flatnonzero(np.array(self.directed) == directed) for directed in (False, True)]
        parts = [self._group(g, one_way=i == 0) for i, g in enumerate(groups) if len(g)]
        raw = parts[0]
        if len(parts) > 1:
            raw = concatenate(parts).select(np.argsort(np.concatenate(groups)))
        self._clear()
        return raw

    def _group(self, graphs: np.ndarray, one_way: bool) -> RawGraphs:
        sizes = np.array([self.sizes[g] for g in graphs], np.int64)
        starts = np.cumsum(sizes) - sizes
        edges = np.concatenate([self.edges[g] + s for g, s in zip(graphs, starts, strict=True)])
        tables: dict[str, Any] = {}
        for key, values in self.tables.items():
            filled = [values[g] for g in graphs if len(values[g])]
            columns = self.widths.get(key, (1, 0))[0]  # 1: no line has a row of this table
            table = np.concatenate(filled) if filled else np.empty((0, columns), values[0].dtype)
            if key in self.names:
                names = self.names[key] or [Names() for _ in range(columns)]
                kind = common_type(self.labels) if key == "label" else "str"
                tables[SHARED[key]] = Categories.from_columns(
                    list(zip(names, table.T, strict=True)), kind
                )
            else:
                tables[SHARED[key]] = table[:, 0] if key == "edge_weights" else table
        own_columns = {
            name: [column[g] if g < len(column) else None for g in graphs.tolist()]
            for name, column in self.columns.items()
        }
        source, target = edges.T
        tables["columns"] = own_columns
        return RawGraphs.from_edges(self.name, sizes, source, target, one_way=one_way, **tables)


def _parse(line: bytes) -> _Graph:
    graph = _object(line)
    nodes = _nodes(graph)
    edges = _edges(graph["edges"], nodes)
    names, numbers = {}, {}
    for key in (key for key in SHARED if key in graph):
        value = graph[key]
        if key == "label":
            names[key] = [_names(key, [value])]
            continue
        if key == "target":
            row = value if isinstance(value, list) else [value]
            if not row:
                raise _Fault(
                    "expected one or more numbers as target, got []. Remove it everywhere."
                )
            numbers[key] = _numbers(key, row)[None]
            continue
        rows, what = (nodes, "nodes") if key.startswith("node") else (len(edges), "edges")
        if not isinstance(value, list) or len(value) != rows:
            got = f"{len(value)}" if isinstance(value, list) else shortened(value)
            raise _Fault(
                f"expected a list of {key}, one for each of {rows} {what}, got {got}. Are some missing?"
            )
        if key == "edge_weights":
            numbers[key] = _weights(value)
        elif key.endswith("_labels"):
            value = value if list in set(map(type, value)) else [[name] for name in value]
            width = _width(key, value)
            flat = _names(key, list(chain.from_iterable(value)))
            names[key] = [flat[c::width] for c in range(width)]
        else:
            width = _width(key, value)
            numbers[key] = _numbers(key, list(chain.from_iterable(value))).reshape(rows, width)
    directed, label = graph.get("directed", False), graph.get("label")
    return _Graph(nodes, edges, directed, names, numbers, label, _columns(graph))


def _object(line: bytes) -> dict[str, Any]:
    """The JSON object in a line, with the required keys and no unknown ones."""
    try:
        graph = json.loads(
            line.decode().rstrip(),
            parse_constant=_not_finite,
            object_pairs_hook=_without_duplicates,
        )
    except UnicodeDecodeError as error:
        raise _Fault(f"byte {error.start} is not UTF-8. Save the file as UTF-8.") from None
    except json.JSONDecodeError as error:
        raise _Fault(
            f"expected a JSON object, got an error at column {error.pos + 1} ({error.msg}). {ONE_PER_LINE}"
        ) from None
    except RecursionError:
        raise _Fault(f"the lists are nested too deeply. {ONE_PER_LINE}") from None
    except ValueError:  # Python does not parse thousands of digits
        raise _Fault(
            "a number has thousands of digits. Use a number that fits into 64 bits."
        ) from None
    if not isinstance(graph, dict):
        raise _Fault(f"expected a JSON object, got {shortened(graph)}. {ONE_PER_LINE}")
    for key in graph:
        if key not in KEYS:
            if near := _meant(key):
                raise _Fault(f"unknown key {shortened(key)}. Did you mean {near}?")
            if isinstance(graph[key], list | dict):
                raise _Fault(
                    f"expected a string or a number as {shortened(key)}, which is not among the keys "
                    f"{', '.join(KEYS)}, got {shortened(graph[key])}. Remove it."
                )
    if "edges" not in graph:
        raise _Fault("edges are missing. Write [] for a graph without edges.")
    if not isinstance(graph.get("directed", False), bool):
        raise _Fault(f"expected directed to be true or false, got {shortened(graph['directed'])}.")
    return graph


def _meant(key: str) -> str | None:
    """The known key that this one is probably a misspelling of."""
    known = [name for name in KEYS if name != "id"]
    return next(iter(difflib.get_close_matches(key.lower(), known, 1, 0.7)), None)


def _columns(graph: dict[str, Any]) -> dict[str, Any]:
    """The values of a line that do not describe the graph itself; an id that is not a string or number becomes JSON."""
    columns: dict[str, Any] = {}
    for key, value in graph.items():
        if key in KEYS and key not in COPIED:
            continue
        columns[key] = json.dumps(value) if isinstance(value, list | dict) else value
        try:
            f"{key}{columns[key]}".encode()
        except UnicodeEncodeError:
            raise _Fault(
                f"{shortened(key)}: the text contains an unpaired surrogate. Correct it."
            ) from None
    return columns


def _not_finite(word: str) -> float:
    raise _Fault(f"expected finite numbers, got {word}, which is not JSON. Remove or replace it.")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise _Fault(f"the key {shortened(twice)} occurs more than once. Keep only one.")
    return found


def _nodes(graph: dict[str, Any]) -> int:
    if "nodes" in graph:
        nodes = graph["nodes"]
        if type(nodes) is not int or not 0 <= nodes <= MAX_NODES:
            raise _Fault(
                f"expected nodes to be an integer from 0 to {MAX_NODES}, got {shortened(nodes)}."
            )
        return nodes
    for key in ("node_labels", "node_attributes"):
        if key in graph:
            if not isinstance(graph[key], list):
                raise _Fault(
                    f"expected a list of {key}, one for each node, got {shortened(graph[key])}."
                )
            return len(graph[key])
    raise _Fault("the number of nodes is missing. Add nodes, node_labels or node_attributes.")


def _edges(pairs: Any, nodes: int) -> np.ndarray:
    message = "expected edges as pairs of node numbers, such as [[0, 1], [1, 2]], got {}."
    if not isinstance(pairs, list):
        raise _Fault(message.format(shortened(pairs)))
    if set(map(type, pairs)) - {list} or set(map(len, pairs)) - {2}:
        odd = next(pair for pair in pairs if type(pair) is not list or len(pair) != 2)
        raise _Fault(message.format(shortened(odd)))
    flat = list(chain.from_iterable(pairs))
    if set(map(type, flat)) - {int}:
        odd = next(node for node in flat if type(node) is not int)
        raise _Fault(message.format(shortened(odd)))
    if flat and (min(flat) < 0 or max(flat) >= nodes):
        odd = min(flat) if min(flat) < 0 else max(flat)
        raise _Fault(missing_node(shortened(odd), nodes))
    return np.array(flat, np.int64).reshape(-1, 2)


def _width(key: str, rows: list[Any]) -> int:
    """The number of columns of a list of lists; 0 without rows."""
    if set(map(type, rows)) - {list}:
        odd = next(row for row in rows if type(row) is not list)
        raise _Fault(
            f"expected a list in every row of {key}, got {shortened(odd)}. Write [[1], [2]] for one column."
        )
    widths = set(map(len, rows))
    if len(widths) > 1 or 0 in widths:
        got = f"{min(widths)} and {max(widths)}" if len(widths) > 1 else "0"
        raise _Fault(
            f"expected the same number of {key} in every row, at least 1, got {got}. Add the missing values."
        )
    return widths.pop() if widths else 0


def _names(key: str, values: list[Any]) -> list[str]:
    types = set(map(type, values))
    if types - {int, str, bool}:
        odd = next(value for value in values if type(value) not in (int, str, bool))
        raise _Fault(
            f"expected {key} to be strings or integers, got {shortened(odd)}. Write it as a string."
        )
    names = list(map(str, values))
    if int in types and max(map(len, names)) > 18:
        large = next((v for v in values if type(v) is int and abs(v) >= 1 << 63), None)
        if large is not None:
            raise _Fault(
                f"expected {key} to fit into 64 bits, got {shortened(large)}. Write it as a string."
            )
    if str in types:
        try:
            "".join(names).encode()
        except UnicodeEncodeError:
            raise _Fault(f"{key}: the text contains an unpaired surrogate. Correct it.") from None
    return names


def _numbers(key: str, values: list[Any]) -> np.ndarray:
    if set(map(type, values)) - {int, float}:
        odd = next(value for value in values if type(value) not in (int, float))
        raise _Fault(
            f"expected {key} to be numbers, got {shortened(odd)}. Write strings as labels."
        )
    try:
        numbers = np.array(values, np.float64)
    except OverflowError:
        numbers = np.array([np.inf])
    if not (np.abs(numbers) <= MAX_FLOAT).all():
        raise _Fault(
            f"{key}: a number exceeds {MAX_FLOAT:.1e}, the range of float32. Scale the numbers down."
        )
    return numbers


def _weights(values: list[Any]) -> np.ndarray:
    """[E, 1]"""
    weights = _numbers("edge_weights", values)
    if (weights < 0).any():
        raise _Fault(
            f"expected edge_weights of at least 0, got {weights.min()}. Shift or remove them."
        )
    if weights.sum() > MAX_FLOAT:  # the weights of parallel edges are added
        raise _Fault(f"the sum of edge_weights exceeds {MAX_FLOAT:.1e}. Scale them down.")
    return weights.reshape(-1, 1) if len(weights) else np.empty((0, 0))


def _objects(raw: RawGraphs) -> Iterator[dict[str, Any]]:
    """The JSON object of each graph."""
    tables = {
        key: _JsonTable.from_table(getattr(raw, name), typed=key == "label")
        for key, name in SHARED.items()
    }
    # edges without tables are written in one direction only
    halve = not raw.directed and not any(
        table for key, table in tables.items() if key.startswith("edge")
    )
    columns = {
        name: values
        for name, values in raw.columns.items()
        if name == "id" or (name not in KEYS and not _meant(name))
    }
    target = raw.target
    ends = np.cumsum(raw.sizes)
    for g, (start, end) in enumerate(zip(raw.starts.tolist(), ends.tolist(), strict=True)):
        first, last = raw.indptr[start], raw.indptr[end]
        edges = np.stack([raw.source[first:last], target[first:last]], 1) - start
        edges = edges[edges[:, 0] <= edges[:, 1]] if halve else edges
        graph: dict[str, Any] = {"nodes": end - start, "edges": edges.tolist()}
        if raw.directed:
            graph["directed"] = True
        graph |= {name: values[g] for name, values in columns.items() if values[g] is not None}
        for key, table in tables.items():
            if table is None:
                continue
            if key.startswith("node"):
                graph[key] = table.rows(start, end)
            elif key.startswith("edge"):
                graph[key] = table.rows(first, last)
            else:
                (value,) = table.rows(g, g + 1)
                graph[key] = value[0] if isinstance(value, list) and len(value) == 1 else value
        yield graph


@dataclass(frozen=True, eq=False)
class _JsonTable:
    """A table in the form that is written."""

    values: np.ndarray  # numbers, or the codes of strings
    words: list[list[Label]] | None

    @classmethod
    def from_table(
        cls, table: np.ndarray | Categories | None, typed: bool = False
    ) -> _JsonTable | None:
        """None if there is nothing to write: no table, or no columns. `typed`: write values in their original type."""
        if isinstance(table, Categories):
            words: list[list[Label]] = [
                list(table.labels(c))
                if typed
                else [int(name) if INTEGER.fullmatch(name) else name for name in names]
                for c, names in enumerate(table.names)
            ]
            return cls(table.codes, words) if words else None
        if table is None or table.shape[1:] == (0,):
            return None
        return cls(table, None)

    def rows(self, first: int, last: int) -> list[Any]:
        rows = self.values[first:last]
        if self.words is None:
            return rows.tolist()
        columns = [[w[c] for c in rows[:, i].tolist()] for i, w in enumerate(self.words)]
        return columns[0] if len(columns) == 1 else list(map(list, zip(*columns, strict=True)))
