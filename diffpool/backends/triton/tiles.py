"""The tiles of a layout: blocks of rows, each within one graph."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from diffpool.layout import Layout


def aligned(width: int) -> int:
    """Round up to a multiple of 16: GPUs read matrices faster if their rows have such a length."""
    return -(-width // 16) * 16


def tile_rows(total: int, graphs: int) -> int:
    """The number of rows per tile: more if graphs are large."""
    return 64 if total >= 48 * graphs else 32


@dataclass(frozen=True, eq=False)
class Tiles:
    """Tiles of up to `rows` rows of one graph, ordered by model."""

    rows: int
    table: Tensor  # [T, 2] int64, on the device: graph and first row of each tile
    starts: Tensor  # [M + 1] int64, on the device: the first tile of each model, and the total
    clean: bool = True  # whether local columns that a graph does not have must be zero; otherwise they are never read


_tiles: WeakKeyDictionary[Layout, Tiles] = WeakKeyDictionary()


def attach(layout: Layout, tiles: Tiles) -> None:
    """Set the tiles of a layout."""
    _tiles[layout] = tiles


def tiles_of(layout: Layout) -> Tiles:
    """The tiles of a layout; computed in the first call from the sizes on the host."""
    tiles = _tiles.get(layout)
    if tiles is None:
        tiles = _tiles[layout] = _from_host(layout)
    return tiles


def _from_host(layout: Layout) -> Tiles:
    rows = tile_rows(layout.total, len(layout))
    count = -(-layout.sizes.numpy() // rows)
    graph = np.repeat(np.arange(len(layout)), count)
    index = np.arange(len(graph)) - np.repeat(np.cumsum(count) - count, count)
    first = layout.starts.numpy()[graph] + rows * index
    ends = np.cumsum(count.reshape(layout.models, -1).sum(1))
    device = layout.graph_of_row.device
    return Tiles(
        rows=rows,
        table=torch.from_numpy(np.stack([graph, first], 1)).to(device, non_blocking=True),
        starts=torch.from_numpy(np.concatenate([[0], ends])).to(device, non_blocking=True),
    )
