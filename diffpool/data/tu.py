"""Reading the text format of the TU collection (Morris et al., 2020)."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from diffpool.data.dataset import GraphDataset
from diffpool.errors import DataError
from diffpool.graphs import SparseGraphs

MAX_DEGREE = 64  # larger degrees share the last column of the one-hot degrees


def read_tu(path: Path, name: str) -> GraphDataset:
    """The data set in a zip file or a folder.

    Features are the attributes and one-hot labels of the nodes, or one-hot degrees where there are neither.
    """
    read = _reader(path, name)
    indicator, labels = (
        _required(path, name, read, part, 1) for part in ("graph_indicator", "graph_labels")
    )
    edges = _required(path, name, read, "A", 2)
    indicator, labels = indicator[:, 0] - 1, labels[:, 0]
    if (np.diff(indicator) < 0).any() or indicator.min(initial=0) < 0:
        raise DataError(
            f"{name}_graph_indicator.txt: expected graph numbers from 1 in ascending order"
        )
    if indicator.max(initial=-1) >= len(labels):
        raise DataError(
            f"{name}_graph_labels.txt: expected a label for each of {indicator.max() + 1} graphs in "
            f"{name}_graph_indicator.txt, got {len(labels)}"
        )
    sizes = np.bincount(indicator, minlength=len(labels))
    source, target = edges[:, 0] - 1, edges[:, 1] - 1
    graphs = SparseGraphs.from_edges(
        sizes, np.concatenate([source, target]), np.concatenate([target, source])
    )
    classes, y = np.unique(labels, return_inverse=True)
    x, features = _features(read, graphs, name)
    return GraphDataset(
        name=name,
        graphs=graphs,
        x=x,
        y=torch.from_numpy(y.astype(np.int64)),
        class_names=tuple(str(c) for c in classes),
        features=features,
    )


Read = Callable[[str, type], np.ndarray | None]


def _reader(path: Path, name: str) -> Read:
    """A function that reads one part of the data set as a matrix, or gives None if an optional part is missing."""
    try:
        archive = zipfile.ZipFile(path) if path.is_file() else None
    except zipfile.BadZipFile as error:
        raise DataError(
            f"{path}: expected a zip file, got something else or half of one"
        ) from error

    def text(part: str) -> bytes | None:
        file = f"{name}_{part}.txt"
        if archive is None:
            place = next((p for p in (path / file, path / "raw" / file) if p.exists()), None)
            return None if place is None else place.read_bytes()
        found = [m for m in archive.namelist() if m.rsplit("/", 1)[-1] == file]
        try:
            return archive.read(found[0]) if found else None
        except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError) as error:
            raise DataError(
                f"{path}: expected {file} in it, got a damaged one ({error})"
            ) from error

    def read(part: str, dtype: type) -> np.ndarray | None:
        content = text(part)
        if content is None:
            return None
        kind = "whole numbers" if dtype is np.int64 else "numbers"
        lines = content.count(b"\n") + (not content.endswith(b"\n"))
        try:
            words = content.replace(b",", b" ").decode("ascii")
            flat: np.ndarray = np.fromstring(words, dtype=dtype, sep=" ")
        except ValueError as error:
            raise DataError(
                f"{name}_{part}.txt: expected {kind} only, got something else"
            ) from error
        if len(flat) == 0:
            return flat.reshape(0, 1)
        if len(flat) % lines:
            raise DataError(f"{name}_{part}.txt: expected as many numbers in every line")
        if not np.isfinite(flat).all():
            raise DataError(f"{name}_{part}.txt: expected finite numbers, got NaN or infinity")
        return flat.reshape(lines, -1)

    return read


def _required(path: Path, name: str, read: Read, part: str, columns: int) -> np.ndarray:
    numbers = read(part, np.int64)
    if numbers is None:
        raise DataError(f"{path}: expected a file {name}_{part}.txt in it, got none")
    if len(numbers) == 0:
        return numbers.reshape(0, columns)
    if numbers.shape[1] != columns:
        raise DataError(
            f"{name}_{part}.txt: expected {columns} in each line, got {numbers.shape[1]} numbers"
        )
    return numbers


def _features(read: Read, graphs: SparseGraphs, name: str) -> tuple[torch.Tensor, str]:
    parts, names = [], []
    attributes = read("node_attributes", np.float64)
    if attributes is not None:
        parts.append(attributes)
        names.append(f"attributes ({attributes.shape[1]})")
    labels = read("node_labels", np.int64)
    if labels is not None:
        values, place = np.unique(labels[:, 0], return_inverse=True)
        parts.append(np.eye(len(values))[place])
        names.append(f"one-hot labels ({len(values)})")
    if not parts:
        degree = graphs.degree.numpy().astype(np.int64).clip(max=MAX_DEGREE)
        parts.append(np.eye(MAX_DEGREE + 1)[degree])
        names.append(f"one-hot degree (up to {MAX_DEGREE})")
    for part, what in zip(parts, names, strict=True):
        if len(part) != graphs.num_nodes:
            raise DataError(
                f"{name}: expected {what} for each of {graphs.num_nodes} nodes in "
                f"{name}_graph_indicator.txt, got {len(part)}"
            )
    return torch.from_numpy(np.concatenate(parts, 1)).float(), ", ".join(names)
