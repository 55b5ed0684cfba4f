"""A data set on disk: a folder of arrays that are mapped into memory, so that it may be larger than memory.

The folder holds the arrays of `RawGraphs` as they are in memory, one file each; the additional columns as JSON lines;
and `graphs.json`, which describes them and has a checksum.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, overload

import numpy as np

from diffpool.checksums import BLANK, is_intact, sealed
from diffpool.data.categories import Categories, Names, numerical_order
from diffpool.data.column_names import ColumnNames
from diffpool.data.raw import EDGE_TABLES, GRAPH_TABLES, NODE_TABLES, RawGraphs
from diffpool.errors import DataError, SettingError
from diffpool.files import file_lock

HEADER = "graphs.json"
FORMAT, VERSION = "diffpool graphs", 1
COLUMNS, COLUMN_STARTS = "columns.jsonl", "column_starts"
INTS = ("sizes", "indptr", "source", COLUMN_STARTS)
TABLES = (*NODE_TABLES, *EDGE_TABLES, *GRAPH_TABLES)
BLOCK = 1 << 24  # bytes read, or values changed, at a time


def is_stored(path: Path) -> bool:
    """Whether this is a folder written by `store_graphs`."""
    return (path / HEADER).is_file()


def store_graphs(
    path: str | Path,
    parts: Iterable[RawGraphs],
    overwrite: bool = False,
    advance: Callable[[int], None] = lambda count: None,
) -> int:
    """Write the graphs of all parts to a folder; returns their number. Only one part is in memory at a time.

    The folder appears when it is complete: after an error or interruption, nothing is left, or an existing data set is
    unchanged. An existing data set is an error unless `overwrite` is set. `advance` is called with the number of graphs
    of each part. `read_graphs`, `load_dataset` and all commands read the folder.
    """
    path = Path(path)
    if path.exists() and not (overwrite and (is_stored(path) or _is_empty(path))):
        advice = "Choose another folder" + (", or overwrite it." if is_stored(path) else ".")
        raise SettingError(f"{path} exists already. {advice}")
    try:
        with file_lock(path.with_name(f".{path.name}.lock"), wait=False):
            for old in path.parent.glob(f".{path.name}.*.part"):  # of a process that was killed
                shutil.rmtree(old, ignore_errors=True)
            folder = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
            try:
                folder.mkdir(parents=True)
                count = _write(folder, parts, advance)
                _replace(folder, path)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return count
    except BlockingIOError as error:
        raise SettingError(f"{path}: another process is writing this data set.") from error
    except OSError as error:
        raise DataError(
            f"{path}: the data set could not be written ({error.strerror}). Nothing was left behind."
        ) from error


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _write(folder: Path, parts: Iterable[RawGraphs], advance: Callable[[int], None]) -> int:
    with contextlib.ExitStack() as stack:
        writer = _Writer(folder, stack)
        for raw in parts:
            writer.add(raw)
            advance(len(raw) + len(raw.skipped))
        writer.flush()
    writer.finish()
    return writer.graphs


def _replace(folder: Path, path: Path) -> None:
    """Move the complete folder to `path`."""
    if not path.exists():
        folder.rename(path)
        return
    old = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.old.part")
    path.rename(old)
    folder.rename(path)
    shutil.rmtree(old, ignore_errors=True)


class _Writer:
    """Appends graphs to the files of a folder."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack):
        self.folder, self.stack = folder, stack
        self.files: dict[str, IO[bytes]] = {}
        self.graphs = self.nodes = self.edges = 0
        self.name, self.directed = "", False
        self.fields: tuple[str, ...] = ()
        self.widths: dict[str, int] = {}  # number of columns, of tables that have rows
        self.rows: dict[str, int] = {}
        self.categories: dict[str, list[Names]] = {}  # codes in order of first appearance
        self.alike: dict[str, Categories | None] = {}  # None: the parts have different names
        self.types: dict[str, set[str]] = {}
        self.columns: dict[str, None] = {}
        self.named: dict[str, tuple[str, ...]] | None = {}  # the names of the columns of tables
        self.column_bytes = 0

    def add(self, raw: RawGraphs) -> None:
        if not self.graphs:
            self.name = raw.name
            self._ints("indptr", np.zeros(1))
            self._ints(COLUMN_STARTS, np.zeros(1))
        if len(raw):
            self._check_fields(raw)
        for field in self.fields if len(raw) else ():
            self._table(field, getattr(raw, field))
        self._names(raw)
        self._ints("sizes", raw.sizes)
        self._ints("indptr", raw.indptr[1:] + self.edges)
        self._ints("source", raw.source + self.nodes)
        self._columns(raw)
        self.directed = self.directed or raw.directed
        self.graphs += len(raw)
        self.nodes += raw.num_nodes
        self.edges += raw.num_edges

    def _file(self, name: str) -> IO[bytes]:
        if name not in self.files:
            path = self.folder / (name if name == COLUMNS else f"{name}.bin")
            self.files[name] = self.stack.enter_context(path.open("wb", BLOCK))
        return self.files[name]

    def _ints(self, name: str, values: np.ndarray) -> None:
        self._file(name).write(np.ascontiguousarray(values, np.int64).data)
        self.rows[name] = self.rows.get(name, 0) + len(values)

    def _check_fields(self, raw: RawGraphs) -> None:
        present = tuple(field for field in TABLES if getattr(raw, field) is not None)
        if not self.graphs:
            self.fields = present
        for field in sorted(set(present) ^ set(self.fields)):
            verb = "lack" if field in self.fields else "have"
            raise DataError(
                f"expected {field} in every graph or in none, but unlike those before them, graphs {self.graphs} to "
                f"{self.graphs + len(raw) - 1} {verb} it."
            )

    def _table(self, field: str, table: Any) -> None:
        categories = isinstance(table, Categories)
        width = table.columns if categories else (*table.shape, 1)[1]
        self.rows[field] = self.rows.get(field, 0) + len(table)
        if categories:
            self.types.setdefault(field, set()).add(table.type)
            if field == "classes" and len(self.types[field]) > 1:
                found = " and ".join(sorted(self.types[field]))
                raise DataError(
                    f"expected classes of one type in every graph, got {found}. Convert them first."
                )
        if not len(table):  # the columns of a table without rows are unknown
            self.widths.setdefault(f"empty {field}", width)
            return
        expected = self.widths.setdefault(field, width)
        if width != expected:
            raise DataError(
                f"expected the same columns of {field} in every graph, got {expected} and {width}."
            )
        if not categories:
            self._file(field).write(np.ascontiguousarray(table, np.float64).data)
            return
        names = self.categories.setdefault(field, [Names() for _ in range(width)])
        first = self.alike.setdefault(field, table)
        if first is not None and first.names != table.names:
            self.alike[field] = None
        codes = np.empty(table.codes.shape, np.int32)
        for c, known in enumerate(names):
            codes[:, c] = known.codes(table.names[c])[table.codes[:, c]]
        self._file(field).write(codes.data)

    def _names(self, raw: RawGraphs) -> None:
        if raw.names is None or self.named is None:
            self.named = None
            return
        for field in (*NODE_TABLES, *EDGE_TABLES):
            table = getattr(raw, field)
            if field == "edge_weights" or table is None or not len(table):
                continue
            names = getattr(raw.names, field)
            if (known := self.named.setdefault(field, names)) != names:
                raise DataError(
                    f"expected the same columns of {field} in every graph, got {', '.join(known)} and "
                    f"{', '.join(names)}. Convert all graphs at once."
                )

    def _columns(self, raw: RawGraphs) -> None:
        self.columns.update(dict.fromkeys(raw.columns))
        lines = [b"{}\n"] * len(raw)
        if raw.columns:
            rows = zip(*raw.columns.values(), strict=True)
            lines = [
                json.dumps(
                    {k: v for k, v in zip(raw.columns, row, strict=True) if v is not None},
                    default=str,
                ).encode()
                + b"\n"
                for row in rows
            ]
        ends = np.cumsum([len(line) for line in lines], dtype=np.int64) + self.column_bytes
        self._ints(COLUMN_STARTS, ends)
        self._file(COLUMNS).write(b"".join(lines))
        self.column_bytes = int(ends[-1]) if len(ends) else self.column_bytes

    def flush(self) -> None:
        if not self.graphs:
            raise DataError("expected at least one graph, got none.")
        for file in self.files.values():
            file.flush()
            os.fsync(file.fileno())

    def finish(self) -> None:
        """Sort the names of categories, and write the header."""
        arrays, categories = {}, {}
        for name in (*INTS, *self.fields):
            if name in self.categories:
                ordered = [self._sorted(name, c) for c in range(len(self.categories[name]))]
            elif name in self.types:
                ordered = [() for _ in range(self.widths[f"empty {name}"])]
            if name in self.types:
                kinds = self.types[name]
                kind = next(iter(kinds)) if len(kinds) == 1 else "str"
                categories[name] = {"names": ordered, "type": kind}
            width = self.widths.get(name, self.widths.get(f"empty {name}", 1))
            flat = name in INTS or name == "edge_weights"
            shape = [self.rows.get(name, 0)] if flat else [self.rows[name], width]
            kind = "<i8" if name in INTS else "<i4" if name in self.types else "<f8"
            path = self.folder / f"{name}.bin"
            path.touch()
            arrays[name] = {"dtype": kind, "shape": shape, "digest": _digest(path)}
        named = None
        if self.named is not None:
            named = asdict(ColumnNames(**self.named))
        header = {
            "checksum": BLANK,
            "format": FORMAT,
            "version": VERSION,
            "name": self.name,
            "directed": bool(self.directed),
            "arrays": arrays,
            "categories": categories,
            "columns": list(self.columns),
            "column_bytes": self.column_bytes,
            "column_digest": _digest(self.folder / COLUMNS),
            "names": named,
        }
        with (self.folder / HEADER).open("wb") as file:
            file.write(sealed(json.dumps(header, indent=1).encode()))
            file.flush()
            os.fsync(file.fileno())

    def _sorted(self, field: str, column: int) -> tuple[str, ...]:
        """The names of a column in the order that a reader of all graphs at once would give them."""
        names = self.categories[field][column]
        if self.alike[field] is not None:
            return tuple(names)
        ordered = sorted(names, key=numerical_order)
        if ordered != list(names):
            code = np.empty(len(names), np.int32)
            code[[names[name] for name in ordered]] = np.arange(len(names), dtype=np.int32)
            shape = (self.rows[field], len(self.categories[field]))
            stored = np.memmap(self.folder / f"{field}.bin", np.int32, "r+", shape=shape)
            for start in range(0, len(stored), BLOCK):
                rows = slice(start, start + BLOCK)
                stored[rows, column] = code[stored[rows, column]]
            stored.flush()
        return tuple(ordered)


def _digest(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=20)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


# --- reading


def read_stored(path: str | Path) -> RawGraphs:
    """The graphs of a folder. Their arrays are mapped: the system reads a part of a file when it is used."""
    path = Path(path)
    header = _header(path)
    try:
        arrays = {name: _mapped(path, name, about) for name, about in header["arrays"].items()}
        tables: dict[str, Any] = {name: arrays[name] for name in arrays if name not in INTS}
        for name, about in header["categories"].items():
            names = tuple(map(tuple, about["names"]))
            tables[name] = Categories(tables[name], names, about["type"])
        named = header["names"]
        lines = _ColumnLines(path / COLUMNS, arrays[COLUMN_STARTS], header["column_bytes"])
        return RawGraphs(
            name=header["name"],
            sizes=arrays["sizes"],
            indptr=arrays["indptr"],
            source=arrays["source"],
            directed=header["directed"],
            columns={name: StoredColumn(lines, name) for name in header["columns"]},
            names=None if named is None else ColumnNames.from_json(named),
            digest=header["checksum"],
            **tables,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, f"{HEADER} lacks {error}") from error


def check_stored(path: str | Path) -> None:
    """Read all files of a folder, and raise a DataError if one has changed since it was written."""
    path = Path(path)
    header = _header(path)
    digests = {f"{name}.bin": about["digest"] for name, about in header["arrays"].items()}
    for name, digest in {**digests, COLUMNS: header["column_digest"]}.items():
        try:
            intact = _digest(path / name) == digest
        except OSError as error:
            raise _damaged(path, f"{name}: {error.strerror}") from error
        if not intact:
            raise _damaged(path, f"{name} has changed since it was written")


def _header(path: Path) -> dict[str, Any]:
    try:
        content = (path / HEADER).read_bytes()
    except OSError as error:
        raise DataError(
            f"{path / HEADER}: the file could not be read ({error.strerror})."
        ) from error
    try:
        header = json.loads(content)
    except ValueError as error:
        raise _damaged(path, f"{HEADER} is not JSON") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise DataError(
            f"{path}: expected a data set written by `diffpool data convert`, got another {HEADER}."
        )
    if header.get("version") != VERSION:
        raise DataError(
            f"{path}: expected version {VERSION} of the format, got {header.get('version')}. Convert it again "
            "with this version of diffpool."
        )
    if not is_intact(content):
        raise _damaged(path, f"the checksum of {HEADER} does not match")
    return header


def _damaged(path: Path, reason: str) -> DataError:
    return DataError(f"{path}: the data set is damaged ({reason}). Convert it again.")


def _mapped(path: Path, name: str, about: dict[str, Any]) -> np.ndarray:
    file, shape, kind = path / f"{name}.bin", tuple(about["shape"]), np.dtype(about["dtype"])
    _check_size(path, file, int(np.prod(shape)) * kind.itemsize)
    if 0 in shape:  # an empty file cannot be mapped
        return np.empty(shape, kind)
    return np.memmap(file, kind, "r", shape=shape).view(np.ndarray)


def _check_size(path: Path, file: Path, expected: int) -> None:
    try:
        got = file.stat().st_size
    except OSError as error:
        raise _damaged(path, f"{file.name}: {error.strerror}") from error
    if got != expected:
        raise _damaged(path, f"{file.name} has {got:,} bytes instead of {expected:,}")


class _ColumnLines:
    """The additional columns: the JSON object of each graph."""

    def __init__(self, file: Path, starts: np.ndarray, size: int):
        _check_size(file.parent, file, size)
        self.starts = starts
        self.content = np.memmap(file, np.uint8, "r") if size else np.empty(0, np.uint8)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, graph: int) -> dict[str, Any]:
        start, end = self.starts[graph], self.starts[graph + 1]
        return json.loads(self.content[start:end].tobytes())


class StoredColumn(Sequence[Any]):
    """An additional column on disk: a value or None for each graph."""

    def __init__(self, lines: _ColumnLines, name: str):
        self.lines, self.name = lines, name

    def __len__(self) -> int:
        return len(self.lines)

    @overload
    def __getitem__(self, graph: int) -> Any: ...

    @overload
    def __getitem__(self, graph: slice) -> list[Any]: ...

    def __getitem__(self, graph: int | slice) -> Any:
        if isinstance(graph, slice):
            return [self[g] for g in range(*graph.indices(len(self)))]
        if not -len(self) <= graph < len(self):
            raise IndexError(graph)
        return self.lines[graph % len(self)].get(self.name)

    def __iter__(self) -> Iterator[Any]:
        return (self[g] for g in range(len(self)))
