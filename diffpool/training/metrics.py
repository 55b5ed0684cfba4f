"""Metrics of predictions, as plain values: accuracy and related scores for classes; MAE, RMSE and R² for targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

MAX_CONFUSION = 1000  # maximum number of classes of a confusion matrix


def classification_metrics(y: np.ndarray, probabilities: np.ndarray) -> dict[str, Any]:
    """Metrics of class probabilities [B, C], given the true classes y [B], numbered from 0.

    Balanced accuracy is the mean recall over the classes in y. Macro F1 is the mean over the classes that occur in y or
    in the predictions. ROC AUC is None if y has only one class; for more than two classes it is the one-vs-rest mean
    over the classes in y. The rows of `confusion` are true classes, the columns are predicted classes; it is None for
    more than MAX_CONFUSION classes.
    """
    classes = probabilities.shape[1]
    predicted = probabilities.argmax(1)
    true, found = np.bincount(y, minlength=classes), np.bincount(predicted, minlength=classes)
    hits = np.bincount(y[y == predicted], minlength=classes)
    recall = hits[true > 0] / true[true > 0]
    f1 = 2 * hits[true + found > 0] / (true + found)[true + found > 0]
    return {
        "graphs": len(y),
        "accuracy": _mean(hits.sum(keepdims=True) / max(len(y), 1)),
        "balanced_accuracy": _mean(recall),
        "macro_f1": _mean(f1),
        "roc_auc": _roc_auc(y, probabilities),
        "confusion": _confusion(y, predicted, classes) if classes <= MAX_CONFUSION else None,
    }


def _confusion(y: np.ndarray, predicted: np.ndarray, classes: int) -> list[list[int]]:
    counts = np.bincount(y * classes + predicted, minlength=classes**2)
    return counts.reshape(classes, classes).tolist()


def class_scores(y: np.ndarray, probabilities: np.ndarray) -> dict[str, float | None]:
    """Scores for imbalanced classes: balanced accuracy in percent, macro F1 and ROC AUC."""
    metrics = classification_metrics(y, probabilities)
    return {
        "balanced_accuracy": 100 * metrics["balanced_accuracy"],
        "macro_f1": metrics["macro_f1"],
        "roc_auc": metrics["roc_auc"],
    }


BINS = 15  # intervals of confidence


def reliability(y: np.ndarray, probabilities: np.ndarray) -> dict[str, list[Any]]:
    """How often class probabilities [B, C] are right, by confidence: the highest probability of a graph.

    Graphs are divided into BINS intervals of equal width. For each, the result has the number of `graphs`, how many
    are `correct`, and the sum of their `confidence`. Counts of folds or models can be added up.
    """
    confidence = probabilities.max(1, initial=0).astype(np.float64)
    hits = probabilities.argmax(1) == y
    bin_of_graph = np.clip(np.ceil(confidence * BINS).astype(np.int64) - 1, 0, BINS - 1)
    return {
        "graphs": np.bincount(bin_of_graph, minlength=BINS).tolist(),
        "correct": np.bincount(bin_of_graph[hits], minlength=BINS).tolist(),
        "confidence": np.bincount(bin_of_graph, confidence, BINS).tolist(),
    }


def expected_calibration_error(counts: dict[str, list[Any]]) -> float:
    """|accuracy − confidence| of each bin of `reliability`, averaged over graphs."""
    gaps = np.abs(np.subtract(counts["correct"], counts["confidence"]))
    return float(gaps.sum() / max(sum(counts["graphs"]), 1))


def sum_reliability(parts: Sequence[dict[str, list[Any]]]) -> dict[str, list[Any]]:
    """The counts of several folds or models together."""
    return {name: np.sum([part[name] for part in parts], axis=0).tolist() for name in parts[0]}


def regression_metrics(y: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    """Metrics of predicted targets [B, T]; for T > 1, their means over the targets and the metrics of each target.

    R² is None if all true values are equal, or if it is below the smallest float.
    """
    y, predicted = y.astype(np.float64), predicted.astype(np.float64)
    error = predicted - y
    each = []
    for t in range(y.shape[1]):
        true, errors = y[:, t], error[:, t]
        each.append({"mae": _mean(np.abs(errors)), "rmse": _rms(errors), "r2": _r2(true, errors)})
    means: dict[str, Any] = {"graphs": len(y)}
    for name in ("mae", "rmse", "r2"):
        values = [metrics[name] for metrics in each]
        means[name] = None if None in values else _mean(np.array(values))
    return means | ({"targets": each} if len(each) > 1 else {})


def _r2(y: np.ndarray, error: np.ndarray) -> float | None:
    if not len(y) or y.min() == y.max():  # rounding gives equal values a tiny variance
        return None
    with np.errstate(over="ignore"):
        r2 = float(1 - np.square(_rms(error) / _rms(y - y.mean())))
    return r2 if np.isfinite(r2) else None


def _rms(values: np.ndarray) -> float:
    """The root mean square, even if the squares would overflow."""
    largest = float(np.abs(values).max(initial=0))
    return largest * _mean(np.square(values / largest)) ** 0.5 if largest > 0 else 0.0


def metrics_text(metrics: dict[str, Any]) -> str:
    """The metrics as one line of text."""
    if "mae" in metrics:
        r2 = "undefined" if metrics["r2"] is None else f"{metrics['r2']:.3f}"
        return f"MAE {metrics['mae']:.4g}, RMSE {metrics['rmse']:.4g}, R² {r2}"
    auc = "" if metrics["roc_auc"] is None else f", ROC AUC {metrics['roc_auc']:.3f}"
    return (
        f"accuracy {100 * metrics['accuracy']:.1f} %, balanced accuracy {100 * metrics['balanced_accuracy']:.1f} %, "
        f"macro F1 {metrics['macro_f1']:.3f}{auc}"
    )


def _roc_auc(y: np.ndarray, probabilities: np.ndarray) -> float | None:
    classes = [1] if probabilities.shape[1] == 2 else np.unique(y).tolist()
    areas = [_area(y == c, probabilities[:, c]) for c in classes if 0 < (y == c).sum() < len(y)]
    return _mean(np.array(areas)) if areas else None


def _area(positive: np.ndarray, scores: np.ndarray) -> float:
    """The probability that a positive graph has a higher score than a negative one; ties count half."""
    _, index, counts = np.unique(scores, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[
        index
    ]  # from 1; equal scores share their mean rank
    ones, zeros = int(positive.sum()), int((~positive).sum())
    return float((rank[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros))


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0
