"""Estimators for scikit-learn: `fit`, `predict`, `predict_proba` and `score` on graphs in any form.

Graphs are a list of PyTorch Geometric, NetworkX or SciPy graphs, a PyG data set, or `RawGraphs` (`diffpool.read_graphs`
reads files). The estimators work in `cross_val_score`, `GridSearchCV` and pipelines.
"""

from __future__ import annotations

import inspect
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from diffpool.data import Fold, GraphDataset, RawGraphs, as_raw, single_split
from diffpool.errors import DataError, SettingError
from diffpool.experiments import fit, settings_for
from diffpool.experiments.methods import METHOD_SETTINGS, default_text
from diffpool.training import Epoch, TrainedModel

# The parameter of each setting. An estimator has a method `clusters`, and `seed` is declared by `__init__`.
PARAMETERS = {
    "num_clusters" if name == "clusters" else name: setting
    for name, setting in METHOD_SETTINGS.items()
    if name != "seed"
}


class _Estimator(BaseEstimator):
    """The common part of the classifier and the regressor."""

    def __init__(
        self,
        method: str = "diffpool",
        *,
        features: str = "auto",
        edge_features: bool = False,
        directed: bool = False,
        validation: float = 0.1,
        seed: int = 0,
        device: str = "cpu",
        verbose: bool = False,
        **settings: Any,
    ):
        if unknown := sorted(settings.keys() - PARAMETERS):
            raise TypeError(
                f"{type(self).__name__}() got an unexpected keyword argument {unknown[0]!r}"
            )
        self.method = method
        self.features = features
        self.edge_features = edge_features
        self.directed = directed
        self.validation = validation
        self.seed = seed
        self.device = device
        self.verbose = verbose
        for name in PARAMETERS:
            setattr(self, name, settings.get(name))

    def _fit(self, raw: RawGraphs) -> Self:
        if not 0 < self.validation < 1:
            raise SettingError(
                f"expected validation, a fraction of the graphs, above 0 and below 1, got {self.validation}"
            )
        values = {setting.name: getattr(self, name) for name, setting in PARAMETERS.items()}
        changes = {name: value for name, value in values.items() if value is not None}
        if self.edge_features:
            changes.setdefault("conv", "edge-sage")
        method = settings_for(self.method, raw.name, seed=self.seed, **changes)
        edges = method.architecture.edges
        dataset = GraphDataset.from_raw(raw, self.features, edges, self.directed).to(self.device)
        outcome = fit(method, dataset, self._fold(dataset), watch=self._watch)
        self.model_: TrainedModel = outcome.trained
        self.history_: tuple[Epoch, ...] = outcome.epochs
        self.n_features_in_ = dataset.num_features
        return self

    def _fold(self, dataset: GraphDataset) -> Fold:
        """The training and validation graphs; with too few graphs, both are all graphs."""
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
        """The assignment matrices of each graph: one [nodes, clusters] for each pooling."""
        check_is_fitted(self)
        return self.model_.clusters(graphs)

    def save(self, directory: str | Path) -> None:
        """Write a model directory, which `diffpool.load_model` and `diffpool predict` read."""
        check_is_fitted(self)
        self.model_.save(directory)


def _with_settings_in_signature(init: Any) -> inspect.Signature:
    """The signature of `__init__` with a keyword for each setting: scikit-learn reads the parameters from it."""
    parameters = dict(inspect.signature(init).parameters)
    del parameters["settings"]
    for name, setting in PARAMETERS.items():
        parameters[name] = inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=setting.type | None
        )
    return inspect.Signature(list(parameters.values()))


_Estimator.__init__.__signature__ = _with_settings_in_signature(_Estimator.__init__)  # type: ignore[attr-defined]

_E = TypeVar("_E", bound=type[_Estimator])


def _with_settings_in_docs(estimator: _E) -> _E:
    """Replace `{settings}` in the docstring by a line for each setting."""
    lines = []
    for name, setting in PARAMETERS.items():
        text = f"{name}: {setting.help} Default: {default_text(setting)}."
        lines += textwrap.wrap(text, 104, subsequent_indent=" " * 4, break_on_hyphens=False)
    if estimator.__doc__:  # there are none under `python -OO`
        estimator.__doc__ = estimator.__doc__.replace(
            "        {settings}", textwrap.indent("\n".join(lines), " " * 8)
        )
    return estimator


@_with_settings_in_docs
class DiffPoolClassifier(ClassifierMixin, _Estimator):
    """A graph classifier.

    Every setting of the method is a keyword argument; None, the default, leaves it to the method and the data set.

    Args:
        method: The name of a method, as in `diffpool train --method`.
        features: Node features separated by commas, or "auto"; see `diffpool.data.features`.
        edge_features: Use edge labels and attributes, with the convolution edge-sage unless `conv` is given.
        directed: Use edges in the given direction only.
        validation: Fraction of the graphs used to choose the best epoch.
        seed: Random seed for the split, the initial parameters, the batches and dropout.
        device: "cpu" or "cuda".
        verbose: Print a line for each epoch.
        {settings}

    Attributes:
        classes_: The classes, in the order of the columns of `predict_proba`.
        model_: The `TrainedModel`.
        history_: An `Epoch` for each epoch.
    """

    def fit(self, graphs: Any, y: Any = None) -> Self:
        """Train on graphs with the classes `y`, which may be omitted if the graphs contain their classes."""
        raw = as_raw(graphs, _classes(y))
        if raw.classes is None:
            raise DataError("expected a class for every graph, got none: pass them as y")
        given = np.array(raw.classes.names[0]) if y is None else np.unique(np.asarray(y))
        value_of = {str(value): value for value in given.tolist()}
        self._fit(raw)
        names = self.model_.card.class_names
        self.classes_: np.ndarray = np.array([value_of[name] for name in names])
        return self

    def predict(self, graphs: Any) -> np.ndarray:
        """The class of each graph: [B]."""
        best = self.predict_proba(graphs).argmax(1)
        return self.classes_[best]

    def predict_proba(self, graphs: Any) -> np.ndarray:
        """The probability of each class in `classes_`: [B, C]."""
        check_is_fitted(self)
        return self.model_.predict_proba(graphs)

    def score(self, graphs: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy, from 0 to 1."""
        found = self.predict(graphs)
        if y is None:
            raw = as_raw(graphs)
            if raw.classes is None:
                raise DataError("expected a class for every graph, got none: pass them as y")
            y, found = raw.classes.words(), np.array([str(c) for c in found])
        return float(accuracy_score(y, found, sample_weight=sample_weight))


@_with_settings_in_docs
class DiffPoolRegressor(RegressorMixin, _Estimator):
    """A regressor of one or more targets for each graph.

    Every setting of the method is a keyword argument; None, the default, leaves it to the method and the data set.

    Args:
        method, features, edge_features, directed, validation, seed, device, verbose: See `DiffPoolClassifier`.
        {settings}

    Attributes:
        model_: The `TrainedModel`.
        history_: An `Epoch` for each epoch.
    """

    def fit(self, graphs: Any, y: Any = None) -> Self:
        """Train on graphs with the targets `y` [B] or [B, T], which may be omitted if the graphs contain them."""
        raw = as_raw(graphs, None if y is None else np.asarray(y, dtype=np.float64))
        if raw.targets is None:
            raise DataError("expected a target for every graph, got none: pass them as y")
        return self._fit(replace(raw, classes=None))

    def predict(self, graphs: Any) -> np.ndarray:
        """The targets of each graph: [B], or [B, T] for several targets."""
        check_is_fitted(self)
        return self.model_.predict(graphs)

    def score(self, graphs: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The coefficient of determination R²."""
        if y is None:
            y = as_raw(graphs).targets
            if y is None:
                raise DataError("expected a target for every graph, got none: pass them as y")
        return float(r2_score(y, self.predict(graphs), sample_weight=sample_weight))


def _classes(y: Any) -> np.ndarray | None:
    """Classes as an array; floats are names of classes, as in scikit-learn."""
    if y is None:
        return None
    values = np.asarray(y.cpu() if isinstance(y, torch.Tensor) else y)
    if np.ma.is_masked(y):
        raise DataError(
            "y: expected no masked values, got some. Fill them, or leave these graphs out."
        )
    if values.ndim == 1 and np.issubdtype(values.dtype, np.floating):
        if not np.isfinite(values).all():
            graph = int(np.flatnonzero(~np.isfinite(values))[0])
            raise DataError(
                f"graph {graph}: expected a class, got {values[graph]}. Leave graphs without a class out."
            )
        return np.array([str(v) for v in values.tolist()])
    return values
