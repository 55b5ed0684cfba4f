"""What was computed of graphs, kept on disk: clusters of COLLAB take a minute to find and a moment to read."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from diffpool.data.cache import cache_dir
from diffpool.errors import DataError
from diffpool.graphs import SparseGraphs

FORMAT = 1  # to be raised with every change of what is computed
Arrays = dict[str, np.ndarray]


def cached(
    graphs: SparseGraphs,
    settings: Mapping[str, Any],
    compute: Callable[[], Arrays],
    keep: bool = True,
) -> Arrays:
    """What `compute` gives for these graphs and settings; without `keep` it is neither looked for nor kept.

    A file that is damaged is replaced, one that cannot be written is done without.
    """
    if not keep:
        return compute()
    try:
        place = cache_dir() / "prepared" / f"{_key(graphs, settings)}.safetensors"
    except DataError:  # no home folder
        return compute()
    with contextlib.suppress(OSError, SafetensorError, ValueError):
        return {
            name: a.astype(np.int64) if a.dtype.kind == "i" else a
            for name, a in load_file(place).items()
        }
    arrays = compute()
    with contextlib.suppress(OSError, SafetensorError):
        _save(arrays, place)
    return arrays


def _key(graphs: SparseGraphs, settings: Mapping[str, Any]) -> str:
    """A digest of the settings and of everything that is computed from."""
    about = json.dumps({"format": FORMAT, **settings}, sort_keys=True)
    digest = hashlib.blake2b(about.encode(), digest_size=20)
    for tensor in (graphs.layout.sizes, *vars(graphs.adj).values()):
        if tensor is not None:
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)}\n".encode())
            digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()


def _save(arrays: Arrays, place: Path) -> None:
    """Write the whole file or none: under another name first, which no other process has."""
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, other = tempfile.mkstemp(dir=place.parent, prefix=".", suffix=".part")
    os.close(handle)
    try:
        save_file({name: np.ascontiguousarray(_small(a)) for name, a in arrays.items()}, other)
        Path(other).replace(place)
    finally:
        Path(other).unlink(missing_ok=True)


def _small(values: np.ndarray) -> np.ndarray:
    """Whole numbers in the smallest type that holds them."""
    if values.dtype.kind != "i" or values.size == 0:
        return values
    least, most = int(values.min()), int(values.max())
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max:
            return values.astype(kind)
    return values
