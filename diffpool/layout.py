"""Which rows of a batch belong to which graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from diffpool.backends import accelerated


class Counts(Protocol):
    """The numbers of clusters of a pooling; implemented by `nn.Clusters`."""

    @property
    def max_count(self) -> int: ...
    @property
    def ratio(self) -> float | None: ...
    @property
    def min_count(self) -> int: ...

    def counts(self, sizes: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True, eq=False, repr=False)
class Layout:
    """The division of N rows among B graphs: graph g has `sizes[g]` consecutive rows, starting at `starts[g]`.

    `sizes` stays on the host, so that shapes and loops are planned without synchronization. If several models are
    trained side by side, each has the same number of rows; a model with fewer nodes has *padding rows* at its end,
    which belong to no graph.
    """

    sizes: Tensor  # [B] int64, on the host
    starts: Tensor  # [B] int64, on the host
    total: int  # N
    largest: int
    graph_of_row: Tensor  # [N] int64, on the device; B for padding rows
    index_in_graph: Tensor  # [N] int64, on the device: 0 for the first row of each graph
    # [N] int64, on the device: the row if all graphs were padded to the largest; B · largest for padding rows
    slot_of_row: Tensor
    device_sizes: Tensor  # [B] int64, on the device: a copy of `sizes`
    complete: bool = True  # whether every row belongs to a graph
    real: Tensor | None = None  # [N] bool, on the device: which rows belong to graphs; None: all
    models: int = 1

    @classmethod
    def from_sizes(
        cls,
        sizes: Sequence[int] | np.ndarray | Tensor,
        device: torch.device | str = "cpu",
        models: int = 1,
    ) -> Layout:
        """The layout of graphs with these sizes: first the graphs of model 0, then those of model 1, and so on."""
        counts = checked_sizes(sizes)
        if models == 1 and torch.device(device).type != "cpu":
            given = torch.from_numpy(counts).to(device, non_blocking=True)
            graph_of_row = torch.arange(len(counts), device=device).repeat_interleave(
                given, output_size=int(counts.sum())
            )
            return cls.on_device(counts.tolist(), given, graph_of_row)
        used = counts.reshape(models, -1).sum(1)  # [M]: rows that belong to graphs
        rows = int(used.max())  # of each model
        complete = rows == int(used.min())
        host = torch.from_numpy(counts)
        starts, tables = row_tables(host, models, rows)
        graph_of_row, index_in_graph, slot_of_row = tables.to(device).unbind()  # one transfer
        return cls(
            sizes=host,
            starts=starts,
            total=models * rows,
            largest=int(counts.max(initial=0)),
            graph_of_row=graph_of_row,
            index_in_graph=index_in_graph,
            slot_of_row=slot_of_row,
            device_sizes=host.to(device),
            complete=complete,
            real=None if complete else graph_of_row < len(counts),
            models=models,
        )

    @classmethod
    def on_device(cls, sizes: list[int], device_sizes: Tensor, graph_of_row: Tensor) -> Layout:
        """The layout of graphs with these sizes, given `device_sizes` [B] and `graph_of_row` [N] on the device.

        Its tables are computed on the device, without a transfer.
        """
        host, largest = torch.tensor(sizes, dtype=torch.int64), max(sizes, default=0)
        total, device = graph_of_row.shape[0], graph_of_row.device
        starts = device_sizes.cumsum(0) - device_sizes
        index = torch.arange(total, device=device) - starts.index_select(0, graph_of_row)
        return cls(
            sizes=host,
            starts=host.cumsum(0) - host,
            total=total,
            largest=largest,
            graph_of_row=graph_of_row,
            index_in_graph=index,
            slot_of_row=graph_of_row * largest + index,
            device_sizes=device_sizes,
        )

    def __len__(self) -> int:
        return self.sizes.shape[0]

    @property
    def uniform(self) -> bool:
        """Whether all graphs have the same size, so that [N, D] can be viewed as [B, N/B, D]."""
        return self.complete and self.total == len(self) * self.largest

    @property
    def max_size(self) -> int | Tensor:
        """The rows of the largest graph: a tensor if only the device knows the sizes; then `largest` may be more."""
        return self.largest

    @property
    def slots(self) -> Tensor:
        """[N] int64: `slot_of_row`, also if only the device knows the sizes."""
        return self.slot_of_row

    @cached_property
    def device_starts(self) -> Tensor:
        """[B] int64: the starts, on the device."""
        return self.starts.to(self.graph_of_row.device, non_blocking=True)

    def coarser(self, clusters: Counts) -> Layout:
        """The layout of the next level, in which graph g has as many rows as it has clusters."""
        counts = clusters.counts(self.sizes.numpy())
        return Layout.from_sizes(counts, self.graph_of_row.device, self.models)

    def to(self, device: torch.device | str) -> Layout:
        return replace(
            self,
            graph_of_row=self.graph_of_row.to(device),
            index_in_graph=self.index_in_graph.to(device),
            slot_of_row=self.slot_of_row.to(device),
            device_sizes=self.device_sizes.to(device),
            real=None if self.real is None else self.real.to(device),
        )

    def __repr__(self) -> str:
        return f"Layout({len(self)} graphs, {self.total} rows, largest {self.largest})"


@accelerated
def row_tables(sizes: Tensor, models: int, rows: int) -> tuple[Tensor, Tensor]:
    """`Layout.starts` [B], and `graph_of_row`, `index_in_graph` and `slot_of_row` as one table [3, N], on the host.

    Each model has `rows` rows, so N = M · rows.
    """
    counts, graphs, largest = sizes.numpy(), len(sizes), int(sizes.numpy().max(initial=0))
    ends = counts.reshape(models, -1).cumsum(1) + rows * np.arange(models)[:, None]
    starts = ends.reshape(-1) - counts
    graph = np.arange(graphs).repeat(counts)  # the graph of each row, without padding
    index = np.arange(len(graph)) - (counts.cumsum() - counts)[graph]
    tables = np.empty((3, models * rows), np.int64)
    tables[:] = [[graphs], [0], [graphs * largest]]  # for padding rows
    tables[:, starts[graph] + index] = graph, index, graph * largest + index
    return torch.from_numpy(starts), torch.from_numpy(tables)


def checked_sizes(sizes: Sequence[int] | np.ndarray | Tensor) -> np.ndarray:
    """Sizes as int64: [B]; a ValueError if one is negative or their sum is too large for int64."""
    counts = np.asarray(sizes).astype(np.int64)
    largest, smallest = int(counts.max(initial=0)), int(counts.min(initial=0))
    if smallest < 0:
        raise ValueError(f"expected graph sizes of at least 0, got {smallest}")
    if largest * counts.size >= 2**62 and sum(counts.tolist()) >= 2**62:
        raise ValueError(f"expected fewer than 2**62 nodes in total, got a graph with {largest}")
    return counts


def column_counts(rows: Layout, columns: Layout) -> Tensor | None:
    """The number of local columns of each row: [N]; None if all rows have W. Rows of no graph have 0."""
    return None if rows.complete and columns.uniform else row_limits(rows, columns)


def row_limits(rows: Layout, columns: Layout) -> Tensor:
    """The number of local columns of each row: [N]."""
    sizes = columns.device_sizes
    if not rows.complete:
        sizes = torch.cat([sizes, sizes.new_zeros(1)])
    return sizes.index_select(0, rows.graph_of_row)


def column_mask(rows: Layout, columns: Layout) -> Tensor | None:
    """Which local columns each row has: [N, W] bool; None if every row has all W columns."""
    count = column_counts(rows, columns)
    if count is None:
        return None
    return torch.arange(columns.largest, device=count.device) < count[:, None]
