"""The estimators inside scikit-learn: meta-estimators, pipelines, seeds, tags and scikit-learn's own checks."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks, get_tags

from diffpool import DiffPoolClassifier, DiffPoolRegressor, as_raw
from diffpool.data import as_column
from diffpool.errors import DataError, ModelError, SettingError

nx = pytest.importorskip("networkx")

QUICK = {"epochs": 4, "hidden": 8, "learning_rate": 0.02, "features": "degree", "device": "cpu"}


def graphs_and_classes(count: int = 24) -> tuple[list, np.ndarray]:
    """Rings and stars of 6 to 12 nodes."""
    sizes, y = np.random.default_rng(0).integers(6, 13, count), np.arange(count) % 2
    return [
        nx.cycle_graph(n) if c else nx.star_graph(n - 1) for n, c in zip(sizes, y, strict=True)
    ], y


@pytest.fixture(scope="module")
def fitted() -> tuple[DiffPoolClassifier, list, np.ndarray]:
    graphs, y = graphs_and_classes()
    return DiffPoolClassifier(**QUICK).fit(graphs, y), graphs, y


# --- random_state ------------------------------------------------------------------------------------------------


def test_random_state_is_the_seed_under_the_name_that_scikit_learn_uses() -> None:
    graphs, y = graphs_and_classes()

    def probabilities(**seeds: object) -> np.ndarray:
        return DiffPoolClassifier(**QUICK, **seeds).fit(graphs, y).predict_proba(graphs)

    assert np.array_equal(probabilities(random_state=3), probabilities(seed=3))
    assert np.array_equal(probabilities(random_state=None), probabilities())
    assert np.array_equal(probabilities(random_state=np.int64(3), seed=5), probabilities(seed=3))
    assert not np.array_equal(probabilities(random_state=3), probabilities(random_state=4))
    states = [np.random.RandomState(0) for _ in range(2)]
    first, same = (probabilities(random_state=state) for state in states)
    assert np.array_equal(first, same)
    assert not np.array_equal(first, probabilities(random_state=states[0]))  # drawn again


def test_an_invalid_random_state_is_refused() -> None:
    graphs, y = graphs_and_classes()
    with pytest.raises(SettingError, match="expected seed to be an integer, got 'x'"):
        DiffPoolClassifier(**QUICK, random_state="x").fit(graphs, y)


# --- embeddings and probabilities --------------------------------------------------------------------------------


def test_transform_returns_the_vector_that_the_head_sees(
    fitted: tuple[DiffPoolClassifier, list, np.ndarray],
) -> None:
    model, graphs, _ = fitted
    x = model.transform(graphs)
    assert x.shape == (len(graphs), 8)
    logits = model.model_.model.head(torch.from_numpy(x))
    expected = logits.log_softmax(-1).detach().numpy()
    np.testing.assert_allclose(model.predict_log_proba(graphs), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.transform(graphs[3:4]), x[3:4], rtol=1e-5, atol=1e-6)


def test_embeddings_of_more_graphs_than_a_batch_are_in_order(
    fitted: tuple[DiffPoolClassifier, list, np.ndarray],
) -> None:
    model, graphs, _ = fitted
    many = model.transform(graphs * 10)
    assert many.shape == (240, 8)
    np.testing.assert_allclose(many[-24:], model.transform(graphs), rtol=1e-5, atol=1e-6)


def test_log_probabilities_are_finite_where_probabilities_round_to_zero(
    fitted: tuple[DiffPoolClassifier, list, np.ndarray],
) -> None:
    model, graphs, y = fitted
    sure = clone(model).fit(graphs, y)
    for parameter in sure.model_.model.head.parameters():
        parameter.data.mul_(1e4)
    logs = sure.predict_log_proba(graphs)
    assert (sure.predict_proba(graphs) == 0).any()
    assert np.isfinite(logs).all()
    assert np.array_equal(logs.argmax(1), sure.predict_proba(graphs).argmax(1))


def test_a_regression_has_embeddings_and_no_probabilities() -> None:
    graphs, y = graphs_and_classes()
    model = DiffPoolRegressor(**QUICK).fit(graphs, y + 0.5)
    assert model.transform(graphs).shape == (24, 8)
    with pytest.raises(ModelError, match="expected a classification model, got a regression"):
        model.model_.predict_log_proba(graphs)


# --- inside other estimators -------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [list, as_raw], ids=["a list", "RawGraphs"])
def test_bagging_trains_models_with_different_seeds(form: type) -> None:
    graphs, y = graphs_and_classes()
    x, names = as_column(form(graphs)), np.array(["star", "ring"])[y]
    assert x.shape == (24, 1)
    part = DiffPoolClassifier(**{**QUICK, "epochs": 12})  # of few graphs, so few steps in an epoch
    model = BaggingClassifier(part, n_estimators=3, random_state=0)
    assert model.fit(x, names).score(x, names) > 0.5
    assert len({member.random_state for member in model.estimators_}) == 3
    assert model.predict_proba(x).shape == (24, 2)


def test_a_pipeline_continues_with_the_embeddings() -> None:
    graphs, y = graphs_and_classes()
    model = make_pipeline(DiffPoolClassifier(**QUICK), LogisticRegression())
    assert model.fit(graphs, y).score(graphs, y) > 0.5
    search = GridSearchCV(model, {"diffpoolclassifier__hidden": [4, 8]}, cv=2)
    assert search.fit(graphs, y).best_params_["diffpoolclassifier__hidden"] in (4, 8)


@pytest.mark.parametrize("kind", [VotingClassifier, StackingClassifier])
def test_models_vote_and_are_stacked(kind: type) -> None:
    graphs, y = graphs_and_classes()
    members = [(name, DiffPoolClassifier(name, **QUICK)) for name in ("diffpool", "graphsage")]
    options = {"voting": "soft"} if kind is VotingClassifier else {"cv": 2}
    model = kind(members, **options).fit(graphs, y)
    assert model.predict(graphs).shape == (24,)


# --- what scikit-learn may assume --------------------------------------------------------------------------------


def test_tags_say_that_the_input_is_graphs() -> None:
    classifier, regressor = get_tags(DiffPoolClassifier()), get_tags(DiffPoolRegressor())
    assert (classifier.estimator_type, regressor.estimator_type) == ("classifier", "regressor")
    for tags in (classifier, regressor):
        assert not tags.input_tags.two_d_array
        assert not tags.input_tags.sparse
        assert not tags.target_tags.required  # the graphs may contain it
        assert tags.transformer_tags is not None
        assert tags.no_validation
        assert tags.requires_fit
    assert classifier.classifier_tags.multi_class
    assert not classifier.target_tags.multi_output
    assert regressor.target_tags.multi_output


CHECKS = [
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_get_params_invariance",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
    "check_mixin_order",
]


@pytest.mark.parametrize("kind", [DiffPoolClassifier, DiffPoolRegressor])
@pytest.mark.parametrize("name", CHECKS)
def test_the_checks_of_scikit_learn_that_need_no_table(kind: type, name: str) -> None:
    check = getattr(estimator_checks, name)
    check(kind.__name__, kind())


@pytest.mark.parametrize("kind", [DiffPoolClassifier, DiffPoolRegressor])
def test_fitting_keeps_the_parameters_and_sets_attributes_that_end_in_an_underscore(
    kind: type,
) -> None:
    graphs, y = graphs_and_classes()
    model = kind(**QUICK)
    before = model.get_params()
    assert model.fit(graphs, y + 0.5 if kind is DiffPoolRegressor else y) is model
    assert model.get_params() == before
    assert all(name in before or name.endswith("_") for name in vars(model))


def test_transform_and_log_probabilities_need_a_fitted_model() -> None:
    for call in ("transform", "predict_log_proba"):
        with pytest.raises(NotFittedError):
            getattr(DiffPoolClassifier(), call)([nx.path_graph(2)])


# --- attributes of NetworkX graphs -------------------------------------------------------------------------------


def test_the_chosen_attributes_are_used_in_training_and_prediction() -> None:
    graphs, y = graphs_and_classes()
    for g, graph in enumerate(graphs):
        nx.set_node_attributes(graph, {n: f"{g}-{n}" for n in graph}, "name")
        nx.set_node_attributes(graph, "C", "element")
        nx.set_node_attributes(graph, 0.5, "charge")
    settings = {**QUICK, "features": "auto"}
    with pytest.raises(DataError, match="attribute 'name'"):
        DiffPoolClassifier(**settings).fit(graphs, y)
    model = DiffPoolClassifier(**settings, node_attributes=["charge", "element"]).fit(graphs, y)
    assert model.model_.card.num_features == 2
    for result in (model.predict, model.predict_proba, model.transform, model.clusters):
        assert len(result(graphs)) == 24
    assert 0 <= model.score(graphs, y) <= 1
    assert clone(model).node_attributes == ["charge", "element"]


# --- devices -----------------------------------------------------------------------------------------------------


def test_the_device_is_chosen_automatically(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    graphs, y = graphs_and_classes()
    assert inspect.signature(DiffPoolClassifier).parameters["device"].default == "auto"
    model = DiffPoolClassifier(**{**QUICK, "device": "auto"}).fit(graphs, y)
    assert next(model.model_.model.parameters()).device.type == "cpu"
    for name in ("abacus", 3.5):
        with pytest.raises(SettingError, match="expected device to be available on this machine"):
            DiffPoolClassifier(**{**QUICK, "device": name}).fit(graphs, y)


def test_the_number_of_columns_is_set_only_for_input_with_columns(
    fitted: tuple[DiffPoolClassifier, list, np.ndarray],
) -> None:
    model, graphs, y = fitted
    assert not hasattr(model, "n_features_in_")
    again = clone(model).fit(as_column(graphs), y)
    assert again.n_features_in_ == 1
    assert not hasattr(again.fit(graphs, y), "n_features_in_")
    bagging = BaggingClassifier(clone(model), n_estimators=2, random_state=0)
    assert len(bagging.fit(as_column(graphs), y).predict(as_column(graphs))) == len(graphs)
