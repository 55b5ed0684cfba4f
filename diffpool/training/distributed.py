"""Data-parallel training: several processes train one cohort, each on a part of every batch.

Every process has the whole data set and draws the same batches. A batch is divided among the processes by graph; each
computes the losses and gradients of its part. The parameters of a cohort are one matrix [M, P], so one sum of one
tensor per step replaces what DistributedDataParallel does with buckets of parameters and hooks. The result is that of
one process up to rounding: the loss is the mean over the whole batch, batch normalization uses the statistics of the
whole batch (`nn.synchronized`), and random numbers depend on the position in the whole batch.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from diffpool.backends.cpu.threads import threads_for
from diffpool.data import Fold, GraphDataset
from diffpool.errors import SettingError
from diffpool.nn import BatchNorm, GraphClassifier, Random
from diffpool.nn.synchronized import add, no_process_lost, synchronized
from diffpool.training.cohort_batches import CohortBatches
from diffpool.training.settings import Training


@dataclass(frozen=True)
class Processes:
    """The processes of the default group of torch.distributed, as seen by one of them: number `rank` of `size`."""

    rank: int
    size: int

    @classmethod
    def current(cls) -> Processes:
        """The processes of the default group, which must have been initialized."""
        if not dist.is_available() or not dist.is_initialized():
            raise SettingError(
                "there is no process group: start the program with torchrun and call "
                "torch.distributed.init_process_group first"
            )
        return cls(dist.get_rank(), dist.get_world_size())

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes files and shows progress."""
        return self.rank == 0

    def add(self, t: Tensor) -> None:
        """Replace a tensor by the sum over all processes; all of them get the same bits."""
        add(t)

    def from_leader(self, value: Any) -> Any:
        """The value of the leader, in every process."""
        values = [value]
        with no_process_lost():
            dist.broadcast_object_list(values)
        return values[0]

    @contextmanager
    def leader_first(self) -> Iterator[None]:
        """Run the `with` block in the leader, then in the others: it downloads and writes caches only once."""
        if not self.leads:
            self.from_leader(None)
        yield
        if self.leads:
            self.from_leader(None)

    def share(self, model: nn.Module) -> None:
        """Copy the parameters and statistics of the leader's model to all processes."""
        with no_process_lost():
            for tensor in model.state_dict().values():
                dist.broadcast(tensor, 0)

    def average_statistics(self, model: nn.Module) -> None:
        """Replace the running statistics of batch normalization by their means over all processes."""
        for module in model.modules():
            if isinstance(module, BatchNorm):
                for tensor in (module.running_mean, module.running_var):
                    self.add(tensor)
                    tensor /= self.size

    def check(
        self, dataset: GraphDataset, folds: Sequence[Fold], configs: Sequence[Training]
    ) -> None:
        """Raise an error if there are too few graphs, or if the processes do not have the same graphs and folds."""
        smallest = min(min(c.batch_size, len(f.train)) for c, f in zip(configs, folds, strict=True))
        if smallest < self.size:
            raise SettingError(
                f"expected a batch of at least {self.size} graphs, one for each process, got {smallest}: "
                "use a larger batch size or fewer processes"
            )
        parts = [dataset.sizes, dataset.y.cpu().double().numpy()]
        parts += [part for fold in folds for part in (fold.train, fold.validation)]
        digest = hashlib.blake2b()
        for part in parts:
            digest.update(np.ascontiguousarray(part).tobytes())
        if self.from_leader(digest.digest()) != digest.digest():
            raise SettingError(
                "expected the same data set and folds in every process, got different ones: every process reads all "
                "graphs, and each batch is divided among the processes"
            )


def work(dataset: GraphDataset) -> np.ndarray:
    """The cost of each graph when a batch is divided: its nodes and directed edges, [B]."""
    return np.maximum(dataset.sizes + dataset.edge_counts, 1)


def divided(chosen: np.ndarray, cost: np.ndarray, size: int) -> list[np.ndarray]:
    """Divide the graphs of a batch [B] among `size` processes, so that the costs of the parts are similar.

    `cost` has the cost of every graph of the data set. The most expensive graph that is left goes to the process with
    the least work, so no part is empty unless there are fewer graphs than processes. A part keeps the order of the
    batch.
    """
    parts: list[list[int]] = [[] for _ in range(size)]
    loads = [(0, rank) for rank in range(size)]
    costs = cost[chosen]
    for position in np.argsort(-costs, kind="stable").tolist():
        load, rank = heapq.heappop(loads)
        parts[rank].append(position)
        heapq.heappush(loads, (load + int(costs[position]), rank))
    return [np.array(sorted(part), np.int64) for part in parts]


class PartOfBatch:
    """The graphs of one process in a batch of M models; see `nn.random.BatchRows`."""

    def __init__(self, batches: CohortBatches, chosen: np.ndarray, positions: np.ndarray):
        self.batches, self.chosen, self.positions = batches, chosen, positions

    @property
    def graphs(self) -> np.ndarray:
        """The graphs of this process: [M, b], −1 for padding."""
        graphs = np.take_along_axis(self.chosen, self.positions.clip(min=0), 1)
        return np.where(self.positions >= 0, graphs, -1)

    def of_graphs(self) -> Tensor:
        """The number of each graph within the batch of its model: [M, b]."""
        return torch.from_numpy(self.positions.clip(min=0)).to(self.batches.x.device)

    def of_nodes(self, level: int) -> Tensor:
        """The number of each row of a level within the batch of its model: [M, rows]."""
        sizes = np.where(self.chosen >= 0, self.batches.level_sizes[level][self.chosen], 0)
        starts = sizes.cumsum(1) - sizes
        models = []
        for own, first, positions in zip(sizes, starts, self.positions, strict=True):
            mine = positions[positions >= 0]
            rows = [np.arange(first[p], first[p] + own[p]) for p in mine.tolist()]
            models.append(np.concatenate(rows) if rows else np.empty(0, np.int64))
        numbers = np.zeros((len(models), max(map(len, models))), np.int64)
        for row, own in zip(numbers, models, strict=True):
            row[: len(own)] = own
        return torch.from_numpy(numbers).to(self.batches.x.device)


class SharedSteps:
    """Runs `step` on the part of each batch that belongs to this process. Same interface as `EagerSteps`.

    `cost` is the work of every graph. With `across`, statistics of a batch are those of all processes. `random`, if
    given, draws the numbers of the whole batch.
    """

    def __init__(
        self,
        batches: CohortBatches,
        model: GraphClassifier,
        processes: Processes,
        cost: np.ndarray,
        across: bool,
        step: Callable[..., None],
        random: Random | None = None,
    ):
        self.batches, self.model, self.processes = batches, model, processes
        self.cost, self.across, self.step, self.random = cost, across, step, random

    def epoch(self, orders: Sequence[np.ndarray], sizes: Sequence[int]) -> None:
        """Run one step for each batch: the graphs of each model in its order, in batches of its size."""
        batches, size = self.batches, self.processes.size
        max_graphs = max(min(len(g), n) for g, n in zip(orders, sizes, strict=True))
        rows = max(sizes) * batches.sizes.sum() / max(len(batches.sizes), 1) / size
        threads = nullcontext() if batches.x.is_cuda else threads_for(rows)
        across = synchronized(self.model) if self.across else nullcontext()
        with threads, across:
            for chosen in batches.divided(orders, sizes, max_graphs):
                part = self._part(chosen)
                if self.random is not None:
                    self.random.rows = part
                self.step(*batches.batch(part.graphs).parts)

    def _part(self, chosen: np.ndarray) -> PartOfBatch:
        """The part of a batch [M, B] that belongs to this process."""
        rank, size = self.processes.rank, self.processes.size
        models = [divided(own[own >= 0], self.cost, size)[rank] for own in chosen]
        positions = np.full((len(models), max(map(len, models))), -1)
        for row, own in zip(positions, models, strict=True):
            row[: len(own)] = own
        return PartOfBatch(self.batches, chosen, positions)
