"""Precomputed structures on disk: computing the clusters of COLLAB takes a minute, reading them an instant."""

from __future__ import annotations

import contextlib
import hashlib
import json
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from diffpool.checksums import Arrays, DamagedFileError, load_arrays, save_arrays
from diffpool.data.cache import cache_dir
from diffpool.errors import DataError
from diffpool.graphs import SparseGraphs

FORMAT = 2  # increase it whenever a precomputed structure, or how it is stored, changes


def cached(
    graphs: SparseGraphs,
    settings: Mapping[str, Any],
    compute: Callable[[], Arrays],
    keep: bool = True,
) -> Arrays:
    """Return `compute()` for these graphs and settings, from the cache if it is there.

    With `keep=False` the cache is neither read nor written. A damaged file is replaced, with a warning; a file that
    cannot be written is skipped.
    """
    if not keep:
        return compute()
    try:
        path = cache_dir() / "prepared" / f"{_key(graphs, settings)}.safetensors"
    except DataError:  # no home directory
        return compute()
    try:
        if found := load_arrays(path):
            return {
                name: a.astype(np.int64) if a.dtype.kind == "i" else a
                for name, a in found[0].items()
            }
    except DamagedFileError as error:
        warnings.warn(f"{error}: computing it again", stacklevel=2)
    arrays = compute()
    with contextlib.suppress(OSError):
        save_arrays(path, {name: _shrunk(a) for name, a in arrays.items()})
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


def _shrunk(values: np.ndarray) -> np.ndarray:
    """Integers in the smallest type that holds them."""
    if values.dtype.kind != "i" or values.size == 0:
        return values
    low, high = int(values.min()), int(values.max())
    for dtype in (np.int8, np.int16, np.int32):
        if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
            return values.astype(dtype)
    return values
