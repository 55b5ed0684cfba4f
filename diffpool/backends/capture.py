"""A training step of a cohort on a GPU as one captured program, from drawing the batches to updating the models.

A step is about a thousand small operations; launched one by one they keep the GPU waiting for the host. Here a step is
captured once as a CUDA graph and replayed: the host only says which graphs come next. Shapes must then be the same at
every step, so rows and columns have a *capacity*. The host knows the sizes of the graphs, and so the capacity that a
step needs: a step that needs more than has been captured is captured again with more.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from diffpool.backends import enabled_backends
from diffpool.backends.triton.tiles import aligned
from diffpool.graphs import SparseGraphs
from diffpool.nn.classifier import Clusters

GROWTH = 1.25  # capacities grow by this factor, so that few of them occur


class Batches(Protocol):
    """What a captured step needs to know about a data set: `training.CohortBatches`."""

    graphs: SparseGraphs
    clusters: tuple[Clusters, ...]
    x: Tensor
    y: Tensor
    sizes: np.ndarray

    def divided(
        self, orders: Sequence[np.ndarray], sizes: Sequence[int], most: int
    ) -> np.ndarray: ...


@dataclass(frozen=True)
class Capacity:
    """Rows per model and local columns, at every level."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]  # of the input level: the rows of a model

    @classmethod
    def from_rows(cls, rows: int, graphs: int, clusters: Sequence[Clusters]) -> Capacity:
        """The capacity for any `graphs` graphs of each model with up to `rows` nodes together, rounded up."""
        levels = [_round_up(rows)]
        for made in clusters:
            count = made.max_count * graphs
            if made.ratio is not None:  # each graph's share is rounded up
                count = min(math.floor(made.ratio * levels[-1] + 1e-6) + graphs, count)
            levels.append(aligned(count))
        return cls(tuple(levels), (levels[0], *(aligned(made.max_count) for made in clusters)))


def _round_up(count: int) -> int:
    """The next of 32, 48, 64, 80, …, each GROWTH times the one before, as multiples of 16."""
    capacity = 32
    while capacity < count:
        capacity = aligned(math.ceil(capacity * GROWTH))
    return capacity


def can_capture(batches: Batches) -> bool:
    """Whether steps on these graphs can be captured: edge features and coarser graphs are not drawn on the device."""
    graphs = batches.graphs
    plain = not graphs.channels and graphs.prepared.coarser is None
    x = batches.x
    return plain and x.is_cuda and x.dtype == torch.float32 and "triton" in enabled_backends()


class CapturedSteps:
    """Steps of a cohort, captured; `work` is a step on what `Drawing.draw` gives.

    The first step of a capacity is not captured, in case no other comes. Overflow is impossible: a step is replayed
    only with a capacity that holds it.
    """

    def __init__(self, batches: Batches, work: Callable[..., None], models: int, graphs: int):
        from diffpool.backends.triton.drawn import Drawing

        self.drawing, self.work = Drawing(batches), work
        self.none = len(batches.sizes)  # the index of no graph
        device = batches.x.device
        self.indices = torch.full((models, graphs), self.none, device=device)
        self.programs: dict[Capacity, torch.cuda.CUDAGraph | None] = {}  # None: seen once
        self.pool = torch.cuda.graph_pool_handle()

    def step(self, indices: Tensor, capacity: Capacity) -> None:
        """One step on the graphs with these indices [M, B], on the device."""
        self.indices.copy_(indices)
        if capacity not in self.programs:
            self.programs[capacity] = None
            self._run(capacity)  # compiles what must be compiled
            return
        program = self.programs[capacity]
        if program is None:
            program = self.programs[capacity] = self._capture(capacity)
        program.replay()

    def _capture(self, capacity: Capacity) -> torch.cuda.CUDAGraph:
        program = torch.cuda.CUDAGraph()
        gc.collect()
        gc.disable()  # collecting an old program during a capture breaks the capture
        try:
            torch.cuda.synchronize()
            with torch.cuda.graph(program, pool=self.pool):
                self._run(capacity)
        finally:
            gc.enable()
        return program

    def _run(self, capacity: Capacity) -> None:
        self.work(*self.drawing.draw(self.indices, capacity))

    def epoch(self, orders: Sequence[np.ndarray], sizes: Sequence[int]) -> None:
        """All graphs of each model in its order, in batches of its size. The host does not wait for the device."""
        most = self.indices.shape[1]
        chosen = self.drawing.batches.divided(orders, sizes, most)
        indices = torch.from_numpy(np.where(chosen >= 0, chosen, self.none)).to(self.indices.device)
        batches = self.drawing.batches
        nodes = np.where(chosen >= 0, batches.sizes[chosen], 0).sum(2).max(1, initial=0)  # [steps]
        for own, rows in zip(indices, nodes.tolist(), strict=True):
            self.step(own, Capacity.from_rows(rows, most, batches.clusters))
