"""Scikit-learn estimators: `fit`, `predict`, `predict_proba`, `transform` and `score` on graphs in any format.

Graphs are a list of PyTorch Geometric, NetworkX or SciPy graphs or of SMILES, a PyG data set, or `RawGraphs`
(`diffpool.read_graphs` reads files). The estimators work in `cross_val_score`, `GridSearchCV` and pipelines.
Meta-estimators that require a two-dimensional array, such as `BaggingClassifier`, take
`diffpool.data.as_column(graphs)`.
"""

from __future__ import annotations

import inspect
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from diffpool.data import Fold, GraphDataset, RawGraphs, as_raw, hold_out, single_split
from diffpool.data.categories import label_array
from diffpool.data.convert.values import as_array, check_count, given_classes, given_targets
from diffpool.errors import DataError, SettingError
from diffpool.experiments import fit, settings_for, trivial_pooling
from diffpool.experiments.advice import check_classes
from diffpool.experiments.methods import METHOD_SETTINGS, Method, default_text
from diffpool.training import Callback, Epoch, TrainedModel
from diffpool.training.devices import select_device

# The setting of each parameter. `clusters` is already the name of a method, and `__init__` declares `seed`.
PARAMETERS = {
    "num_clusters" if name == "clusters" else name: setting
    for name, setting in METHOD_SETTINGS.items()
    if name != "seed"
}


MIN_SPLIT = 3  # graphs; fewer are used both for training and for validation


class _Estimator(BaseEstimator):
    """The common part of the classifier and the regressor."""

    def __init__(
        self,
        method: str = "diffpool",
        *,
        features: str = "auto",
        edge_features: bool = False,
        directed: bool = False,
        node_attributes: Sequence[str] | None = None,
        edge_attributes: Sequence[str] | None = None,
        validation: float = 0.1,
        seed: int = 0,
        random_state: int | np.random.RandomState | None = None,
        device: str = "auto",
        verbose: bool = False,
        callbacks: Sequence[Callback] = (),
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
        self.node_attributes = node_attributes
        self.edge_attributes = edge_attributes
        self.validation = validation
        self.seed = seed
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks
        for name in PARAMETERS:
            setattr(self, name, settings.get(name))

    def _raw(self, graphs: Any, y: Any = None) -> RawGraphs:
        """The graphs, with the chosen attributes."""
        return as_raw(
            graphs, y, node_attributes=self.node_attributes, edge_attributes=self.edge_attributes
        )

    def _with_classes(self, graphs: Any, y: Any) -> RawGraphs:
        """The graphs with the classes `y`, or with their own. Floats in `y` are classes, as in scikit-learn."""
        values = None if y is None else given_classes(y)
        floats = values is not None and all(type(value) is float for value in values)
        raw = self._raw(graphs, list(map(str, values)) if values and floats else values)
        if raw.classes is None:
            raise DataError("expected a class for every graph, got none: pass the classes as y")
        return replace(raw, classes=replace(raw.classes, type="float")) if floats else raw

    def _fit(self, raw: RawGraphs, sample_weight: Any, graphs: Any) -> Self:
        share = self.validation
        if isinstance(share, bool) or not isinstance(share, Real) or not 0 < share < 1:
            raise SettingError(
                f"expected validation, a fraction of the graphs, above 0 and below 1, got {share!r}"
            )
        values = {setting.name: getattr(self, name) for name, setting in PARAMETERS.items()}
        changes = {name: value for name, value in values.items() if value is not None}
        if self.edge_features:
            changes.setdefault("conv", "edge-sage")
        method = settings_for(self.method, raw.name, seed=self._seed(), **changes)
        weights = None if sample_weight is None else _weights(sample_weight, len(raw))
        if (
            weights is not None and not weights.all()
        ):  # otherwise, all validation graphs could have weight 0
            raw, weights = raw[weights > 0], weights[weights > 0]
        edges, device = method.architecture.edges, select_device(self.device)
        dataset = GraphDataset.from_raw(raw, self.features, edges, self.directed).to(device)
        if message := trivial_pooling(method.architecture, dataset):
            warnings.warn(message, stacklevel=3)
        if weights is not None:
            dataset = dataset.weighted(weights)
        self._train(method, dataset)
        self.__dict__.pop("n_features_in_", None)  # left by an earlier fit
        if isinstance(graphs, np.ndarray) and graphs.dtype == object and graphs.ndim == 2:
            self.n_features_in_ = graphs.shape[1]  # a list of graphs has no columns
        return self

    def _train(self, method: Method, dataset: GraphDataset) -> None:
        fold = self._fold(dataset, method.training.seed)
        outcome = fit(method, dataset, fold, callbacks=[self._watch, *self.callbacks])
        self.model_: TrainedModel = outcome.trained
        self.history_: tuple[Epoch, ...] = outcome.epochs

    def _seed(self) -> int:
        """`random_state` if it is given, otherwise `seed`."""
        if self.random_state is None:
            return self.seed
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(2**31 - 1))
        return self.random_state

    def _fold(self, dataset: GraphDataset, seed: int) -> Fold:
        """The training and validation graphs; with fewer than MIN_SPLIT graphs, both are all graphs."""
        graphs, y = np.arange(len(dataset)), dataset.y.cpu().numpy()
        if len(graphs) < MIN_SPLIT:
            warnings.warn(
                f"{len(graphs)} graphs are too few to hold some out for validation: all of them are used for training "
                "and to choose the best epoch",
                stacklevel=4,
            )
            return Fold(graphs, graphs, graphs[:0])
        try:
            return single_split(y, seed, self.validation, test=0)
        except (
            DataError
        ):  # a class has a single graph, or there are more classes than validation graphs
            groups = np.zeros(len(y), np.int64) if dataset.regression else y
            common = graphs[
                np.bincount(groups)[groups] > 1
            ]  # the only graph of a class is for training
            common = common if len(common) >= MIN_SPLIT else graphs
            _, validation = hold_out(common, groups, seed, self.validation)
            return Fold(np.setdiff1d(graphs, validation), validation, graphs[:0])

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

    def transform(self, graphs: Any) -> np.ndarray:
        """The embedding of each graph, the input of the output layers: [B, D]."""
        check_is_fitted(self)
        return self.model_.embed(graphs)

    def save(self, directory: str | Path, overwrite: bool = True) -> None:
        """Write a model directory, which `diffpool.load_model` and `diffpool predict` read.

        An existing model is replaced; with `overwrite=False` it raises an error.
        """
        check_is_fitted(self)
        self.model_.save(directory, overwrite)


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
    """Replace `{settings}` in the docstring with a line for each setting."""
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
        features: Comma-separated node features, or "auto"; see `diffpool.data.features`.
        edge_features: Whether to use edge labels and attributes; uses the convolution edge-sage unless `conv` is given.
        directed: Whether to use edges in the given direction only.
        node_attributes, edge_attributes: Attributes of NetworkX graphs to use, by default all of them, or tensors of
            PyTorch Geometric's Data, by default `x` and `edge_attr`.
        validation: Fraction of the graphs used to choose the best epoch.
        seed: Random seed for the split, the initial parameters, the batches and dropout.
        random_state: An int or `RandomState` that replaces `seed`. Meta-estimators such as `BaggingClassifier` use it.
        device: "cpu", "cuda", or "auto", which uses CUDA if available.
        verbose: Whether to print a line for each epoch.
        callbacks: Functions that are called with the `Epoch` after every epoch and may raise
            `diffpool.training.StopTraining`; see docs/logging.md.
        {settings}

    Attributes:
        classes_: The classes, in the order of the columns of `predict_proba`.
        model_: The `TrainedModel`.
        history_: An `Epoch` for each epoch.
    """

    def fit(self, graphs: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train on graphs with the classes `y`, which may be omitted if the graphs contain their classes.

        `sample_weight` [B] multiplies the loss of each graph, in training and for the choice of the best epoch.
        """
        raw = self._with_classes(graphs, y)
        check_classes(raw)
        self._fit(raw, sample_weight, graphs)
        self.classes_: np.ndarray = label_array(self.model_.card.class_names)
        return self

    def __sklearn_tags__(self) -> Any:
        return _graph_tags(super().__sklearn_tags__())

    def predict(self, graphs: Any) -> np.ndarray:
        """The class of each graph: [B]."""
        best = self.predict_proba(graphs).argmax(1)
        return self.classes_[best]

    def predict_proba(self, graphs: Any) -> np.ndarray:
        """The probability of each class in `classes_`: [B, C]."""
        check_is_fitted(self)
        return self.model_.predict_proba(graphs)

    def predict_log_proba(self, graphs: Any) -> np.ndarray:
        """The logarithm of the probability of each class in `classes_`: [B, C]."""
        check_is_fitted(self)
        return self.model_.predict_log_proba(graphs)

    def score(self, graphs: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy, from 0 to 1."""
        found: list[Any] = self.predict(graphs).tolist()
        if y is None:
            classes = self.model_.read(graphs).classes
            if classes is None:
                raise DataError("expected a class for every graph, got none: pass them as y")
            given: list[Any] = classes.words()  # the type may differ between file formats
            found = list(map(str, found))
        else:
            given = given_classes(y)
            check_count(given, len(found))
            expected, got = type(found[0]), type(given[0])
            if str in (expected, got) and expected is not got:
                raise DataError(
                    f"expected classes of the type {expected.__name__}, as in fit, got {got.__name__}"
                )
        hits = [a == b for a, b in zip(given, found, strict=True)]
        return float(accuracy_score([True] * len(hits), hits, sample_weight=sample_weight))


@_with_settings_in_docs
class DiffPoolRegressor(RegressorMixin, _Estimator):
    """A graph regressor for one or more targets.

    Every setting of the method is a keyword argument; None, the default, leaves it to the method and the data set.

    Args:
        method, features, edge_features, directed, node_attributes, edge_attributes: See `DiffPoolClassifier`.
        validation, seed, random_state, device, verbose, callbacks: See `DiffPoolClassifier`.
        {settings}

    Attributes:
        model_: The `TrainedModel`.
        history_: An `Epoch` for each epoch.
    """

    def fit(self, graphs: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train on graphs with the targets `y` [B] or [B, T], which may be omitted if the graphs contain them.

        `sample_weight` [B] multiplies the loss of each graph, in training and for the choice of the best epoch.
        """
        raw = self._raw(graphs, None if y is None else given_targets(y))
        if raw.targets is None:
            raise DataError("expected a target for every graph, got none: pass them as y")
        return self._fit(replace(raw, classes=None), sample_weight, graphs)

    def __sklearn_tags__(self) -> Any:
        tags = _graph_tags(super().__sklearn_tags__())
        tags.target_tags.multi_output = True
        return tags

    def predict(self, graphs: Any) -> np.ndarray:
        """The targets of each graph: [B], or [B, T] for several targets."""
        check_is_fitted(self)
        return self.model_.predict(graphs)

    def score(self, graphs: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The coefficient of determination R²."""
        if y is None:
            y = self.model_.read(graphs).targets
            if y is None:
                raise DataError("expected a target for every graph, got none: pass them as y")
        expected, found = given_targets(y), self.predict(graphs)
        check_count(expected, len(found))
        return float(r2_score(expected, found, sample_weight=sample_weight))


def _graph_tags(tags: Any) -> Any:
    """The tags for scikit-learn: the input is a list of graphs, not a table, and may contain `y`."""
    from sklearn.utils import (
        TransformerTags,
    )  # new in scikit-learn 1.6, like this method of setting tags

    tags.input_tags.two_d_array = False
    tags.target_tags.required = False
    tags.transformer_tags = TransformerTags(preserves_dtype=[])
    tags.no_validation = True
    return tags


def _weights(values: Any, count: int) -> np.ndarray:
    """Weights of the graphs, [B], scaled so that those above 0 have mean 1: the loss keeps its scale."""
    if np.ma.is_masked(values):
        raise DataError("expected sample_weight without masked values, got some")
    try:
        weights = np.asarray(as_array("sample_weight", values), dtype=np.float64)
    except (TypeError, ValueError):
        weights = np.empty(0)
    if weights.shape != (count,) or not np.isfinite(weights).all() or (weights < 0).any():
        raise DataError(
            f"expected sample_weight as {count} numbers of at least 0, one for each graph, "
            f"got the shape {np.shape(values)}, or values that are negative, NaN or infinite"
        )
    if not weights.any():
        raise DataError("expected sample_weight with at least one number above 0, got only zeros")
    weights = (
        (weights / weights.max()).astype(np.float32).astype(np.float64)
    )  # sums of 1e308 overflow
    return weights / weights[weights > 0].mean()
