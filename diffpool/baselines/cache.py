"""Precomputed structures on disk: clustering COLLAB takes a minute, reading its clusters an instant."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from diffpool.data.cache import cache_dir
from diffpool.errors import DataError
from diffpool.files import atomic_write
from diffpool.graphs import SparseGraphs

FORMAT = 1  # increase it whenever a precomputed structure changes
Arrays = dict[str, np.ndarray]


def cached(
    graphs: SparseGraphs,
    settings: Mapping[str, Any],
    compute: Callable[[], Arrays],
    keep: bool = True,
) -> Arrays:
    """Return `compute()` for these graphs and settings, from the cache if it is there.

    With `keep=False` the cache is neither read nor written. A damaged file is replaced; a file that cannot be written
    is skipped.
    """
    if not keep:
        return compute()
    try:
        path = cache_dir() / "prepared" / f"{_key(graphs, settings)}.safetensors"
    except DataError:  # no home directory
        return compute()
    with contextlib.suppress(OSError, SafetensorError, ValueError):
        return {
            name: a.astype(np.int64) if a.dtype.kind == "i" else a
            for name, a in load_file(path).items()
        }
    arrays = compute()
    with contextlib.suppress(OSError, SafetensorError):
        _save(arrays, path)
    return arrays


def _key(graphs: SparseGraphs, settings: Mapping[str, Any]) -> str:
    """A digest of the settings and of the graphs' structure."""
    text = json.dumps({"format": FORMAT, **settings}, sort_keys=True)
    digest = hashlib.blake2b(text.encode(), digest_size=20)
    for tensor in (graphs.layout.sizes, *vars(graphs.adj).values()):
        if tensor is not None:
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)}\n".encode())
            digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()


def _save(arrays: Arrays, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        save_file({name: np.ascontiguousarray(_shrunk(a)) for name, a in arrays.items()}, temporary)


def _shrunk(values: np.ndarray) -> np.ndarray:
    """Integers in the smallest type that holds them."""
    if values.dtype.kind != "i" or values.size == 0:
        return values
    low, high = int(values.min()), int(values.max())
    for dtype in (np.int8, np.int16, np.int32):
        if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
            return values.astype(dtype)
    return values
