"""Graphs in a JSON-lines file, one in each line: docs/own-graphs.md has the schema."""

from __future__ import annotations

import difflib
import gzip
import json
import re
import reprlib
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np

from diffpool.data.raw import Categories, RawGraphs, _numerically, concatenate
from diffpool.errors import DataError, SettingError
from diffpool.files import atomic_write

# In all lines or in none, and what they are in RawGraphs.
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

MOST_NODES = 10_000_000  # in a line: a few bytes can ask for any number of nodes
MOST_SPARE = 10_000_000  # nodes in memory beyond one for each byte read
MOST_BYTES = 1 << 28  # in a line: a small .gz file can hold any number of them
WHOLE = re.compile("0|-?[1-9][0-9]{0,17}")  # names that are written as numbers


def read_jsonl(path: str | Path, name: str | None = None) -> RawGraphs:
    """All graphs of a file."""
    return next(_chunks(Path(path), None, name))


def iter_jsonl(path: str | Path, size: int, name: str | None = None) -> Iterator[RawGraphs]:
    """The graphs of a file, `size` at a time: never more than that in memory."""
    check_size(size)
    return _chunks(Path(path), size, name)


def write_jsonl(path: str | Path, raw: RawGraphs) -> None:
    """Write graphs so that `read_jsonl` gives them back, less the categories that no row has."""
    path = Path(path)
    try:
        with atomic_write(path) as temporary, temporary.open("wb") as plain:
            # without name and time: the same graphs are the same bytes
            file: Any = gzip.GzipFile("", "wb", 6, plain, 0) if path.suffix == ".gz" else plain
            for graph in _objects(raw):
                text = json.dumps(graph, ensure_ascii=False, allow_nan=False)
                file.write(text.encode() + b"\n")
            if file is not plain:
                file.close()
    except OSError as error:
        raise DataError(
            f"{path}: expected a place to write to, got: {error.strerror}: choose another"
        ) from error
    except ValueError as error:
        raise DataError(
            f"{path}: expected finite numbers and proper text, got others ({error}): clean them first"
        ) from error


def check_size(size: int) -> None:
    """Raise a SettingError unless graphs can be read so many at a time."""
    if size < 1:
        raise SettingError(f"expected at least 1 graph at a time, got {size}: give a larger size")


class Names(dict[str, int]):
    """A number for each name, in the order in which they come."""

    def __missing__(self, name: str) -> int:
        self[name] = number = len(self)
        return number

    def codes(self, names: Sequence[str]) -> np.ndarray:
        return np.fromiter(map(self.__getitem__, names), np.int32, len(names))


def categories(columns: Sequence[tuple[Names, np.ndarray]]) -> Categories:
    """Columns of codes [rows] as categories: numbers in numerical order, then words."""
    codes, names = [], []
    for found, column in columns:
        ordered = sorted(found, key=_numerically)
        place = np.empty(len(found), np.int32)
        place[[found[name] for name in ordered]] = np.arange(len(found), dtype=np.int32)
        codes.append(place[column])
        names.append(tuple(ordered))
    return Categories(np.stack(codes, 1), tuple(names))


class _Fault(Exception):
    """What is wrong with a line."""

    def __init__(self, expected: str, got: str, do: str):
        super().__init__(f"expected {expected}, got {got}: {do}")


@dataclass(frozen=True, eq=False)
class _Graph:
    """One line, checked. A table without rows has no columns."""

    nodes: int
    edges: np.ndarray  # [E, 2]
    directed: bool
    names: dict[str, list[list[str]]] = field(default_factory=dict)  # the columns of each key
    numbers: dict[str, np.ndarray] = field(default_factory=dict)  # [rows, columns] of each key

    @property
    def widths(self) -> dict[str, int]:
        return {k: len(v) for k, v in self.names.items()} | {
            k: v.shape[1] for k, v in self.numbers.items()
        }


def _chunks(path: Path, size: int | None, name: str | None) -> Iterator[RawGraphs]:
    with _open(path) as file:
        chunk = _Chunk(path.name.split(".")[0] if name is None else name)
        for number, line in _lines(path, file):
            try:
                chunk.add(_parse(line), number, len(line))
            except _Fault as fault:
                raise DataError(f"{path}, line {number}: {fault}") from None
            if len(chunk.sizes) == size:
                yield chunk.take()
        if not chunk.first:
            raise DataError(
                f"{path}: expected a graph in each line, got an empty file: write one into it"
            )
        if chunk.sizes:
            yield chunk.take()


def _open(path: Path) -> IO[bytes]:
    try:
        file: Any = gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # noqa: SIM115
    except OSError as error:
        raise DataError(
            f"{path}: expected a file that can be read, got: {error.strerror}: is the name right?"
        ) from error
    return file


def _lines(path: Path, file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of each line that is not blank."""
    number = 0
    while True:
        number += 1
        try:
            line = file.readline(MOST_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(
                f"{path}, line {number}: expected a whole file, got a damaged one ({error}): get it anew"
            ) from error
        if len(line) > MOST_BYTES:
            raise DataError(
                f"{path}, line {number}: expected at most {MOST_BYTES} bytes, got more: one graph a line"
            )
        if not line:
            return
        line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if line.strip():
            yield number, line


class _Chunk:
    """The graphs read and not yet taken, and what those of all chunks have in common."""

    def __init__(self, name: str):
        self.name = name
        self.first = 0  # the line of the first graph
        self.keys: set[str] = set()  # those of SHARED in it
        self.widths: dict[str, tuple[int, int]] = {}  # columns, and the line that had them first
        self._clear()

    def _clear(self) -> None:
        self.sizes: list[int] = []
        self.spare = 0
        self.directed: list[bool] = []
        self.edges: list[np.ndarray] = []
        self.tables: dict[str, list[np.ndarray]] = {}  # numbers or codes [rows, columns], by graph
        self.names: dict[str, list[Names]] = {}  # of each column of codes

    def add(self, graph: _Graph, line: int, num_bytes: int) -> None:
        self._check(graph, line)
        self.spare += graph.nodes - num_bytes
        if self.spare > MOST_SPARE:
            raise _Fault(
                "nodes with edges or labels",
                f"{MOST_SPARE} without any",
                "read fewer graphs at once",
            )
        self.sizes.append(graph.nodes)
        self.directed.append(graph.directed)
        self.edges.append(graph.edges)
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
            self.first, self.keys = line, set(widths)
        for key in sorted(self.keys ^ set(widths)):
            here, there = ("none", "one") if key in self.keys else ("one", "none")
            raise _Fault(
                f"{key} in every graph or in none",
                f"{here} here and {there} in line {self.first}",
                "add what is missing or leave it out everywhere",
            )
        for key, width in widths.items():
            expected, where = self.widths.setdefault(key, (width, line)) if width else (0, 0)
            if width != expected:
                raise _Fault(
                    f"as many columns of {key} as in line {where}, {expected}",
                    str(width),
                    "give all graphs the same columns",
                )

    def take(self) -> RawGraphs:
        """The graphs added since the last time."""
        groups = [np.flatnonzero(np.array(self.directed) == way) for way in (False, True)]
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
                tables[SHARED[key]] = categories(list(zip(names, table.T, strict=True)))
            else:
                tables[SHARED[key]] = table[:, 0] if key == "edge_weights" else table
        source, target = edges.T
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
                raise _Fault("a number or numbers as target", "[]", "leave it out everywhere")
            numbers[key] = _numbers(key, row)[None]
            continue
        rows, what = (nodes, "nodes") if key.startswith("node") else (len(edges), "edges")
        if not isinstance(value, list) or len(value) != rows:
            got = f"{len(value)}" if isinstance(value, list) else _short(value)
            raise _Fault(
                f"a list of {key}, one for each of {rows} {what}", got, "are some missing?"
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
    return _Graph(nodes, edges, graph.get("directed", False), names, numbers)


def _object(line: bytes) -> dict[str, Any]:
    """The object in a line, with the keys that it needs and no others."""
    again = "write one graph into each line"
    try:
        graph = json.loads(
            line.decode().rstrip(), parse_constant=_not_finite, object_pairs_hook=_once
        )
    except UnicodeDecodeError as error:
        raise _Fault("UTF-8 text", f"another byte at {error.start}", "save it as UTF-8") from None
    except json.JSONDecodeError as error:
        got = f"something else at column {error.pos + 1} ({error.msg})"
        raise _Fault("a JSON object", got, again) from None
    except RecursionError:
        raise _Fault("lists of lists at most", "deeper ones", again) from None
    except ValueError:  # Python reads no longer ones
        raise _Fault("numbers of 64 bits", "one of thousands of digits", "shorten it") from None
    if not isinstance(graph, dict):
        raise _Fault("a JSON object", _short(graph), again)
    for key in graph:
        if key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, 1)
            do = f"did you mean {near[0]}?" if near else "take it out"
            raise _Fault(f"only the keys {', '.join(KEYS)}", _short(key), do)
    if "edges" not in graph:
        raise _Fault("edges", "none", "write [] for a graph without edges")
    if not isinstance(graph.get("directed", False), bool):
        raise _Fault("directed to be true or false", _short(graph["directed"]), "write one of them")
    return graph


def _not_finite(word: str) -> float:
    raise _Fault("finite numbers", word, "JSON has no other: clean them first")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise _Fault("each key once", f"{_short(twice)} again", "keep one of them")
    return found


def _nodes(graph: dict[str, Any]) -> int:
    if "nodes" in graph:
        nodes = graph["nodes"]
        if type(nodes) is not int or not 0 <= nodes <= MOST_NODES:
            expected = f"a number of nodes from 0 to {MOST_NODES}"
            raise _Fault(expected, _short(nodes), "count them again")
        return nodes
    for key in ("node_labels", "node_attributes"):
        if key in graph:
            if not isinstance(graph[key], list):
                raise _Fault(f"a list of {key}", _short(graph[key]), "one for each node")
            return len(graph[key])
    raise _Fault("nodes, node_labels or node_attributes", "neither", "say how many nodes")


def _edges(pairs: Any, nodes: int) -> np.ndarray:
    expected, do = "edges as a list of pairs [i, j] of node numbers", "write them as [[0, 1], …]"
    if not isinstance(pairs, list):
        raise _Fault(expected, _short(pairs), do)
    if set(map(type, pairs)) - {list} or set(map(len, pairs)) - {2}:
        odd = next(pair for pair in pairs if type(pair) is not list or len(pair) != 2)
        raise _Fault(expected, f"{_short(odd)} among them", do)
    flat = list(chain.from_iterable(pairs))
    if set(map(type, flat)) - {int}:
        odd = next(node for node in flat if type(node) is not int)
        raise _Fault(expected, f"{_short(odd)} in one of them", do)
    if flat and (min(flat) < 0 or max(flat) >= nodes):
        odd = min(flat) if min(flat) < 0 else max(flat)
        inside = f"edges between nodes 0 to {nodes - 1}" if nodes else "no edges without nodes"
        raise _Fault(inside, f"node {_short(odd)}", "are they counted from 1?")
    return np.array(flat, np.int64).reshape(-1, 2)


def _width(key: str, rows: list[Any]) -> int:
    """How many columns a list of lists has, 0 without rows."""
    if set(map(type, rows)) - {list}:
        odd = next(row for row in rows if type(row) is not list)
        raise _Fault(
            f"{key} as lists", f"{_short(odd)} among them", "write [[1], [2]] for 1 column"
        )
    widths = set(map(len, rows))
    if len(widths) > 1 or 0 in widths:
        got = f"rows of {min(widths)} and {max(widths)}" if len(widths) > 1 else "rows of 0"
        raise _Fault(f"as many {key} in every row, at least 1", got, "fill in what is missing")
    return widths.pop() if widths else 0


def _names(key: str, values: list[Any]) -> list[str]:
    types = set(map(type, values))
    if types - {int, str, bool}:
        odd = next(value for value in values if type(value) not in (int, str, bool))
        raise _Fault(f"{key} to be words or whole numbers", _short(odd), "write others as words")
    names = list(map(str, values))
    if int in types and max(map(len, names)) > 18:
        large = next((v for v in values if type(v) is int and abs(v) >= 1 << 63), None)
        if large is not None:
            raise _Fault(f"{key} of 64 bits", _short(large), "write it as a word")
    if str in types:
        try:
            "".join(names).encode()
        except UnicodeEncodeError:
            raise _Fault(f"{key} of whole characters", "half of one", "mend the text") from None
    return names


def _numbers(key: str, values: list[Any]) -> np.ndarray:
    if set(map(type, values)) - {int, float}:
        odd = next(value for value in values if type(value) not in (int, float))
        raise _Fault(f"{key} to be numbers", _short(odd), "write words as labels")
    try:
        numbers = np.array(values, np.float64)
    except OverflowError:
        numbers = np.array([np.inf])
    if not np.isfinite(numbers).all():
        raise _Fault(f"{key} up to 1.8e308", "a larger number", "scale them down")
    return numbers


def _weights(values: list[Any]) -> np.ndarray:
    """[E, 1]"""
    weights = _numbers("edge_weights", values)
    if (weights < 0).any():
        raise _Fault("edge_weights of at least 0", f"{weights.min()}", "shift or leave them out")
    with np.errstate(over="ignore"):
        if not np.isfinite(weights.sum()):  # parallel edges are added up
            raise _Fault("edge_weights with a finite sum", "larger ones", "scale them down")
    return weights.reshape(-1, 1) if len(weights) else np.empty((0, 0))


def _short(value: Any) -> str:
    return reprlib.repr(value)


def _objects(raw: RawGraphs) -> Iterator[dict[str, Any]]:
    """What is written for each graph."""
    tables = {key: _Written.from_table(getattr(raw, name)) for key, name in SHARED.items()}
    # one direction is enough where nothing else is said of an edge
    halve = not raw.directed and not any(
        table for key, table in tables.items() if key.startswith("edge")
    )
    target = raw.target
    ends = np.cumsum(raw.sizes)
    for g, (start, end) in enumerate(zip(raw.starts.tolist(), ends.tolist(), strict=True)):
        first, last = raw.indptr[start], raw.indptr[end]
        edges = np.stack([raw.source[first:last], target[first:last]], 1) - start
        edges = edges[edges[:, 0] <= edges[:, 1]] if halve else edges
        graph: dict[str, Any] = {"nodes": end - start, "edges": edges.tolist()}
        if raw.directed:
            graph["directed"] = True
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
class _Written:
    """A table as it is written."""

    values: np.ndarray  # numbers, or the codes of words
    words: list[list[int | str]] | None

    @classmethod
    def from_table(cls, table: np.ndarray | Categories | None) -> _Written | None:
        """None where there is nothing to write: no table, or one without columns."""
        if isinstance(table, Categories):
            words: list[list[int | str]] = [
                [int(name) if WHOLE.fullmatch(name) else name for name in names]
                for names in table.names
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
