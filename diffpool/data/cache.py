"""A cache of data sets in a compact format: COLLAB loads in less than 0.5 s instead of 5 s."""

from __future__ import annotations

import contextlib
import hashlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from diffpool.checksums import Arrays, DamagedFileError, load_arrays, save_arrays
from diffpool.data.archive import text_files
from diffpool.data.categories import Categories
from diffpool.data.raw import EDGE_TABLES, GRAPH_TABLES, NODE_TABLES, RawGraphs
from diffpool.errors import DataError

FORMAT = 4  # increase it whenever the stored data or the way files are read changes
TABLES = (*NODE_TABLES, *EDGE_TABLES, *GRAPH_TABLES)


def cache_dir() -> Path:
    """`DIFFPOOL_CACHE` if it is set, otherwise `diffpool` in `XDG_CACHE_HOME` or `~/.cache`."""
    if folder := os.environ.get("DIFFPOOL_CACHE"):
        return Path(folder)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "diffpool"
    try:
        return Path.home() / ".cache" / "diffpool"
    except RuntimeError as error:
        raise DataError(
            "the cache needs a home directory, but there is none. Set DIFFPOOL_CACHE to a folder."
        ) from error


def cached(
    paths: Path | Sequence[Path], name: str, read: Callable[[], RawGraphs], refresh: bool = False
) -> RawGraphs:
    """The result of `read` for these files, from the cache if files with the same content have been read before.

    `paths` is a zip file, a folder with the data set's text files, or a list of files. A damaged cache entry is
    replaced, with a warning; a cache that cannot be written is ignored. `refresh`: always read the files and replace
    the entry.
    """
    try:
        key = _key(paths, name)
        entry = cache_dir() / "graphs" / f"{key}.safetensors"
    except (OSError, DataError):  # `read` reports missing files
        return read()
    raw = None if refresh else _load(entry)
    if raw is None:
        raw = read()
        with contextlib.suppress(OSError, DataError):
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
            names[field] = {"names": table.names, "type": table.type}
        if table is not None:
            arrays[field] = _small(table.codes if isinstance(table, Categories) else table)
    save_arrays(path, arrays, {"name": raw.name, "directed": bool(raw.directed), "names": names})


def _load(path: Path) -> RawGraphs | None:
    """The graphs of a file; None if it does not exist or is damaged."""
    try:
        found = load_arrays(path)
        return None if found is None else _decoded(*found)
    except DamagedFileError as error:
        reason = str(error)
    except (KeyError, TypeError, ValueError, IndexError, DataError):
        reason = f"{path} was written by another version of diffpool"
    warnings.warn(f"{reason}: reading the data set again", stacklevel=3)
    return None


def _decoded(arrays: Arrays, about: dict[str, Any]) -> RawGraphs:
    indptr = np.concatenate([[0], np.cumsum(arrays["degrees"], dtype=np.int64)])
    source = np.empty(len(arrays["source"]), np.int64)
    raw = RawGraphs(about["name"], arrays["sizes"].astype(np.int64), indptr, source)
    for edges, start in _starts(raw):
        np.add(arrays["source"][edges], start, out=source[edges])
    tables: dict[str, Any] = {}
    for field in arrays.keys() & set(TABLES):
        if field in about["names"]:
            codes = arrays[field].astype(np.int32)
            words = about["names"][field]
            columns = tuple(map(tuple, words["names"]))
            tables[field] = Categories(codes, columns, words["type"])
        else:
            tables[field] = arrays[field].astype(np.float64)
    return replace(raw, directed=about["directed"], **tables)


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
