"""The layout of graphs whose sizes only the device knows: two Triton kernels instead of about thirty small ones.

The reference is `drawn.layout_tables`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit(do_not_specialize=["rows", "models", "graphs"])
def _starts(
    sizes, starts, tile_starts, first_tile, rows, models, graphs,
    TILE: tl.constexpr, MODELS: tl.constexpr, GRAPHS: tl.constexpr,
):  # fmt: skip
    """The first row and first tile of every graph, and the first tile of every model."""
    model, graph = tl.arange(0, MODELS), tl.arange(0, GRAPHS)
    mask = (model < models)[:, None] & (graph < graphs)[None, :]
    index = model[:, None] * graphs + graph[None, :]
    n = tl.load(sizes + index, mask=mask, other=0)
    begins = tl.cumsum(n, 1) - n
    tl.store(starts + index, begins + (model * rows)[:, None], mask=mask)
    tiles = (n + TILE - 1) // TILE
    per_model = tl.sum(tiles, 1)
    ends = tl.cumsum(per_model, 0)
    tl.store(tile_starts + model, ends - per_model, mask=model < models)
    tl.store(tile_starts + models + model * 0, ends, mask=model == models - 1)
    first = (ends - per_model)[:, None] + tl.cumsum(tiles, 1) - tiles
    tl.store(first_tile + index, first, mask=mask)


@triton.jit(do_not_specialize=["rows", "models", "graphs", "count"])
def _fill(
    sizes, starts, tile_starts, first_tile, graph_of_row, index_in_graph, real, tiles, rows, models, graphs, count,
    TILE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The rows and tiles of a graph; one extra program per model handles padding rows, and unused tiles."""
    model, graph = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    if graph < graphs:
        number = model * graphs + graph
        start, n = tl.load(starts + number), tl.load(sizes + number)
        for step in range(0, n, BLOCK):
            index = step + tl.arange(0, BLOCK)
            here = index < n
            tl.store(graph_of_row + start + index, number + 0 * index, mask=here)
            tl.store(index_in_graph + start + index, index, mask=here)
            tl.store(real + start + index, 1 + 0 * index, mask=here)
        first = tl.load(first_tile + number)
        for step in range(0, (n + TILE - 1) // TILE, BLOCK):
            tile = step + tl.arange(0, BLOCK)
            here = tile * TILE < n
            tl.store(tiles + 2 * (first + tile), number + 0 * tile, mask=here)
            tl.store(tiles + 2 * (first + tile) + 1, start + tile * TILE, mask=here)
    else:
        last = model * graphs + graphs - 1
        used = tl.load(starts + last) + tl.load(sizes + last)
        end = (model + 1) * rows
        for step in range(used, end, BLOCK):
            row = step + tl.arange(0, BLOCK)
            tl.store(graph_of_row + row, models * graphs + 0 * row, mask=row < end)
            tl.store(index_in_graph + row, 0 * row, mask=row < end)
            tl.store(real + row, 0 * row, mask=row < end)
        if model == 0:
            needed = tl.load(tile_starts + models)
            for step in range(needed, count, BLOCK):
                tile = step + tl.arange(0, BLOCK)
                tl.store(tiles + 2 * tile, models * graphs - 1 + 0 * tile, mask=tile < count)
                tl.store(tiles + 2 * tile + 1, 0 * tile + (1 << 30), mask=tile < count)


def layout_tables(
    sizes: Tensor, rows: int, tile: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Starts, graph and index of each row, which rows belong to graphs, tiles, and the first tile of each model.

    `sizes` [M, B] int64; space for `rows` rows per model.
    """
    models, graphs = sizes.shape
    count = models * (rows // tile + graphs)
    starts, first_tile = sizes.new_empty(2, models * graphs).unbind()
    tile_starts, tiles = sizes.new_empty(models + 1), sizes.new_empty(count, 2)
    graph_of_row, index_in_graph = sizes.new_empty(2, models * rows).unbind()
    real = torch.empty(models * rows, dtype=torch.int8, device=sizes.device)
    _starts[(1,)](
        sizes, starts, tile_starts, first_tile, rows, models, graphs, TILE=tile,
        MODELS=triton.next_power_of_2(models), GRAPHS=triton.next_power_of_2(graphs),
    )  # fmt: skip
    _fill[(models, graphs + 1)](
        sizes, starts, tile_starts, first_tile, graph_of_row, index_in_graph, real, tiles, rows, models, graphs, count,
        TILE=tile, BLOCK=128,
    )  # fmt: skip
    return starts, graph_of_row, index_in_graph, real.view(torch.bool), tiles, tile_starts
