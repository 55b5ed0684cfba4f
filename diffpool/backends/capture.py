"""Training steps of a cohort as CUDA graphs, from drawing the batches to updating the models.

A step consists of about a thousand small operations. Launched one by one, they keep the GPU waiting for the host. Here
a step is captured once as a CUDA graph and then replayed: the host only passes the indices of the next graphs. Shapes
must be the same in every replay, so rows and columns have a *capacity*. The host knows the sizes of the graphs, and so
the capacity that a step needs. Steps are captured once per capacity.
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

GROWTH = 1.25  # capacities grow by this factor, so that there are few of them


class Batches(Protocol):
    """The data set of a captured step; implemented by `training.CohortBatches`."""

    graphs: SparseGraphs
    clusters: tuple[Clusters, ...]
    x: Tensor
    y: Tensor
    sizes: np.ndarray

    def divided(
        self, orders: Sequence[np.ndarray], sizes: Sequence[int], max_graphs: int
    ) -> np.ndarray: ...


@dataclass(frozen=True)
class Capacity:
    """Rows per model and local columns at every level."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]  # at the input level: the rows of a model

    @classmethod
    def from_rows(cls, rows: int, graphs: int, clusters: Sequence[Clusters]) -> Capacity:
        """The capacity for any `graphs` graphs per model with a total of up to `rows` nodes, rounded up."""
        levels = [_round_up(rows)]
        for pooling in clusters:
            count = pooling.max_count * graphs
            if pooling.ratio is not None:  # the count of each graph is rounded up
                count = min(math.floor(pooling.ratio * levels[-1] + 1e-6) + graphs, count)
            levels.append(aligned(count))
        return cls(
            tuple(levels), (levels[0], *(aligned(pooling.max_count) for pooling in clusters))
        )


def _round_up(count: int) -> int:
    """Round up to one of 32, 48, 64, 80, …: multiples of 16 that grow by the factor GROWTH."""
    capacity = 32
    while capacity < count:
        capacity = aligned(math.ceil(capacity * GROWTH))
    return capacity


def can_capture(batches: Batches) -> bool:
    """Whether steps on these graphs can be captured; precomputed coarser graphs are not supported."""
    flat, x = batches.graphs.prepared.coarser is None, batches.x
    return flat and x.is_cuda and x.dtype == torch.float32 and "triton" in enabled_backends()


class CapturedSteps:
    """Captured training steps of a cohort; `work` runs one step on the result of `Drawing.draw`.

    The first step of each capacity runs without capture, because it may be the only one. A step never overflows: it is
    replayed only with a capacity that is large enough.
    """

    def __init__(self, batches: Batches, work: Callable[..., None], models: int, graphs: int):
        from diffpool.backends.triton.drawn import Drawing

        self.drawing, self.work = Drawing(batches), work
        self.none = len(batches.sizes)  # the index that means "no graph"
        device = batches.x.device
        self.indices = torch.full((models, graphs), self.none, device=device)
        self.programs: dict[Capacity, torch.cuda.CUDAGraph | None] = {}  # None: ran once
        self.pool = torch.cuda.graph_pool_handle()

    def step(self, indices: Tensor, capacity: Capacity) -> None:
        """One step on the graphs with these indices [M, B], on the device."""
        self.indices.copy_(indices)
        if capacity not in self.programs:
            self.programs[capacity] = None
            self._run(capacity)  # also compiles the kernels
            return
        program = self.programs[capacity]
        if program is None:
            program = self.programs[capacity] = self._capture(capacity)
        program.replay()

    def _capture(self, capacity: Capacity) -> torch.cuda.CUDAGraph:
        program = torch.cuda.CUDAGraph()
        gc.collect()
        gc.disable()  # freeing another CUDA graph would break the capture
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
        """Train on all graphs of each model, in its order and batch size. The host does not wait for the device."""
        max_graphs = self.indices.shape[1]
        chosen = self.drawing.batches.divided(orders, sizes, max_graphs)
        indices = torch.from_numpy(np.where(chosen >= 0, chosen, self.none)).to(self.indices.device)
        batches = self.drawing.batches
        nodes = np.where(chosen >= 0, batches.sizes[chosen], 0).sum(2).max(1, initial=0)  # [steps]
        for batch, rows in zip(indices, nodes.tolist(), strict=True):
            self.step(batch, Capacity.from_rows(rows, max_graphs, batches.clusters))
