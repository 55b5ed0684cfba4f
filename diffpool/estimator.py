"""Estimators in scikit-learn's manner: `fit`, `predict`, `predict_proba`, `score`, on graphs in any form.

Graphs are a list of PyTorch Geometric, NetworkX or SciPy graphs, a PyG data set, or `RawGraphs` (`diffpool.read_graphs`
reads files). They work in `cross_val_score`, `GridSearchCV` and pipelines.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from diffpool.data import Fold, GraphDataset, RawGraphs, as_raw, single_split
from diffpool.errors import DataError, SettingError
from diffpool.experiments import fit, settings_for
from diffpool.training import Epoch, TrainedModel

# Settings of a method that an estimator may change; None leaves them alone.
SETTINGS = (
    "epochs",
    "patience",
    "learning_rate",
    "weight_decay",
    "dropout",
    "batch_size",
    "hidden",
    "poolings",
    "ratio",
    "num_clusters",
    "conv",
    "readout",
    "link_weight",
    "entropy_weight",
)


class _Estimator(BaseEstimator):
    """What the classifier and the regressor share."""

    def __init__(
        self,
        method: str = "diffpool",
        *,
        features: str = "auto",
        edge_features: bool = False,
        epochs: int | None = None,
        patience: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        dropout: float | None = None,
        batch_size: int | None = None,
        hidden: int | None = None,
        poolings: int | None = None,
        ratio: float | None = None,
        num_clusters: str | tuple[int, ...] | None = None,
        conv: str | None = None,
        readout: str | None = None,
        link_weight: float | None = None,
        entropy_weight: float | None = None,
        validation: float = 0.1,
        seed: int = 0,
        device: str = "cpu",
        verbose: bool = False,
    ):
        self.method = method
        self.features = features
        self.edge_features = edge_features
        self.epochs = epochs
        self.patience = patience
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.batch_size = batch_size
        self.hidden = hidden
        self.poolings = poolings
        self.ratio = ratio
        self.num_clusters = num_clusters
        self.conv = conv
        self.readout = readout
        self.link_weight = link_weight
        self.entropy_weight = entropy_weight
        self.validation = validation
        self.seed = seed
        self.device = device
        self.verbose = verbose

    def _fit(self, raw: RawGraphs) -> Self:
        if not 0 < self.validation < 1:
            raise SettingError(
                f"expected a share of graphs for validation, above 0 and below 1, got {self.validation}"
            )
        changes = {name: getattr(self, name) for name in SETTINGS}
        changes["clusters"] = changes.pop("num_clusters")
        given = {name: value for name, value in changes.items() if value is not None}
        if self.edge_features:
            given.setdefault("conv", "edge-sage")
        method = settings_for(self.method, raw.name, seed=self.seed, **given)
        edges = method.architecture.edges
        dataset = GraphDataset.from_raw(raw, self.features, edges).to(self.device)
        outcome = fit(method, dataset, self._fold(dataset), watch=self._watch)
        self.model_: TrainedModel = outcome.trained
        self.history_: tuple[Epoch, ...] = outcome.epochs
        self.n_features_in_ = dataset.num_features
        return self

    def _fold(self, dataset: GraphDataset) -> Fold:
        """Some graphs choose the epoch; with too few of them all do."""
        try:
            return single_split(dataset.y.cpu(), self.seed, self.validation, test=0)
        except DataError:
            everything = np.arange(len(dataset))
            return Fold(everything, everything, everything[:0])

    def _watch(self, row: Epoch) -> None:
        if self.verbose:
            print(
                f"epoch {row.epoch}: loss {row.train_class_loss:.4f}, validation {row.validation_loss:.4f}"
                + (" *" if row.best else "")
            )

    def clusters(self, graphs: Any) -> list[list[np.ndarray]]:
        """The assignments of each graph, one matrix [nodes, clusters] for each pooling."""
        check_is_fitted(self)
        return self.model_.clusters(graphs)

    def save(self, directory: str | Path) -> None:
        """Write a model directory, which `diffpool.load_model` and `diffpool predict` read."""
        check_is_fitted(self)
        self.model_.save(directory)


class DiffPoolClassifier(ClassifierMixin, _Estimator):
    """A graph classifier.

    Args:
        method: a name of `diffpool train --method`.
        features: parts of X joined by commas, or "auto"; see `diffpool.data.features`.
        edge_features: use edge labels and attributes too, by the convolution edge-sage.
        epochs … entropy_weight: settings in place of the method's own; `num_clusters` is "graph", "dataset" or numbers.
        validation: the share of the graphs that chooses the epoch.
        seed: of the split, the parameters and the batches.
        device: cpu or cuda.
        verbose: print a line for each epoch.

    After `fit`: `classes_`, `model_` (a `TrainedModel`), `history_` (one row for each epoch).
    """

    def fit(self, graphs: Any, y: Any = None) -> Self:
        """Train; `y` has a class for each graph, unless the graphs carry their own."""
        raw = as_raw(graphs, _classes(y))
        if raw.classes is None:
            raise DataError("expected a class for every graph, got none: give them as y")
        names = np.array(raw.classes.names[0])
        given = names if y is None else np.unique(np.asarray(y))
        place = {str(value): value for value in given.tolist()}
        self._fit(raw)
        self.classes_: np.ndarray = np.array([place[name] for name in self.model_.card.class_names])
        return self

    def predict(self, graphs: Any) -> np.ndarray:
        """The class of each graph: [B]."""
        best = self.predict_proba(graphs).argmax(1)
        return self.classes_[best]

    def predict_proba(self, graphs: Any) -> np.ndarray:
        """The probability of each class of `classes_`: [B, K]."""
        check_is_fitted(self)
        return self.model_.predict_proba(graphs)

    def score(self, graphs: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy, from 0 to 1."""
        found = self.predict(graphs)
        if y is None:
            raw = as_raw(graphs)
            if raw.classes is None:
                raise DataError("expected a class for every graph, got none: give them as y")
            y, found = raw.classes.words(), np.array([str(c) for c in found])
        return float(accuracy_score(y, found, sample_weight=sample_weight))


class DiffPoolRegressor(RegressorMixin, _Estimator):
    """A regressor of one or more numbers for each graph; arguments as for `DiffPoolClassifier`."""

    def fit(self, graphs: Any, y: Any = None) -> Self:
        """Train; `y` [B] or [B, T] has the numbers of each graph, unless the graphs carry their own."""
        raw = as_raw(graphs, None if y is None else np.asarray(y, dtype=np.float64))
        if raw.targets is None:
            raise DataError("expected a target for every graph, got none: give them as y")
        return self._fit(replace(raw, classes=None))

    def predict(self, graphs: Any) -> np.ndarray:
        """The numbers of each graph: [B], or [B, T] if there are several."""
        check_is_fitted(self)
        return self.model_.predict(graphs)

    def score(self, graphs: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The coefficient of determination R²."""
        if y is None:
            y = as_raw(graphs).targets
            if y is None:
                raise DataError("expected a target for every graph, got none: give them as y")
        return float(r2_score(y, self.predict(graphs), sample_weight=sample_weight))


def _classes(y: Any) -> np.ndarray | None:
    """Classes as an array; whole floats are the names of classes too, as elsewhere in scikit-learn."""
    if y is None:
        return None
    values = np.asarray(y.cpu() if isinstance(y, torch.Tensor) else y)
    if values.ndim == 1 and np.issubdtype(values.dtype, np.floating):
        return np.array([str(v) for v in values.tolist()])
    return values
