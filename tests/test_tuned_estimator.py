"""The estimators that choose their settings."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from diffpool import DiffPoolClassifier, TunedClassifier, TunedRegressor, load_model

nx = pytest.importorskip("networkx")

QUICK = {"epochs": 8, "features": "degree", "min_clusters": 2, "learning_rate": 0.01}
SPACE = {"hidden": [8, 16], "dropout": [0.0, 0.5]}


def rings_and_stars(count: int = 60) -> tuple[list, np.ndarray]:
    sizes, y = np.random.default_rng(0).integers(6, 13, count), np.arange(count) % 2
    graphs = [
        nx.cycle_graph(n) if c else nx.star_graph(n - 1) for n, c in zip(sizes, y, strict=True)
    ]
    return graphs, y


def test_a_tuned_classifier_learns_and_says_what_it_chose(tmp_path: object) -> None:
    graphs, y = rings_and_stars()
    model = TunedClassifier(trials=3, space=SPACE, ensemble=3, device="cpu", **QUICK)
    assert model.fit(graphs, y).score(graphs, y) > 0.9
    assert set(model.best_params_) == {"hidden", "dropout"}
    assert len(model.trials_) == 3
    assert len(model.model_.members) == 3
    assert model.test_scores_["graphs"] == 6
    assert model.predict(graphs[:2]).dtype == y.dtype
    model.save(f"{tmp_path}/model")
    loaded = load_model(f"{tmp_path}/model")
    np.testing.assert_array_equal(loaded.predict_proba(graphs), model.predict_proba(graphs))


def test_given_settings_are_not_searched_over() -> None:
    graphs, y = rings_and_stars()
    model = TunedClassifier(
        trials=2, ensemble=2, hidden=4, readout="max", device="cpu", **{**QUICK, "epochs": 1}
    )
    model.fit(graphs, y)
    assert not set(model.best_params_) & {"hidden", "readout", "learning_rate", "min_clusters"}
    for part in model.model_.card.parts:
        assert part.architecture.hidden == 4
        assert part.architecture.readout == "max"


def test_models_of_the_trials_are_kept_and_a_grid_is_complete() -> None:
    graphs, y = rings_and_stars()
    model = TunedClassifier(
        points="grid", space=SPACE, refit="none", ensemble=3, device="cpu", **{**QUICK, "epochs": 2}
    )
    model.fit(graphs, y)
    assert len(model.trials_) == 4
    chosen = [trial for trial in model.trials_ if trial.members]
    assert len(model.model_.members) == len(chosen) <= 3


def test_it_is_cloned_with_all_parameters() -> None:
    model = TunedClassifier(trials=3, space=SPACE, hidden=8, inner_folds=2, max_seconds=5.0)
    parameters = clone(model).get_params()
    assert parameters == model.get_params()
    plain = DiffPoolClassifier().get_params().keys() - {"callbacks"}
    assert parameters.keys() > plain
    assert parameters["trials"] == 3


def test_a_tuned_regressor_predicts_numbers() -> None:
    graphs, _ = rings_and_stars()
    y = np.array([float(len(graph)) for graph in graphs])
    model = TunedRegressor(
        trials=2, space=SPACE, ensemble=2, device="cpu", **{**QUICK, "epochs": 30}
    )
    assert model.fit(graphs, y).score(graphs, y) > 0
    assert model.test_scores_["mae"] < 10
