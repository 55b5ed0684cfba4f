"""What was read once, kept in a compact form: COLLAB in less than 0.5 s instead of 5 s."""

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
from diffpool.data.raw import OF_EDGES, OF_GRAPHS, OF_NODES, Categories, RawGraphs
from diffpool.errors import DataError
from diffpool.files import atomic_write

FORMAT = 1  # to be raised with every change of what is stored or of how files are read
DTYPE = {"U8": "u1", "U16": "<u2", "U32": "<u4", "U64": "<u8", "F32": "<f4", "F64": "<f8"}
TABLES = (*OF_NODES, *OF_EDGES, *OF_GRAPHS)


def cache_dir() -> Path:
    """`DIFFPOOL_CACHE`, or else `diffpool` in `XDG_CACHE_HOME` or `~/.cache`."""
    if own := os.environ.get("DIFFPOOL_CACHE"):
        return Path(own)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "diffpool"
    try:
        return Path.home() / ".cache" / "diffpool"
    except RuntimeError as error:
        raise DataError(
            "expected a home folder for the cache, got none: name a folder with DIFFPOOL_CACHE"
        ) from error


def cached(
    paths: Path | Sequence[Path], name: str, read: Callable[[], RawGraphs], refresh: bool = False
) -> RawGraphs:
    """What `read` makes of these files, from the cache if files with this content have been read before.

    `paths` is a zip file, a folder with the data set's text files, or any files. A cache that is damaged is replaced,
    one that cannot be written is done without. `refresh`: read and replace in any case.
    """
    try:
        key = _key(paths, name)
        place = cache_dir() / "graphs" / f"{key}.safetensors"
    except (OSError, DataError):  # reading will say what is wrong, if anything is
        return read()
    raw = None if refresh else _load(place, name)
    if raw is None:
        raw = read()
        with contextlib.suppress(OSError, SafetensorError, DataError):
            if _key(paths, name) == key:  # else it changed while it was read
                _save(raw, place)
    return raw


def _key(paths: Path | Sequence[Path], name: str) -> str:
    """A digest of the content of a zip file, or of the names and the content of several files."""
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


# --- the file ----------------------------------------------------------------------------------------------------


def _save(raw: RawGraphs, place: Path) -> None:
    """Write the graphs to a file."""
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
    place.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(place) as temporary:
        save_file(arrays, temporary, metadata=about)


def _load(place: Path, name: str) -> RawGraphs | None:
    """What was saved, or None if there is nothing or not what was saved."""
    try:
        arrays, about = _mapped(place)
        if about.pop("checksum") != _checksum(about, arrays) or about["name"] != name:
            return None
        return _decoded(arrays, about)
    except Exception:  # whatever is wrong with the file: it is read anew
        return None


def _mapped(place: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays and metadata of a safetensors file, without the copy that its library makes."""
    content = np.asarray(np.memmap(place, np.uint8, "r"))
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
    """Some edges at a time, and the first node of the graph of each."""
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
