"""Metrics of predictions, as plain values: accuracy and others for classes; MAE, RMSE and R² for targets."""

from __future__ import annotations

from typing import Any

import numpy as np


def classification_metrics(y: np.ndarray, probabilities: np.ndarray) -> dict[str, Any]:
    """Metrics of class probabilities [B, C] for the true classes y [B], numbered from 0.

    Balanced accuracy is the mean recall over the classes in y. Macro F1 is the mean over the classes in y or among the
    predictions. ROC AUC is None if y has only one class; for more than two classes it is the mean over the classes in
    y, each against the rest. Rows of `confusion` are true classes, columns are predicted ones.
    """
    classes = probabilities.shape[1]
    predicted = probabilities.argmax(1)
    confusion = np.bincount(y * classes + predicted, minlength=classes**2).reshape(classes, classes)
    hits, true, found = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
    recall = hits[true > 0] / true[true > 0]
    f1 = 2 * hits[true + found > 0] / (true + found)[true + found > 0]
    return {
        "graphs": len(y),
        "accuracy": _mean(hits.sum(keepdims=True) / max(len(y), 1)),
        "balanced_accuracy": _mean(recall),
        "macro_f1": _mean(f1),
        "roc_auc": _roc_auc(y, probabilities),
        "confusion": confusion.tolist(),
    }


def class_scores(y: np.ndarray, probabilities: np.ndarray) -> dict[str, float | None]:
    """What the accuracy hides if classes are imbalanced: balanced accuracy in percent, macro F1 and ROC AUC."""
    metrics = classification_metrics(y, probabilities)
    return {
        "balanced_accuracy": 100 * metrics["balanced_accuracy"],
        "macro_f1": metrics["macro_f1"],
        "roc_auc": metrics["roc_auc"],
    }


def calibration_error(y: np.ndarray, probabilities: np.ndarray, bins: int = 15) -> float:
    """The expected calibration error of class probabilities [B, C]: |accuracy − confidence|, averaged over graphs.

    The confidence is the highest probability; graphs are divided into bins of equal width by it.
    """
    if not len(y):
        return 0.0
    confidence = probabilities.max(1).astype(np.float64)
    hits = (probabilities.argmax(1) == y).astype(np.float64)
    bin_of_graph = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    gaps = np.bincount(bin_of_graph, hits - confidence, bins)
    return float(np.abs(gaps).sum() / len(y))


def regression_metrics(y: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    """Metrics of predicted targets [B, T]; for T > 1 the means over the targets, and those of each target.

    R² is None if all true values are equal.
    """
    y, predicted = y.astype(np.float64), predicted.astype(np.float64)
    error = predicted - y
    each = []
    for t in range(y.shape[1]):
        total = np.square(y[:, t] - y[:, t].mean()).sum() if len(y) else 0.0
        each.append(
            {
                "mae": _mean(np.abs(error[:, t])),
                "rmse": _mean(np.square(error[:, t])) ** 0.5,
                "r2": float(1 - np.square(error[:, t]).sum() / total) if total > 0 else None,
            }
        )
    means: dict[str, Any] = {"graphs": len(y)}
    for name in ("mae", "rmse", "r2"):
        values = [own[name] for own in each]
        means[name] = None if None in values else _mean(np.array(values))
    return means | ({"targets": each} if len(each) > 1 else {})


def metrics_text(metrics: dict[str, Any]) -> str:
    """The metrics on one line."""
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
    rank = (np.cumsum(counts) - (counts - 1) / 2)[index]  # from 1; the mean of equal scores
    ones, zeros = int(positive.sum()), int((~positive).sum())
    return float((rank[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros))


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0
