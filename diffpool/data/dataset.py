"""A data set: all graphs as one ragged batch, with node features and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from diffpool.data.categories import Label
from diffpool.data.features import FeatureMap, Features
from diffpool.data.raw import RawGraphs
from diffpool.data.raw_checks import check_raw
from diffpool.errors import DataError
from diffpool.graphs import SparseGraphs
from diffpool.layout import Layout


@dataclass(frozen=True, eq=False, repr=False)
class Padded:
    """The graphs of a data set and one more, a single node with zero features, from which batches are drawn."""

    graphs: SparseGraphs
    x: Tensor  # [N + 1, F]

    def draw(self, numbers: Tensor, layout: Layout) -> tuple[SparseGraphs, Tensor]:
        """The graphs with these numbers, and their features. `layout` is theirs, with any padding rows."""
        graphs, nodes = self.graphs.select(numbers, layout)
        return graphs, self.x.index_select(0, nodes)


@dataclass(frozen=True, eq=False, repr=False)
class GraphBatch:
    """Some graphs of a data set, with their features and labels."""

    graphs: SparseGraphs
    x: Tensor  # [N, F]
    y: Tensor  # [B] int64, or [B, T] for regression

    def __len__(self) -> int:
        return len(self.graphs)

    def __repr__(self) -> str:
        return f"GraphBatch({self.graphs!r}, {self.x.shape[1]} features)"


@dataclass(frozen=True, eq=False, repr=False)
class GraphDataset:
    """Graphs with node features and classes (or targets for regression), stored as one ragged batch."""

    name: str
    graphs: SparseGraphs
    x: Tensor  # [N, F]
    y: Tensor  # [B] int64, from 0; or [B, T] float64 for regression
    class_names: tuple[Label, ...]  # in their original type; empty for regression
    features: str  # describes the columns of x
    feature_map: FeatureMap | None = None  # computes x
    directed: bool = False  # use edges in the given direction only
    communities: Tensor | None = None  # [N] int64, if the data set was generated from them
    weights: Tensor | None = None  # [B]: of each graph in the training loss; None: all 1

    @classmethod
    def from_raw(
        cls,
        raw: RawGraphs,
        features: str | Sequence[str] = "auto",
        edges: bool | None = False,
        directed: bool = False,
    ) -> GraphDataset:
        """Compute node features and, if `edges`, edge features (None: if the graphs have any), see `FeatureMap.choose`.

        Unless `directed`, missing reverse edges are added. Graphs with targets but without classes are for
        regression. A data set on disk stays there: see `StoredDataset`.
        """
        if raw.digest:
            from diffpool.data.stored_dataset import StoredDataset

            return StoredDataset(raw, FeatureMap.choose(raw, features, edges), directed)
        check_raw(raw)
        raw = raw if directed else raw.undirected()
        feature_map = FeatureMap.choose(raw, features, edges)
        computed = feature_map.apply(raw)
        y, names = labels_of(raw)
        return cls(
            name=raw.name,
            graphs=sparse_graphs(raw, computed),
            x=torch.from_numpy(computed.x),
            y=y,
            class_names=names,
            features=feature_map.describe(),
            feature_map=feature_map,
            directed=directed,
        )

    def __post_init__(self) -> None:
        if self.x.shape[0] != self.graphs.num_nodes:
            raise DataError(
                f"expected one row of features for each of {self.graphs.num_nodes} nodes, got {self.x.shape[0]}."
            )
        if len(self.y) != len(self.graphs):
            raise DataError(
                f"expected one label for each of {len(self.graphs)} graphs, got {len(self.y)}."
            )

    def __len__(self) -> int:
        return len(self.graphs)

    @property
    def regression(self) -> bool:
        return self.y.is_floating_point()

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @property
    def num_outputs(self) -> int:
        """Number of classes, or of targets."""
        return self.y.shape[1] if self.regression else self.num_classes

    @property
    def num_features(self) -> int:
        return self.x.shape[1]

    @property
    def sizes(self) -> np.ndarray:
        """[B] int64: number of nodes."""
        return self.graphs.layout.sizes.numpy()

    @property
    def edge_counts(self) -> np.ndarray:
        """[B] int64: number of directed edges."""
        layout, indptr = self.graphs.layout, self.graphs.adj.indptr.cpu().numpy()
        starts = layout.starts.numpy()
        counts: np.ndarray = indptr[starts + self.sizes] - indptr[starts]
        return counts

    @property
    def largest(self) -> int:
        """Number of nodes of the largest graph."""
        return int(self.sizes.max(initial=0))

    @property
    def num_nodes(self) -> int:
        return int(self.sizes.sum())

    @property
    def device(self) -> torch.device:
        return self.y.device

    @property
    def dtype(self) -> torch.dtype:
        """The type of the features."""
        return self.x.dtype

    @property
    def arrays(self) -> list[np.ndarray]:
        """Everything that a model is trained on."""
        graphs = self.graphs
        tensors: list[Tensor | None] = [graphs.layout.sizes, self.x, self.y]
        tensors += [graphs.adj.indptr, graphs.adj.indices, graphs.adj.values]
        tensors += [channel.values for channel in graphs.channels]
        tensors += [] if self.weights is None else [self.weights]
        return [np.empty(0) if t is None else t.cpu().numpy() for t in tensors]

    def padded(self) -> Padded:
        """The graphs and one more, to draw batches from."""
        return Padded(self.graphs.with_empty_graph(), F.pad(self.x, (0, 0, 0, 1)))

    def in_memory(self) -> GraphDataset:
        """The same data set with all graphs in memory."""
        return self

    def node_features(self, graphs: np.ndarray) -> Tensor:
        """The features of the nodes of these graphs: [N', F]."""
        _, nodes = self.graphs.select(graphs)
        return self.x[nodes]

    def weighted(self, weights: np.ndarray) -> GraphDataset:
        """The same data set with these weights of the graphs: [B]."""
        return replace(self, weights=torch.from_numpy(weights).to(self.device, self.dtype))

    def batch(self, graphs: Sequence[int] | np.ndarray | Tensor) -> GraphBatch:
        """The graphs with these indices, in this order."""
        chosen = torch.as_tensor(graphs, dtype=torch.int64)
        selected, nodes = self.graphs.select(chosen)
        return GraphBatch(selected, self.x[nodes], self.y[chosen.to(self.y.device)])

    def as_raw(self) -> RawGraphs:
        """The graphs with their features as node attributes, without classes or targets."""
        adj = self.graphs.adj
        return RawGraphs(
            name=self.name,
            sizes=self.graphs.layout.sizes.numpy(),
            indptr=adj.indptr.cpu().numpy().astype(np.int64),
            source=adj.indices.cpu().numpy().astype(np.int64),
            directed=self.graphs.adj_t is not adj,
            edge_weights=None if adj.values is None else adj.values.cpu().double().numpy(),
            node_attributes=self.x.cpu().double().numpy(),
        )

    def to(self, device: torch.device | str) -> GraphDataset:
        weights = None if self.weights is None else self.weights.to(device)
        graphs, x, y = self.graphs.to(device), self.x.to(device), self.y.to(device)
        return replace(self, graphs=graphs, x=x, y=y, weights=weights)

    def __repr__(self) -> str:
        what = f"{self.num_outputs} targets" if self.regression else f"{self.num_classes} classes"
        return (
            f"GraphDataset({self.name}: {len(self)} graphs, {what}, "
            f"{self.num_features} features ({self.features}))"
        )


def labels_of(raw: RawGraphs) -> tuple[Tensor, tuple[Label, ...]]:
    """The classes [B] and their names, or the targets [B, T] and no names."""
    if raw.classes is not None:
        return torch.from_numpy(raw.classes.codes[:, 0].astype(np.int64)), raw.classes.labels()
    if raw.targets is not None:
        return torch.from_numpy(np.array(raw.targets)), ()
    raise DataError(
        f"{raw.name}: the graphs have neither classes nor targets. Training needs one of them."
    )


def sparse_graphs(raw: RawGraphs, features: Features) -> SparseGraphs:
    """The graphs as a batch, with edge features."""
    symmetric = None if raw.directed else True
    return SparseGraphs.from_csr(
        raw.sizes, raw.indptr, raw.source, raw.edge_weights, features.edges, symmetric
    )
