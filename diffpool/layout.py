"""Which rows of a batch belong to which graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class Layout:
    """The division of N rows among B graphs: graph g has `sizes[g]` consecutive rows, starting at `starts[g]`.

    `sizes` stays on the host, so that shapes and loops are planned without synchronization. If several models are
    trained side by side, each has the same number of rows; the last rows of a model may belong to no graph.
    """

    sizes: Tensor  # [B] int64, on the host
    starts: Tensor  # [B] int64, on the host
    total: int  # N
    largest: int
    graph_of_row: Tensor  # [N] int64, on the device; B for rows of no graph
    index_in_graph: Tensor  # [N] int64, on the device: 0 for the first row of each graph
    # [N] int64, on the device: the row if all graphs were padded to the largest; B · largest for rows of no graph
    slot_of_row: Tensor
    device_sizes: Tensor  # [B] int64: the sizes, on the device
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
        counts = np.asarray(sizes).astype(np.int64)
        largest = int(counts.max(initial=0))
        by_model = counts.reshape(models, -1) if models > 1 else counts[None]
        rows = int(by_model.sum(1).max(initial=0))  # per model
        starts = np.cumsum(by_model, 1) - by_model + rows * np.arange(len(by_model))[:, None]
        starts = starts.reshape(-1)
        if models == 1:
            graph_of_row = np.repeat(np.arange(len(counts)), counts)
            index_in_graph = np.arange(rows) - starts[graph_of_row]
        else:
            graph_of_row = np.full(models * rows, len(counts))
            index_in_graph = np.zeros(models * rows, np.int64)
            graph = np.repeat(np.arange(len(counts)), counts)
            index = np.arange(len(graph)) - np.repeat(np.cumsum(counts) - counts, counts)
            owned = starts[graph] + index
            graph_of_row[owned], index_in_graph[owned] = graph, index
        slot_of_row = graph_of_row * largest + index_in_graph
        # stacked: one transfer instead of three
        rows_table = np.stack([graph_of_row, index_in_graph, slot_of_row])
        on_device = torch.from_numpy(rows_table).to(device)
        complete = int(counts.sum()) == models * rows
        host = torch.from_numpy(counts)
        return cls(
            sizes=host,
            starts=torch.from_numpy(starts),
            total=models * rows,
            largest=largest,
            graph_of_row=on_device[0],
            index_in_graph=on_device[1],
            slot_of_row=on_device[2],
            device_sizes=host.to(device),
            complete=complete,
            real=None if complete else on_device[0] < len(counts),
            models=models,
        )

    def __len__(self) -> int:
        return self.sizes.shape[0]

    @property
    def uniform(self) -> bool:
        """Whether all graphs have the same size, so that [N, D] can be viewed as [B, N/B, D]."""
        return self.total == len(self) * self.largest

    @cached_property
    def used(self) -> np.ndarray:
        """[M] int64: the number of rows of each model that belong to graphs; these come first."""
        return self.sizes.numpy().reshape(self.models, -1).sum(1)

    @cached_property
    def device_starts(self) -> Tensor:
        """[B] int64: the starts, on the device."""
        return self.starts.to(self.graph_of_row.device)

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


def column_counts(rows: Layout, columns: Layout) -> Tensor | None:
    """The number of local columns of each row: [N]; None if all rows have W. Rows of no graph have 0."""
    return None if rows.complete and columns.uniform else row_limits(rows, columns)


def row_limits(rows: Layout, columns: Layout) -> Tensor:
    """The number of local columns of each row: [N]."""
    sizes = columns.device_sizes
    if not rows.complete:
        sizes = torch.cat([sizes, sizes.new_zeros(1)])
    return sizes[rows.graph_of_row]


def column_mask(rows: Layout, columns: Layout) -> Tensor | None:
    """Which local columns each row has: [N, W] bool; None if every row has all W columns."""
    count = column_counts(rows, columns)
    if count is None:
        return None
    return torch.arange(columns.largest, device=count.device) < count[:, None]
