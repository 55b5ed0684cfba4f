"""A data set on disk, ready for training: batches are read when they are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from diffpool.data.dataset import GraphBatch, GraphDataset, Padded, labels_of, sparse_graphs
from diffpool.data.features import FeatureMap
from diffpool.data.raw import RawGraphs
from diffpool.graphs import SparseGraphs
from diffpool.layout import Layout


class StoredDataset(GraphDataset):
    """Graphs of `read_stored`. In memory are the sizes and labels of the graphs; features are computed batch by batch.

    Batches are equal to those of the same graphs in memory. `graphs` and `x`, which training does not use, load
    everything.
    """

    raw: RawGraphs

    def __init__(
        self,
        raw: RawGraphs,
        feature_map: FeatureMap,
        directed: bool = False,
        device: torch.device | str = "cpu",
        weights: Tensor | None = None,
    ):
        y, names = labels_of(raw)
        values: dict[str, Any] = {
            "raw": replace(raw, sizes=np.array(raw.sizes), columns={}),
            "starts": raw.starts,
            "name": raw.name,
            "y": y.to(device),
            "class_names": names,
            "features": feature_map.describe(),
            "feature_map": feature_map,
            "directed": directed,
            "weights": None if weights is None else weights.to(device),
        }
        self.__dict__.update(values)  # the base class is frozen

    @property
    def sizes(self) -> np.ndarray:
        return self.raw.sizes

    @property
    def edge_counts(self) -> np.ndarray:
        """[B] int64: number of directed edges on disk; reverse edges that training adds are not counted."""
        return self.raw.edge_counts

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32

    @property
    def num_features(self) -> int:
        assert self.feature_map is not None
        return self.feature_map.num_features

    def __len__(self) -> int:
        return len(self.raw)

    def read(self, graphs: np.ndarray | Tensor | Sequence[int]) -> tuple[SparseGraphs, Tensor]:
        """The graphs with these numbers, on the host, and their features [N', F]."""
        assert self.feature_map is not None
        raw = self._select(graphs)
        computed = self.feature_map.apply(raw)
        return sparse_graphs(raw, computed), torch.from_numpy(computed.x)

    def _select(self, graphs: np.ndarray | Tensor | Sequence[int]) -> RawGraphs:
        raw = self.raw.select(np.asarray(graphs), self.__dict__["starts"])
        return raw if self.directed else raw.undirected()

    def node_features(self, graphs: np.ndarray) -> Tensor:
        assert self.feature_map is not None
        return torch.from_numpy(self.feature_map.apply(self._select(graphs)).x).to(self.device)

    def batch(self, graphs: Sequence[int] | np.ndarray | Tensor) -> GraphBatch:
        chosen = torch.as_tensor(graphs, dtype=torch.int64).cpu()
        found, x = self.read(chosen)
        y = self.y[chosen.to(self.device)]
        return GraphBatch(found.to(self.device), x.to(self.device), y)

    def padded(self) -> Padded:
        graphs, x = self.read([])
        device = self.device
        padding = graphs.with_empty_graph().to(device), F.pad(x, (0, 0, 0, 1)).to(device)
        return _StoredPadded(*padding, self)

    @cached_property
    def _loaded(self) -> GraphDataset:
        graphs, x = self.read(np.arange(len(self)))
        loaded = GraphDataset(
            self.name,
            graphs,
            x,
            self.y.cpu(),
            self.class_names,
            self.features,
            self.feature_map,
            self.directed,
            weights=self.weights,
        )
        return loaded.to(self.device)

    def in_memory(self) -> GraphDataset:
        return self._loaded

    @property
    def graphs(self) -> SparseGraphs:
        return self._loaded.graphs

    @property
    def x(self) -> Tensor:
        return self._loaded.x

    @property
    def arrays(self) -> list[np.ndarray]:
        about = f"{self.raw.digest} {self.feature_map} {self.directed}"
        weights = [] if self.weights is None else [self.weights.cpu().numpy()]
        return [np.frombuffer(about.encode(), np.uint8), self.y.cpu().numpy(), *weights]

    def weighted(self, weights: np.ndarray) -> GraphDataset:
        given = torch.from_numpy(weights).to(self.device, self.dtype)
        return self._with(self.device, given)

    def to(self, device: torch.device | str) -> GraphDataset:
        return self._with(device, self.weights)

    def _with(self, device: torch.device | str, weights: Tensor | None) -> StoredDataset:
        assert self.feature_map is not None
        return StoredDataset(self.raw, self.feature_map, self.directed, device, weights)


@dataclass(frozen=True, eq=False, repr=False)
class _StoredPadded(Padded):
    """`graphs` and `x` are only the additional graph; the others are read from disk."""

    dataset: StoredDataset

    def draw(self, numbers: Tensor, layout: Layout) -> tuple[SparseGraphs, Tensor]:
        real = numbers < len(self.dataset)
        graphs, x = self.dataset.read(numbers[real])
        if not layout.complete or not bool(real.all()):
            position = torch.where(real, real.cumsum(0) - 1, len(graphs))
            graphs, nodes = graphs.with_empty_graph().select(position, layout.to("cpu"))
            x = F.pad(x, (0, 0, 0, 1)).index_select(0, nodes)
        device = self.dataset.device
        return replace(graphs.to(device), layout=layout), x.to(device)
