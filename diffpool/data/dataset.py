"""A data set of graphs: one big ragged batch, plus labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from diffpool.errors import DataError
from diffpool.graphs import SparseGraphs


@dataclass(frozen=True, eq=False, repr=False)
class GraphBatch:
    """Some graphs of a data set with their features and labels."""

    graphs: SparseGraphs
    x: Tensor  # [N, F]
    y: Tensor  # [B] int64

    def __len__(self) -> int:
        return len(self.graphs)

    def __repr__(self) -> str:
        return f"GraphBatch({self.graphs!r}, {self.x.shape[1]} features)"


@dataclass(frozen=True, eq=False, repr=False)
class GraphDataset:
    """Graphs with node features and class labels, kept as one ragged batch."""

    name: str
    graphs: SparseGraphs
    x: Tensor  # [N, F]
    y: Tensor  # [B] int64, from 0
    class_names: tuple[str, ...]
    features: str  # what the columns of x are
    communities: Tensor | None = None  # [N] int64, where the data set was generated with known ones

    def __post_init__(self) -> None:
        if self.x.shape[0] != self.graphs.num_nodes:
            raise DataError(
                f"expected one row of features for each of {self.graphs.num_nodes} nodes, got {self.x.shape[0]}"
            )
        if len(self.y) != len(self.graphs):
            raise DataError(
                f"expected one label for each of {len(self.graphs)} graphs, got {len(self.y)}"
            )

    def __len__(self) -> int:
        return len(self.graphs)

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @property
    def num_features(self) -> int:
        return self.x.shape[1]

    @property
    def largest(self) -> int:
        """Nodes of the largest graph."""
        return self.graphs.layout.largest

    def batch(self, graphs: Sequence[int] | np.ndarray | Tensor) -> GraphBatch:
        """These graphs in this order."""
        chosen = torch.as_tensor(graphs, dtype=torch.int64)
        selected, nodes = self.graphs.select(chosen)
        return GraphBatch(selected, self.x[nodes], self.y[chosen.to(self.y.device)])

    def batches(
        self, graphs: np.ndarray, size: int, shuffle: np.random.Generator | None = None
    ) -> Iterator[GraphBatch]:
        """All these graphs in batches of `size`, the last one smaller; in random order with `shuffle`."""
        order = graphs if shuffle is None else shuffle.permutation(graphs)
        for start in range(0, len(order), size):
            yield self.batch(order[start : start + size])

    def to(self, device: torch.device | str) -> GraphDataset:
        return replace(
            self, graphs=self.graphs.to(device), x=self.x.to(device), y=self.y.to(device)
        )

    def __repr__(self) -> str:
        return (
            f"GraphDataset({self.name}: {len(self)} graphs, {self.num_classes} classes, "
            f"{self.num_features} features ({self.features}))"
        )
