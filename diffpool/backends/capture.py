"""Training steps as CUDA graphs, from drawing the batches to updating the models.

A step consists of about a thousand small operations. Launched one by one, they keep the GPU waiting for the host. Here
a step is captured once as a CUDA graph and then replayed: the host only passes the indices of the next graphs. Shapes
must be the same in every replay, so rows and columns have a *capacity*. The host knows the sizes of the graphs, and so
the capacity that a step needs. Steps are captured once per capacity.
"""

from __future__ import annotations

import gc
import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from diffpool.backends import enabled_backends
from diffpool.backends.triton.tiles import aligned
from diffpool.graphs import SparseGraphs
from diffpool.layout import Counts
from diffpool.nn.classifier import Clusters

GROWTH = 1.25  # capacities grow by this factor, so that there are few of them
MAX_CHANNELS = 127  # edge features that the kernels accept
SLACK = 1.1  # rows of precomputed coarser graphs, divided by their usual number


K = TypeVar("K")
R = TypeVar("R")


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
    coarser: tuple[int, ...] = ()  # rows per model of the precomputed coarser graphs

    @classmethod
    def from_rows(cls, rows: int, graphs: int, clusters: Sequence[Clusters]) -> Capacity:
        """The capacity for any `graphs` graphs per model with a total of up to `rows` nodes, rounded up."""
        levels = [round_up(rows)]
        for pooling in clusters:
            levels.append(coarser_rows(pooling, levels[-1], graphs))
        return cls(
            tuple(levels), (levels[0], *(aligned(pooling.max_count) for pooling in clusters))
        )


def coarser_rows(clusters: Counts, rows: int, graphs: int) -> int:
    """The capacity for the clusters of any `graphs` graphs with a total of up to `rows` nodes."""
    count = clusters.max_count * graphs
    if (
        clusters.ratio is not None
    ):  # the count of each graph is rounded up, and at least the minimum
        least = max(clusters.min_count, 1)
        count = min(math.floor(clusters.ratio * rows + 1e-6) + least * graphs, count)
    return aligned(count)


def round_up(count: int) -> int:
    """Round up to one of 32, 48, 64, 80, …: multiples of 16 that grow by the factor GROWTH."""
    return _STEPS[bisect_left(_STEPS, count)]


def _steps() -> list[int]:
    steps = [32]
    while steps[-1] < 2**50:
        steps.append(aligned(math.ceil(steps[-1] * GROWTH)))
    return steps


_STEPS = _steps()


def capacities(batches: Batches, chosen: np.ndarray) -> list[Capacity]:
    """The capacity of each step, given the graphs of every model: [steps, M, B], −1 for no graph.

    Precomputed coarser graphs have their usual share of the rows and some more, so that their capacity rarely adds to
    the number of capacities.
    """
    steps: list[Capacity] = []
    levels = _coarser_sizes(batches.graphs)
    shares = [SLACK * sizes.sum() / max(batches.sizes.sum(), 1) for sizes in levels]
    needed = [_max_rows(sizes, chosen) for sizes in (batches.sizes, *levels)]
    for rows, *coarser in np.stack(needed, 1).tolist():
        capacity = Capacity.from_rows(rows, chosen.shape[2], batches.clusters)
        usual = [math.ceil(share * capacity.rows[0]) for share in shares]
        counts = [round_up(max(pair)) for pair in zip(usual, coarser, strict=True)]
        steps.append(replace(capacity, coarser=tuple(counts)))
    return steps


def _coarser_sizes(graphs: SparseGraphs) -> list[np.ndarray]:
    """The number of nodes of every graph but the last, which means "no graph", at each precomputed coarser level."""
    coarser = graphs.prepared.coarser
    if coarser is None:
        return []
    return [coarser.layout.sizes.numpy()[:-1], *_coarser_sizes(coarser)]


def _max_rows(sizes: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The largest number of nodes of a model in each step: [steps]."""
    return np.where(chosen >= 0, sizes[chosen], 0).sum(2).max(1, initial=0)


def can_capture(batches: Batches) -> bool:
    """Whether steps on these graphs can be captured: not without features, or with very many features of edges."""
    x, channels = batches.x, len(batches.graphs.channels)
    supported = x.numel() > 0 and channels <= MAX_CHANNELS and x.dtype == torch.float32
    return supported and x.is_cuda and "triton" in enabled_backends()


class Programs(Generic[K, R]):
    """Calls captured as CUDA graphs, one for each key; calls with the same key have the same shapes.

    The first call of each key runs without capture, because it may be the only one; it also compiles the kernels.
    """

    def __init__(self, threads: bool = False) -> None:
        """With `threads`, other threads, like that of a data loader, may use the GPU during a capture."""
        self.mode = "thread_local" if threads else "global"
        self.known: dict[K, tuple[torch.cuda.CUDAGraph, R] | None] = {}  # None: ran once
        self.pool: Any = None  # the memory that all programs share

    def run(self, key: K, work: Callable[[], R]) -> R:
        """Run or replay `work`. The result of a replay is that of the capture, with new values."""
        if key not in self.known:
            result = work()
            self.known[key] = None  # not if it failed: a capture must find all kernels and states
            return result
        program = self.known[key]
        if program is None:
            program = self.known[key] = self._captured(work)
        program[0].replay()
        return program[1]

    def forget(self, key: K) -> None:
        self.known.pop(key, None)

    def _captured(self, work: Callable[[], R]) -> tuple[torch.cuda.CUDAGraph, R]:
        try:
            return self._capture(work)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            error.add_note(
                "This happened in the capture of a CUDA graph. Nothing may wait for the GPU there, such as .item() or "
                "print, and the optimizer must be capturable. Start a new process after correcting it."
            )
            raise

    def _capture(self, work: Callable[[], R]) -> tuple[torch.cuda.CUDAGraph, R]:
        from diffpool.backends.triton.streams import rejoin

        if not any(self.known.values()):  # a pool ends with its last program
            self.pool = torch.cuda.graph_pool_handle()
        program = torch.cuda.CUDAGraph()
        gc.collect()
        gc.disable()  # freeing another CUDA graph would break the capture
        try:
            torch.cuda.synchronize()
            with torch.cuda.graph(program, pool=self.pool, capture_error_mode=self.mode):
                try:
                    result = work()
                except BaseException:
                    rejoin()
                    raise
        finally:
            gc.enable()
        return program, result


class CapturedSteps:
    """Captured training steps of a cohort; `work` runs one step on the result of `Drawing.draw`.

    A step never overflows: it is replayed only with a capacity that is large enough.
    """

    def __init__(self, batches: Batches, work: Callable[..., None], models: int, graphs: int):
        from diffpool.backends.triton.drawn import Drawing

        self.drawing, self.work = Drawing(batches), work
        self.none = len(batches.sizes)  # the index that means "no graph"
        device = batches.x.device
        self.indices = torch.full((models, graphs), self.none, device=device)
        self.programs: Programs[Capacity, None] = Programs()

    def step(self, indices: Tensor, capacity: Capacity) -> None:
        """One step on the graphs with these indices [M, B], on the device."""
        self.indices.copy_(indices)
        self.programs.run(capacity, partial(self._run, capacity))

    def _run(self, capacity: Capacity) -> None:
        self.work(*self.drawing.draw(self.indices, capacity))

    def epoch(self, orders: Sequence[np.ndarray], sizes: Sequence[int]) -> None:
        """Train on all graphs of each model, in its order and batch size. The host does not wait for the device."""
        max_graphs = self.indices.shape[1]
        chosen = self.drawing.batches.divided(orders, sizes, max_graphs)
        indices = torch.from_numpy(np.where(chosen >= 0, chosen, self.none)).to(self.indices.device)
        capacity_of_step = capacities(self.drawing.batches, chosen)
        for batch, capacity in zip(indices, capacity_of_step, strict=True):
            self.step(batch, capacity)
