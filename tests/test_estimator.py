"""The scikit-learn estimators."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import diffpool
from diffpool import DiffPoolClassifier, DiffPoolRegressor, RawGraphs, as_raw, estimator, load_model
from diffpool.architecture import Architecture
from diffpool.data import Fold
from diffpool.errors import DataError, SettingError
from diffpool.settings import list_settings
from diffpool.training import TrainedModel, Training

nx = pytest.importorskip("networkx")

QUICK = {"epochs": 12, "hidden": 16, "learning_rate": 0.01, "features": "degree", "seed": 0}


def graphs_and_classes(count: int = 48, seed: int = 0) -> tuple[list, np.ndarray]:
    """Rings and stars of 6 to 12 nodes, which every network can distinguish."""
    rng = np.random.default_rng(seed)
    sizes, y = rng.integers(6, 13, count), np.arange(count) % 2
    return [
        nx.cycle_graph(n) if c else nx.star_graph(n - 1) for n, c in zip(sizes, y, strict=True)
    ], y


@pytest.fixture(scope="module")
def fitted() -> tuple[DiffPoolClassifier, list, np.ndarray]:
    graphs, y = graphs_and_classes()
    names = np.array(["star", "ring"])[y]
    return DiffPoolClassifier(**QUICK).fit(graphs, names), graphs, names


def test_the_classifier_learns_and_predicts_the_given_classes(
    fitted: tuple[DiffPoolClassifier, list, np.ndarray],
) -> None:
    model, graphs, names = fitted
    assert model.classes_.tolist() == ["ring", "star"]
    assert model.score(graphs, names) >= 0.95
    assert set(model.predict(graphs)) <= {"ring", "star"}
    probabilities = model.predict_proba(graphs)
    assert probabilities.shape == (len(graphs), 2)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    assert np.array_equal(model.classes_[probabilities.argmax(1)], model.predict(graphs))


@pytest.mark.parametrize("values", [[3, 7], [False, True], [0.0, 1.0]])
def test_classes_keep_their_type(values: list) -> None:
    graphs, y = graphs_and_classes(24)
    model = DiffPoolClassifier(**{**QUICK, "epochs": 2}).fit(graphs, np.array(values)[y])
    assert model.classes_.tolist() == values
    assert model.classes_.dtype == np.array(values).dtype
    assert model.predict(graphs).dtype == np.array(values).dtype


@pytest.mark.parametrize("values", [[3, 7], [False, True], ["no", "yes"], ["1", "2"]])
def test_classes_that_the_graphs_carry_keep_their_type_when_saved_and_loaded(
    values: list, tmp_path: Path
) -> None:
    graphs, y = graphs_and_classes()
    given = np.array(values)[y]
    for graph, value in zip(graphs, given.tolist(), strict=True):
        graph.graph["label"] = value
    model = DiffPoolClassifier(**{**QUICK, "epochs": 25}).fit(graphs)
    assert model.classes_.tolist() == values
    assert (model.predict(graphs) == given).mean() == model.score(graphs) == 1.0
    assert model.score(graphs, given) == 1.0
    model.save(tmp_path)
    found = load_model(tmp_path).predict(graphs)
    assert found.dtype == given.dtype
    assert (found == given).all()


def test_float32_classes_are_predicted_exactly() -> None:
    graphs, y = graphs_and_classes()
    given = np.array([0.1, 0.7], np.float32)[y]
    assert (
        DiffPoolClassifier(**{**QUICK, "epochs": 25}).fit(graphs, given).predict(graphs) == given
    ).all()


def test_sample_weights_decide_between_contradictory_classes() -> None:
    graphs, y = graphs_and_classes(96)
    wrong = np.arange(96) % 4 < 2  # half of the graphs of each class
    given = np.where(wrong, 1 - y, y)
    for weight, expected in ((np.where(wrong, 0, 3), y), (np.where(wrong, 1, 0), 1 - y)):
        model = DiffPoolClassifier(**{**QUICK, "epochs": 25})
        model.fit(graphs, given, sample_weight=weight)
        assert (model.predict(graphs) == expected).mean() >= 0.95


def test_equal_sample_weights_change_nothing() -> None:
    graphs, y = graphs_and_classes(24)
    for kind in (DiffPoolClassifier, DiffPoolRegressor):
        plain, weighted = (kind(**{**QUICK, "epochs": 2}) for _ in range(2))
        plain.fit(graphs, y)
        weighted.fit(graphs, y, sample_weight=[3] * 24)
        assert np.array_equal(plain.predict(graphs), weighted.predict(graphs))


@pytest.mark.parametrize(
    "weight", [[1, 2], [-1] * 24, [np.nan] * 24, [0] * 24, "heavy", [[1.0]] * 24]
)
def test_wrong_sample_weights_are_errors(weight: object) -> None:
    graphs, y = graphs_and_classes(24)
    with pytest.raises(DataError, match="expected sample_weight"):
        DiffPoolClassifier(**QUICK).fit(graphs, y, sample_weight=weight)


def test_balanced_class_weights_find_the_rare_class() -> None:
    """Of ten graphs that look alike, three are of the rare class: only with balanced weights is it predicted."""
    graphs, y = graphs_and_classes(120)
    given = np.where(y == 1, np.arange(120) % 20 < 6, 0)  # 30 % of the rings, no star
    settings = {**QUICK, "epochs": 30}
    plain = DiffPoolClassifier(**settings).fit(graphs, given)
    balanced = DiffPoolClassifier(**settings, class_weight="balanced").fit(graphs, given)
    assert (plain.predict(graphs) == 0).all()
    assert (balanced.predict(graphs) == y).mean() >= 0.9


def test_results_are_reproducible_and_depend_on_the_seed() -> None:
    graphs, y = graphs_and_classes(24)
    settings = {**QUICK, "epochs": 2}
    first, again = (
        DiffPoolClassifier(**settings).fit(graphs, y).predict_proba(graphs) for _ in range(2)
    )
    other = DiffPoolClassifier(**{**settings, "seed": 1}).fit(graphs, y).predict_proba(graphs)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_clusters_are_one_assignment_for_each_pooling(
    fitted: tuple[DiffPoolClassifier, list, np.ndarray],
) -> None:
    model, graphs, _ = fitted
    clusters = model.clusters(graphs[:5])
    assert len(clusters) == 5
    for graph, levels in zip(graphs, clusters, strict=False):
        assert len(levels) == 1
        assert levels[0].shape[0] == len(graph)
        np.testing.assert_allclose(levels[0].sum(1), 1, rtol=1e-5)


def test_it_saves_and_loads_in_a_new_process_with_the_same_probabilities(
    fitted: tuple[DiffPoolClassifier, list, np.ndarray], tmp_path: Path
) -> None:
    """The probabilities are bitwise equal."""
    model, graphs, _ = fitted
    model.save(tmp_path / "model")
    diffpool.data.jsonl.write_jsonl(tmp_path / "graphs.jsonl", as_raw(graphs))
    code = (
        "import sys, numpy, diffpool; model = diffpool.load_model(sys.argv[1]); "
        "numpy.save(sys.argv[3], model.predict_proba(diffpool.read_graphs(sys.argv[2])))"
    )
    places = [str(tmp_path / name) for name in ("model", "graphs.jsonl", "p.npy")]
    subprocess.run([sys.executable, "-c", code, *places], check=True)
    assert np.array_equal(np.load(tmp_path / "p.npy"), model.predict_proba(graphs))
    loaded = load_model(tmp_path / "model")
    assert loaded.predict(graphs).tolist() == model.predict(graphs).tolist()
    assert repr(loaded) == "TrainedModel(diffpool on graphs, 2 classes)"


def test_a_trained_model_can_be_used_like_the_estimator(
    fitted: tuple[DiffPoolClassifier, list, np.ndarray],
) -> None:
    model, graphs, _ = fitted
    trained = model.model_
    assert np.array_equal(trained.classes_, model.classes_)
    assert trained.classes_.dtype == model.classes_.dtype
    assert np.array_equal(trained.transform(graphs[:5]), model.transform(graphs[:5]))
    targets = replace(trained.card, class_names=(), target_mean=(0.0,), target_sd=(1.0,))
    assert not hasattr(TrainedModel(trained.model, targets), "classes_")


def test_cross_validation_and_grid_search_run() -> None:
    graphs, y = graphs_and_classes(36)
    quick = DiffPoolClassifier(**{**QUICK, "epochs": 3})
    scores = cross_val_score(quick, graphs, y, cv=3)
    assert scores.shape == (3,)
    search = GridSearchCV(quick, {"hidden": [8, 16], "poolings": [0, 1]}, cv=2)
    search.fit(as_raw(graphs), y)
    assert set(search.best_params_) == {"hidden", "poolings"}
    assert search.best_score_ > 0.5
    assert len(search.predict(graphs)) == 36


def test_it_works_in_a_pipeline() -> None:
    graphs, y = graphs_and_classes(24)
    pipeline = make_pipeline(
        FunctionTransformer(as_raw), DiffPoolClassifier(**{**QUICK, "epochs": 2})
    )
    assert len(pipeline.fit(graphs, y).predict(graphs)) == 24


def test_parameters_are_read_set_and_cloned() -> None:
    model = DiffPoolClassifier(hidden=8, num_clusters=(4,))
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.set_params(hidden=9).hidden == 9
    assert model.hidden == 8


@pytest.mark.parametrize("kind", [DiffPoolClassifier, DiffPoolRegressor])
def test_every_setting_is_a_parameter_with_documentation(kind: type) -> None:
    names = {s.name for c in (Training, Architecture) for s in list_settings(c)}
    expected = names - {"clusters"} | {"num_clusters"}
    parameters = inspect.signature(kind).parameters
    assert expected <= parameters.keys()
    assert kind().get_params().keys() == parameters.keys()
    assert all(parameters[name].default is None for name in expected - {"seed"})
    for name in expected - {"seed"}:
        assert f"\n        {name}: " in kind.__doc__
    assert "\n        clip: Maximum gradient norm, for clipping. Default: 2.\n" in kind.__doc__


def test_only_known_keywords_are_accepted() -> None:
    for name in ("depth", "clusters"):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            DiffPoolClassifier(**{name: 3})
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        DiffPoolClassifier().set_params(depth=3)


def test_the_representation_shows_what_was_changed() -> None:
    assert (
        repr(DiffPoolClassifier(hidden=8, head=(4,))) == "DiffPoolClassifier(head=(4,), hidden=8)"
    )


def test_settings_reach_the_model() -> None:
    graphs, y = graphs_and_classes(12)
    settings = {"dropout": 0.25, "weight_decay": 0.01, "clip": 1.5, "num_clusters": (3,)}
    settings |= {"hidden": np.int64(4), "head": [5], "assignment": "gumbel", "concat": True}
    card = DiffPoolClassifier(epochs=1, seed=2, **settings).fit(graphs, y).model_.card
    assert card.training == Training(epochs=1, seed=2, dropout=0.25, weight_decay=0.01, clip=1.5)
    assert card.architecture == Architecture(
        hidden=4, clusters=(3,), head=(5,), assignment="gumbel", concat=True
    )


def test_predicting_before_fitting_is_an_error() -> None:
    graphs, _ = graphs_and_classes(2)
    for call in ("predict", "predict_proba", "clusters"):
        with pytest.raises(NotFittedError):
            getattr(DiffPoolClassifier(), call)(graphs)


def test_graphs_with_classes_need_no_y() -> None:
    graphs, y = graphs_and_classes(24)
    for graph, c in zip(graphs, y, strict=True):
        graph.graph["label"] = "ring" if c else "star"
    model = DiffPoolClassifier(**QUICK).fit(graphs)
    assert model.classes_.tolist() == ["ring", "star"]
    assert 0.5 <= model.score(graphs) <= 1


def test_error_messages_say_what_to_do() -> None:
    graphs, y = graphs_and_classes(12)
    with pytest.raises(
        DataError, match="expected a class for every graph, got none: pass the classes as y"
    ):
        DiffPoolClassifier(epochs=1).fit(graphs)
    with pytest.raises(DataError):
        DiffPoolClassifier(epochs=1).fit(graphs, y[:-1])
    with pytest.raises(SettingError, match="expected the method to be one of"):
        DiffPoolClassifier("best", epochs=1).fit(graphs, y)
    with pytest.raises(SettingError, match="above 0 and below 1, got 2"):
        DiffPoolClassifier(epochs=1, validation=2).fit(graphs, y)
    with pytest.raises(DataError, match="expected a target for every graph, got none"):
        DiffPoolRegressor(epochs=1).fit(graphs)


def test_a_few_graphs_are_enough_to_fit() -> None:
    graphs, y = graphs_and_classes(4)
    assert len(DiffPoolClassifier(**{**QUICK, "epochs": 2}).fit(graphs, y).predict(graphs)) == 4


def test_unseen_labels_are_reported() -> None:
    def labeled(name: str) -> RawGraphs:
        graph = nx.path_graph(3)
        nx.set_node_attributes(graph, name, "kind")
        return as_raw([graph])

    parts = [labeled(name) for name in ("a", "b") * 10]
    model = DiffPoolClassifier(epochs=2, hidden=4).fit(parts, np.arange(20) % 2)
    with pytest.warns(UserWarning, match=r"node label 'c' \(3 ×\) was not in the training data"):
        model.predict(labeled("c"))


def test_the_regressor_predicts_in_the_units_of_the_targets() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=120)
    graphs = [nx.path_graph(n) for n in rng.integers(4, 12, 120)]
    for graph, value in zip(graphs, values, strict=True):
        nx.set_node_attributes(graph, {n: value + 0.1 * rng.normal() for n in graph}, "height")
    y = 1000 + 50 * values
    model = DiffPoolRegressor(epochs=60, hidden=16, learning_rate=0.01, seed=0)
    assert model.fit(graphs, y).score(graphs, y) > 0.8
    assert model.predict(graphs).shape == (120,)
    both = DiffPoolRegressor(epochs=2, hidden=4).fit(graphs, np.stack([y, -y], 1))
    assert both.predict(graphs[:3]).shape == (3, 2)


# --- numbers of any size


def pairs(values: np.ndarray) -> list:
    """A graph of two connected nodes for each value, which is their attribute."""
    graphs = []
    for value in values.tolist():
        graphs.append(nx.path_graph(2))
        nx.set_node_attributes(graphs[-1], value, "a")
    return graphs


@pytest.mark.parametrize(("mean", "spread"), [(0, 1e-10), (1, 1e-10), (0, 1e30)])
def test_classes_that_differ_by_an_attribute_of_any_size_are_learned(
    mean: float, spread: float
) -> None:
    y = np.arange(40) % 2
    model = DiffPoolClassifier(epochs=20, hidden=8, learning_rate=0.02)
    graphs = pairs(mean + spread * (2 * y - 1))
    assert model.fit(graphs, y).score(graphs, y) == 1


@pytest.mark.parametrize(("mean", "size"), [(0, 1e-12), (1, 1e-10), (0, 1e-60), (0, 1e30)])
def test_targets_of_any_size_are_learned(mean: float, size: float) -> None:
    values = np.arange(40) % 2.0
    y = mean + size * values
    model = DiffPoolRegressor(epochs=40, hidden=8, learning_rate=0.02)
    assert model.fit(pairs(values), y).score(pairs(values), y) > 0.9


@pytest.mark.parametrize("y", [[1.0, np.nan], [np.inf, 0.0]])
def test_a_class_that_is_not_finite_is_an_error(y: list) -> None:
    with pytest.raises(DataError, match=r"graph \d: expected a class, got (nan|inf)"):
        DiffPoolClassifier(epochs=1).fit(pairs(np.arange(20.0)), y * 10)


def test_masked_classes_are_an_error() -> None:
    y = np.ma.masked_array([0, 1] * 10, [True] + [False] * 19)
    with pytest.raises(DataError, match="y: expected no masked values"):
        DiffPoolClassifier(epochs=1).fit(pairs(np.arange(20.0)), y)


def test_a_seed_of_64_bits_works_and_a_larger_one_is_an_error() -> None:
    graphs, y = pairs(np.arange(20.0)), [0, 1] * 10
    models = [DiffPoolClassifier(epochs=1, hidden=4, seed=2**64 - 1).fit(graphs, y) for _ in "ab"]
    first, second = (model.predict_proba(graphs) for model in models)
    assert np.array_equal(first, second)
    with pytest.raises(SettingError, match="expected seed from 0 to 18446744073709551615, got"):
        DiffPoolClassifier(epochs=1, seed=2**64).fit(graphs, y)


# --- classes and targets in any form


ONE_TYPE = r"graph 1: expected classes of one type, like .* of graph 0, got"


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([np.nan, "a"] * 10, "graph 0: expected a class, got nan"),
        ([None, "a"] * 10, "graph 0: expected a class, got None"),
        ([1, "a"] * 10, ONE_TYPE),
        (["1", 1] * 10, ONE_TYPE),
        ([True, 2] * 10, ONE_TYPE),
        ([2**60 + 1, 0.5] * 10, ONE_TYPE),
        ([[1], [1, 2]] * 10, r"graph 1: expected a class, got \[1, 2\]"),
        ([[0, 1]] * 20, r"graph 0: expected a class, got \[0, 1\]"),
        ("ab" * 10, "expected y as a list or array, got str"),
        (3, "expected y as a list or array, got int"),
    ],
)
def test_classes_that_are_not_classes_are_errors(y: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        DiffPoolClassifier(epochs=1).fit(pairs(np.arange(20.0)), y)


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (torch.tensor([0.5, 1.5] * 10, requires_grad=True), [0.5, 1.5]),
        (torch.tensor([0.5, 1.5] * 10, dtype=torch.bfloat16), [0.5, 1.5]),
        (np.arange(20)[:, None] % 2, [0, 1]),
        ([0, 1.5] * 10, [0.0, 1.5]),
        ([0.0, -0.0, 1.0, 1.0] * 5, [0.0, 1.0]),
        (np.array([0, 1] * 10, object), [0, 1]),
        ([-1, 2**63] * 10, [-1, 2**63]),
        (["a", "a\0"] * 10, ["a", "a\0"]),
    ],
)
def test_classes_in_any_form_are_returned_as_they_were_given(
    y: object, classes: list, tmp_path: Path
) -> None:
    model = DiffPoolClassifier(epochs=1, hidden=4).fit(pairs(np.arange(20.0) % 2), y)
    assert model.classes_.tolist() == classes
    assert list(map(type, model.classes_.tolist())) == list(map(type, classes))
    model.save(tmp_path)
    found = load_model(tmp_path).predict(pairs(np.arange(4.0)))
    assert all(any(type(v) is type(c) and v == c for c in classes) for v in found.tolist())
    expected = model.predict(pairs(np.arange(20.0) % 2))
    assert model.score(pairs(np.arange(20.0) % 2), expected.tolist()) == 1


def test_classes_of_another_type_are_not_scored() -> None:
    graphs, y = pairs(np.arange(20.0) % 2), [0, 1] * 10
    model = DiffPoolClassifier(epochs=1, hidden=4).fit(graphs, y)
    with pytest.raises(DataError, match="expected classes of the type int, as in fit, got str"):
        model.score(graphs, list(map(str, y)))
    with pytest.raises(DataError, match="expected one y for each of 20 graphs, got 19"):
        model.score(graphs, y[1:])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.ma.masked_array(np.arange(20.0), [True] + [False] * 19), "expected no masked values"),
        (["a"] * 20, "graph 0: expected finite numbers as targets"),
        ([None] * 20, "graph 0: expected finite numbers as targets"),
        ([np.nan] * 20, "graph 0: expected finite numbers as targets"),
        ([10**400] * 20, "graph 0: expected finite numbers as targets"),
        ([[1.0], [1.0, 2.0]] * 10, "graph 1: expected 1 targets, as in graph 0, got 2"),
        ("a" * 20, "expected y as a list or array, got str"),
    ],
)
def test_targets_that_are_not_numbers_are_errors(y: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        DiffPoolRegressor(epochs=1).fit(pairs(np.arange(20.0)), y)


@pytest.mark.parametrize(
    "y",
    [
        torch.arange(20.0, requires_grad=True),
        torch.arange(20.0, dtype=torch.bfloat16),
        list(range(20)),
        np.arange(20),
        np.ma.masked_array(np.arange(20.0)),
    ],
)
def test_targets_may_have_any_form(y: object) -> None:
    model = DiffPoolRegressor(epochs=1, hidden=4).fit(pairs(np.arange(20.0)), y)
    assert model.model_.card.target_mean[0] == pytest.approx(9.5, abs=1.5)


@pytest.mark.parametrize("validation", ["0.1", None, np.nan, [0.1], True])
def test_a_validation_that_is_not_a_fraction_is_an_error(validation: object) -> None:
    with pytest.raises(SettingError, match="expected validation, a fraction of the graphs"):
        DiffPoolClassifier(validation=validation).fit(pairs(np.arange(20.0)), [0, 1] * 10)


def test_targets_that_are_not_numbers_are_not_scored() -> None:
    graphs = pairs(np.arange(20.0))
    model = DiffPoolRegressor(epochs=1, hidden=4).fit(graphs, np.arange(20.0))
    assert model.score(graphs, torch.arange(20.0, requires_grad=True)) <= 1
    with pytest.raises(DataError, match="graph 0: expected finite numbers as targets"):
        model.score(graphs, ["a"] * 20)
    with pytest.raises(DataError, match="expected one y for each of 20 graphs, got 1"):
        model.score(graphs, [1.0])


# --- the validation graphs


def folds(monkeypatch: pytest.MonkeyPatch) -> list[Fold]:
    """Collects the fold of every fit."""
    found: list[Fold] = []
    fit = estimator.fit

    def watched(method: object, dataset: object, fold: Fold, **more: object) -> object:
        found.append(fold)
        return fit(method, dataset, fold, **more)

    monkeypatch.setattr(estimator, "fit", watched)
    return found


@pytest.mark.parametrize("rare", [1, 3])
def test_a_rare_class_does_not_prevent_validation(
    monkeypatch: pytest.MonkeyPatch, rare: int
) -> None:
    found = folds(monkeypatch)
    graphs, y = graphs_and_classes(60)
    y[:rare] = np.arange(2, 2 + rare)  # classes with one graph each
    for seed in range(3):
        DiffPoolClassifier(epochs=1, hidden=4, seed=seed).fit(graphs, y)
        fold = found[-1]
        assert sorted(np.concatenate([fold.train, fold.validation])) == list(range(60))
        assert len(fold.validation) == 6
        assert set(range(rare)) <= set(fold.train.tolist())  # else they are never learned


@pytest.mark.parametrize("kind", [DiffPoolClassifier, DiffPoolRegressor])
def test_three_graphs_are_split_and_fewer_are_used_twice_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, kind: type
) -> None:
    found = folds(monkeypatch)
    graphs, y = graphs_and_classes(3)
    kind(epochs=1, hidden=4).fit(graphs, y)
    assert (len(found[0].train), len(found[0].validation)) == (2, 1)
    with pytest.warns(UserWarning, match="2 graphs are too few to hold some out for validation"):
        kind(epochs=1, hidden=4).fit(graphs[:2], y[:2])
    assert found[1].train.tolist() == found[1].validation.tolist() == [0, 1]


def test_a_graph_of_weight_0_is_as_if_it_were_not_there() -> None:
    graphs, y = graphs_and_classes(40)
    weight = np.where(np.arange(40) % 5 == 0, 0, 2.0)
    kept = weight > 0
    some = [graph for graph, own in zip(graphs, kept, strict=True) if own]
    weighted = DiffPoolClassifier(**QUICK).fit(graphs, y, sample_weight=weight)
    expected = DiffPoolClassifier(**QUICK).fit(some, y[kept])
    np.testing.assert_allclose(
        weighted.predict_proba(graphs), expected.predict_proba(graphs), rtol=1e-5
    )
    alone = DiffPoolClassifier(epochs=1, hidden=4).fit(graphs, y, sample_weight=y)
    assert alone.classes_.tolist() == [0, 1]  # also a class whose graphs all have the weight 0


def test_huge_sample_weights_are_like_others() -> None:
    graphs, y = graphs_and_classes(24)
    models = [
        DiffPoolClassifier(**{**QUICK, "epochs": 2}).fit(graphs, y, sample_weight=[weight] * 24)
        for weight in (1.0, 1e308, 1e-308)
    ]
    plain, *others = (model.predict_proba(graphs) for model in models)
    for other in others:
        assert np.array_equal(plain, other)
