"""A data set: all graphs as one ragged batch, with node features and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from diffpool.data.categories import Label
from diffpool.data.features import FeatureMap, Features
from diffpool.data.raw import RawGraphs
from diffpool.data.raw_checks import check_raw
from diffpool.errors import DataError
from diffpool.graphs import SparseGraphs


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
        regression.
        """
        check_raw(raw)
        raw = raw if directed else raw.undirected()
        feature_map = FeatureMap.choose(raw, features, edges)
        computed = feature_map.apply(raw)
        if raw.classes is not None:
            y, names = (
                torch.from_numpy(raw.classes.codes[:, 0].astype(np.int64)),
                raw.classes.labels(),
            )
        elif raw.targets is not None:
            y, names = torch.from_numpy(raw.targets), ()
        else:
            raise DataError(
                f"{raw.name}: the graphs have neither classes nor targets. Training needs one of them."
            )
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
    def largest(self) -> int:
        """Number of nodes of the largest graph."""
        return self.graphs.layout.largest

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


def sparse_graphs(raw: RawGraphs, features: Features) -> SparseGraphs:
    """The graphs as a batch, with edge features."""
    symmetric = None if raw.directed else True
    return SparseGraphs.from_csr(
        raw.sizes, raw.indptr, raw.source, raw.edge_weights, features.edges, symmetric
    )
