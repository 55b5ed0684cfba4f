"""A cache of data sets in a compact form: COLLAB loads in less than 0.5 s instead of 5 s."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from diffpool.data.archive import text_files
from diffpool.data.categories import Categories
from diffpool.data.raw import EDGE_TABLES, GRAPH_TABLES, NODE_TABLES, RawGraphs
from diffpool.errors import DataError
from diffpool.files import atomic_write

FORMAT = 2  # increase it with every change to what is stored or how files are read
DTYPE = {"U8": "u1", "U16": "<u2", "U32": "<u4", "U64": "<u8", "F32": "<f4", "F64": "<f8"}
TABLES = (*NODE_TABLES, *EDGE_TABLES, *GRAPH_TABLES)


def cache_dir() -> Path:
    """`DIFFPOOL_CACHE`, or else `diffpool` in `XDG_CACHE_HOME` or `~/.cache`."""
    if folder := os.environ.get("DIFFPOOL_CACHE"):
        return Path(folder)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "diffpool"
    try:
        return Path.home() / ".cache" / "diffpool"
    except RuntimeError as error:
        raise DataError(
            "there is no home folder for the cache. Set DIFFPOOL_CACHE to a folder."
        ) from error


def cached(
    paths: Path | Sequence[Path], name: str, read: Callable[[], RawGraphs], refresh: bool = False
) -> RawGraphs:
    """The result of `read` for these files, from the cache if files with the same content have been read before.

    `paths` is a zip file, a folder with the data set's text files, or a list of files. A damaged entry of the cache is
    replaced; a cache that cannot be written is not used. `refresh`: always read the files and replace the entry.
    """
    try:
        key = _key(paths, name)
        entry = cache_dir() / "graphs" / f"{key}.safetensors"
    except (OSError, DataError):  # `read` reports missing files
        return read()
    raw = None if refresh else _load(entry, name)
    if raw is None:
        raw = read()
        with contextlib.suppress(OSError, SafetensorError, DataError):
            if _key(paths, name) == key:  # else a file changed while it was read
                _save(raw, entry)
    return raw


def _key(paths: Path | Sequence[Path], name: str) -> str:
    """A hash of the content of a zip file, or of the names and contents of several files."""
    digest = hashlib.blake2b(f"{FORMAT}\n{name}\n".encode(), digest_size=20)
    if isinstance(paths, Path) and paths.is_dir():
        paths = list(text_files(paths, name).values())
    for path in [paths] if isinstance(paths, Path) else sorted(paths):
        if not isinstance(paths, Path):
            digest.update(f"{path.name}\n{path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    return digest.hexdigest()


# --- an entry of the cache


def _save(raw: RawGraphs, path: Path) -> None:
    """Write the graphs to a safetensors file."""
    arrays = {"sizes": _small(raw.sizes), "degrees": _small(np.diff(raw.indptr))}
    arrays["source"] = _within_graphs(raw)
    names = {}
    for field in TABLES:
        table = getattr(raw, field)
        if isinstance(table, Categories):
            names[field] = table.names
        if table is not None:
            arrays[field] = _small(table.codes if isinstance(table, Categories) else table)
    arrays = {field: np.ascontiguousarray(array) for field, array in arrays.items()}
    about = {"name": raw.name, "directed": str(raw.directed), "names": json.dumps(names)}
    about["checksum"] = _checksum(about, arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        save_file(arrays, temporary, metadata=about)


def _load(path: Path, name: str) -> RawGraphs | None:
    """The graphs of a file; None if it does not exist or is damaged."""
    try:
        arrays, about = _mapped(path)
        if about.pop("checksum") != _checksum(about, arrays) or about["name"] != name:
            return None
        return _decoded(arrays, about)
    except Exception:  # whatever is wrong with the entry, the caller reads the data set again
        return None


def _mapped(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays and metadata of a safetensors file, without the copy that the library makes."""
    content = np.asarray(np.memmap(path, np.uint8, "r"))
    start = 8 + int.from_bytes(content[:8].tobytes(), "little")
    header = json.loads(content[8:start].tobytes())
    about = header.pop("__metadata__")
    arrays = {}
    for field, array in header.items():
        first, last = array["data_offsets"]
        flat = content[start + first : start + last].view(DTYPE[array["dtype"]])
        arrays[field] = flat.reshape(array["shape"])
    return arrays, about


def _decoded(arrays: dict[str, np.ndarray], about: dict[str, str]) -> RawGraphs:
    indptr = np.concatenate([[0], np.cumsum(arrays["degrees"], dtype=np.int64)])
    source = np.empty(len(arrays["source"]), np.int64)
    raw = RawGraphs(about["name"], arrays["sizes"].astype(np.int64), indptr, source)
    for edges, start in _starts(raw):
        np.add(arrays["source"][edges], start, out=source[edges])
    names = json.loads(about["names"])
    tables: dict[str, Any] = {}
    for field in arrays.keys() & set(TABLES):
        if field in names:
            codes = arrays[field].astype(np.int32)
            tables[field] = Categories(codes, tuple(map(tuple, names[field])))
        else:
            tables[field] = arrays[field].astype(np.float64)
    return replace(raw, directed=about["directed"] == "True", **tables)


def _within_graphs(raw: RawGraphs) -> np.ndarray:
    """[E]: the source of each edge, numbered within its graph."""
    local = np.empty(raw.num_edges, np.min_scalar_type(raw.sizes.max(initial=0)))
    for edges, start in _starts(raw):
        local[edges] = raw.source[edges] - start
    return local


def _starts(raw: RawGraphs) -> Iterator[tuple[slice, np.ndarray]]:
    """For each block of edges: the slice, and the first node of each edge's graph."""
    start, degree = np.repeat(raw.starts, raw.sizes), np.diff(raw.indptr)
    for nodes, edges in raw.blocks():
        yield edges, np.repeat(start[nodes], degree[nodes])


def _small(values: np.ndarray) -> np.ndarray:
    """The same numbers in the smallest type that holds them exactly."""
    if values.dtype.kind == "f":
        with np.errstate(over="ignore"):
            single = values.astype(np.float32)
        return single if np.array_equal(single, values) else values
    return values.astype(np.min_scalar_type(values.max(initial=0)))


def _checksum(about: dict[str, str], arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=20)
    for field in sorted(arrays):
        digest.update(f"{field} {arrays[field].dtype} {arrays[field].shape}".encode())
        digest.update(arrays[field].data)
    return digest.hexdigest()
