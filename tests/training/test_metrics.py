"""Metrics: hand-computed cases, and agreement with scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from diffpool.training.metrics import classification_metrics, metrics_text, regression_metrics


def test_a_classifier_that_always_answers_the_common_class() -> None:
    y = np.array([0] * 9 + [1])
    found = classification_metrics(y, np.tile([0.8, 0.2], (10, 1)))
    assert found["accuracy"] == 0.9
    assert found["balanced_accuracy"] == 0.5
    assert found["macro_f1"] == pytest.approx(9 / 19)
    assert found["roc_auc"] == 0.5
    assert found["confusion"] == [[9, 0], [1, 0]]


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("decimals", [1, 9])  # 1: many equal scores
def test_they_agree_with_scikit_learn(classes: int, decimals: int) -> None:
    rng = np.random.default_rng(classes)
    y = rng.integers(0, classes, 200)
    p = np.round(rng.dirichlet(np.ones(classes), 200) + 0.4 * np.eye(classes)[y], decimals)
    p /= p.sum(1, keepdims=True)
    found, predicted = classification_metrics(y, p), p.argmax(1)
    assert found["accuracy"] == pytest.approx(sklearn_metrics.accuracy_score(y, predicted))
    balanced = sklearn_metrics.balanced_accuracy_score(y, predicted)
    assert found["balanced_accuracy"] == pytest.approx(balanced)
    macro = sklearn_metrics.f1_score(y, predicted, average="macro")
    assert found["macro_f1"] == pytest.approx(macro)
    area = sklearn_metrics.roc_auc_score(y, p[:, 1] if classes == 2 else p, multi_class="ovr")
    assert found["roc_auc"] == pytest.approx(area)
    assert found["confusion"] == sklearn_metrics.confusion_matrix(y, predicted).tolist()


def test_classes_without_graphs_do_not_count() -> None:
    y, p = np.array([0, 0, 2]), np.eye(4)[[0, 0, 2]]
    found = classification_metrics(y, p)
    assert (found["balanced_accuracy"], found["macro_f1"], found["roc_auc"]) == (1.0, 1.0, 1.0)
    assert classification_metrics(y[:2], p[:2])["roc_auc"] is None
    assert "ROC" not in metrics_text(classification_metrics(y[:2], p[:2]))


def test_errors_of_targets() -> None:
    y, predicted = np.array([[1.0], [2.0], [6.0]]), np.array([[2.0], [2.0], [4.0]])
    found = regression_metrics(y, predicted)
    assert found == {"graphs": 3, "mae": 1.0, "rmse": (5 / 3) ** 0.5, "r2": 1 - 5 / 14}
    assert metrics_text(found) == "MAE 1, RMSE 1.291, R² 0.643"
    assert regression_metrics(y[:1], predicted[:1])["r2"] is None


def test_several_targets_are_averaged_and_listed() -> None:
    rng = np.random.default_rng(0)
    y, predicted = rng.normal(size=(20, 3)), rng.normal(size=(20, 3))
    found = regression_metrics(y, predicted)
    assert found["r2"] == pytest.approx(sklearn_metrics.r2_score(y, predicted))
    assert found["mae"] == pytest.approx(sklearn_metrics.mean_absolute_error(y, predicted))
    assert [own["rmse"] for own in found["targets"]] == pytest.approx(
        np.sqrt(sklearn_metrics.mean_squared_error(y, predicted, multioutput="raw_values"))
    )


@pytest.mark.parametrize("value", [0.1, 1e-300, 1e300, -7.0])
def test_r2_of_equal_targets_is_undefined(value: float) -> None:
    found = regression_metrics(np.full((7, 1), value), np.full((7, 1), 2 * value))
    assert found["r2"] is None
    assert found["mae"] == pytest.approx(abs(value), rel=1e-12, abs=0)


def test_huge_targets_have_finite_errors() -> None:
    y = np.array([[1e200], [2e200], [3e200], [4e200]])
    found = regression_metrics(y, y[::-1])
    assert found["rmse"] == pytest.approx(5**0.5 * 1e200)
    assert found["r2"] == pytest.approx(-3)
    assert regression_metrics(y * 1e-300, y)["r2"] is None  # it is below every number


@pytest.mark.filterwarnings("ignore:y_pred contains classes")
def test_many_classes_have_no_confusion_matrix() -> None:
    classes, graphs = 1001, 3000
    rng = np.random.default_rng(0)
    y = rng.integers(classes, size=graphs)
    probabilities = rng.random((graphs, classes))
    probabilities[np.arange(graphs), y] += 0.9
    found = classification_metrics(y, probabilities)
    predicted = probabilities.argmax(1)
    assert found["confusion"] is None
    assert found["accuracy"] == sklearn_metrics.accuracy_score(y, predicted)
    assert found["balanced_accuracy"] == pytest.approx(
        sklearn_metrics.balanced_accuracy_score(y, predicted)
    )
    assert found["macro_f1"] == pytest.approx(
        sklearn_metrics.f1_score(y, predicted, average="macro")
    )
    few = classification_metrics(y % 1000, probabilities[:, :1000])
    assert np.sum(few["confusion"]) == graphs
