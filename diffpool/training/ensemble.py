"""Ensembles: the graphs that each member trains on, the mean of the outputs, and its uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from diffpool.data import Fold, hold_out
from diffpool.training.metrics import expected_calibration_error, reliability, sum_reliability


def member_fold(fold: Fold, y: np.ndarray, seed: int) -> Fold:
    """The fold of a member, with its own stratified validation part of the training and validation graphs.

    The part is as large as the validation part of the fold. If all graphs are in both parts, because there are too few
    of them to split, they stay there.
    """
    graphs = np.union1d(fold.train, fold.validation)
    if len(graphs) < len(fold.train) + len(fold.validation):
        return fold
    share = len(fold.validation) / len(graphs)
    train, validation = hold_out(graphs, y, seed, share)
    return Fold(train, validation, fold.test)


def mean_outputs(outputs: np.ndarray, weights: Sequence[float] | None = None) -> np.ndarray:
    """The mean of the outputs [M, B, K] of M models, class probabilities or targets: [B, K]."""
    return np.average(outputs.astype(np.float64), axis=0, weights=weights)


def class_uncertainty(
    probabilities: np.ndarray, weights: Sequence[float] | None = None
) -> dict[str, np.ndarray]:
    """The uncertainty of the mean of class probabilities [M, B, K], in nats: [B] each.

    `entropy` is that of the mean. `disagreement` is the part of it that comes from differences between the models: the
    mutual information of class and model, which is 0 if all models agree.
    """
    entropy = _entropy(mean_outputs(probabilities, weights))
    within = np.average(_entropy(probabilities.astype(np.float64)), axis=0, weights=weights)
    return {"entropy": entropy, "disagreement": np.maximum(entropy - within, 0.0)}


def target_spread(targets: np.ndarray, weights: Sequence[float] | None = None) -> np.ndarray:
    """The standard deviation of the targets [M, B, T] over the models: [B, T]."""
    deviation = targets.astype(np.float64) - mean_outputs(targets, weights)
    return np.sqrt(np.average(np.square(deviation), axis=0, weights=weights))


def ensemble_scores(y: np.ndarray, probabilities: np.ndarray) -> dict[str, Any]:
    """Accuracy and calibration of M models [M, B, K] and of their mean, on graphs with the classes y [B].

    Accuracies are in percent. `certain_half` and `uncertain_half` are the accuracies on the half of the graphs with the
    lowest entropy of the mean, and on the other half. `reliability` counts are those of the mean, and of all members
    together.
    """
    mean = mean_outputs(probabilities)
    counts = reliability(y, mean)
    each = [reliability(y, values) for values in probabilities]
    order = np.argsort(_entropy(mean), kind="stable")
    hits = (mean.argmax(1) == y)[order]
    half = len(hits) // 2
    return {
        "accuracy": _percent(hits),
        "calibration_error": expected_calibration_error(counts),
        "log_loss": _log_loss(y, mean),
        "certain_half": _percent(hits[:half]),
        "uncertain_half": _percent(hits[half:]),
        "member_accuracies": [_percent(values.argmax(1) == y) for values in probabilities],
        "member_calibration_errors": [expected_calibration_error(values) for values in each],
        "member_log_losses": [_log_loss(y, values) for values in probabilities],
        "reliability": counts,
        "member_reliability": sum_reliability(each),
    }


def _entropy(probabilities: np.ndarray) -> np.ndarray:
    tiny = np.finfo(np.float64).tiny
    return -(probabilities * np.log(np.maximum(probabilities, tiny))).sum(-1)


def _log_loss(y: np.ndarray, probabilities: np.ndarray) -> float:
    chosen = probabilities[np.arange(len(y)), y].astype(np.float64)
    return float(-np.log(np.maximum(chosen, 1e-15)).mean()) if len(y) else 0.0


def _percent(hits: np.ndarray) -> float:
    return 100 * float(hits.mean()) if len(hits) else 0.0
