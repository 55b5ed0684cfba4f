"""Estimators for scikit-learn that choose their settings: `fit` is `diffpool tune`."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from diffpool.data import GraphDataset
from diffpool.estimator import DiffPoolClassifier, DiffPoolRegressor, _Estimator
from diffpool.experiments import Method, Trial, make_grid, space_for, tune
from diffpool.experiments.tuning import MEMBERS


class _Tuned(_Estimator):
    """The common part of the tuned classifier and the tuned regressor."""

    def __init__(
        self,
        method: str = "diffpool",
        *,
        trials: int | None = None,
        space: Mapping[str, Sequence[Any]] | None = None,
        points: str = "spread",
        inner_folds: int = 1,
        refit: str = "train",
        max_seconds: float | None = None,
        **settings: Any,
    ):
        if "callbacks" in settings:
            raise TypeError(
                f"{type(self).__name__}() takes no callbacks, because a search trains many models at a time"
            )
        super().__init__(method, **settings)
        self.trials = trials
        self.space = space
        self.points = points
        self.inner_folds = inner_folds
        self.refit = refit
        self.max_seconds = max_seconds

    def _train(self, method: Method, dataset: GraphDataset) -> None:
        given = [name for name in PARAMETER_NAMES if getattr(self, name) is not None]
        names = ["clusters" if name == "num_clusters" else name for name in given]
        space = space_for(method, names) if self.space is None else make_grid(self.space)
        with tempfile.TemporaryDirectory(prefix="diffpool-tune-") as folder:
            found = tune(
                method,
                dataset,
                out=Path(folder) / "model",
                space=space,
                trials=self.trials,
                points=self.points,
                ensemble=MEMBERS if self.ensemble is None else self.ensemble,
                inner_folds=self.inner_folds,
                refit=self.refit,
                max_seconds=self.max_seconds,
                seed=method.training.seed,
            )
        self.model_ = found.model
        self.trials_: tuple[Trial, ...] = found.trials
        self.best_params_ = dict(found.best_settings)
        self.test_scores_: dict[str, Any] = found.test


def _signature() -> inspect.Signature:
    """The parameters of a search, and those of the plain estimators."""
    search = inspect.signature(_Tuned.__init__).parameters
    plain = inspect.signature(_Estimator.__init__).parameters
    names = ("trials", "space", "points", "inner_folds", "refit", "max_seconds")
    parameters = [p for p in plain.values() if p.kind is not p.KEYWORD_ONLY]
    parameters += [search[name] for name in names]
    parameters += [p for p in plain.values() if p.kind is p.KEYWORD_ONLY and p.name != "callbacks"]
    return inspect.Signature(parameters)


_Tuned.__init__.__signature__ = _signature()  # type: ignore[attr-defined]
PARAMETER_NAMES = [
    name
    for name, p in inspect.signature(_Estimator.__init__).parameters.items()
    if p.default is None and name not in ("node_attributes", "edge_attributes", "random_state")
]


class TunedClassifier(_Tuned, DiffPoolClassifier):
    """A graph classifier that chooses its settings and averages several models: see `diffpool.experiments.tune`.

    Args:
        method: The name of a method, as in `diffpool tune --method`.
        trials: Number of combinations of settings to try; by default 24, or as many as `max_seconds` allows.
        space: Names of settings and the values to try; by default the usual ones of the method.
        points: How settings are drawn: "spread" (evenly), "random", or "grid", which tries all combinations.
        inner_folds: Validate by cross-validation with this many folds; 1 for a single validation part.
        refit: What the members are trained on: "train" (all graphs except the test graphs), "all" (all graphs; the test
            scores are then those of the models of the trials), or "none" (the models of the trials are the members).
        max_seconds: Stop trying settings after this time.
        settings: See `DiffPoolClassifier`. Settings that are given are not searched over; `ensemble` is the number of
            members, by default 10.

    Attributes:
        classes_: The classes, in the order of the columns of `predict_proba`.
        model_: The `TrainedModel`, an ensemble.
        best_params_: The settings of the best trial.
        trials_: A `Trial` for each combination of settings, the best one first.
        test_scores_: Metrics on the tenth of the graphs that took no part in the selection.
    """


class TunedRegressor(_Tuned, DiffPoolRegressor):
    """A regressor that chooses its settings and averages several models; for its parameters, see `TunedClassifier`."""
