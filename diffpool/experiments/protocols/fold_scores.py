"""Scores of a fold with several models: an ensemble, or runs whose scores are averaged."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np

from diffpool.experiments.plan import FoldScore, Task, Trained
from diffpool.experiments.records import REGRESSION_METRICS
from diffpool.training.ensemble import ensemble_scores, mean_outputs
from diffpool.training.metrics import class_scores, regression_metrics


def mean_metrics(results: Sequence[Trained]) -> dict[str, Any]:
    """The mean of each metric over several runs; None where one is undefined."""
    found = [result.test_metrics for result in results if result.test_metrics is not None]
    means: dict[str, Any] = {"graphs": found[0]["graphs"]}
    for name in REGRESSION_METRICS:
        values = [metrics[name] for metrics in found]
        means[name] = None if None in values else fmean(values)
    return means


def mean_scores(results: Sequence[Trained]) -> dict[str, Any]:
    """`scores`: the mean of the test scores of these models."""
    found = [result.test_metrics for result in results if result.test_metrics is not None]
    values = {name: [scores[name] for scores in found] for name in found[0]}
    return {"scores": {name: None if None in v else fmean(v) for name, v in values.items()}}


def ensemble_score(
    repeat: int, fold: int, tasks: Sequence[Task], results: Sequence[Trained]
) -> FoldScore:
    """The score of the mean of the models of a fold, with those of its members as details."""
    tested = [result.held_out for result in results if result.held_out is not None]
    y, outputs = tested[0].y, np.stack([held_out.outputs for held_out in tested])
    epoch = round(fmean(result.epoch for result in results))
    members = {
        "members": len(tested),
        "seeds": [task.method.training.seed for task in tasks],
        "epochs": [result.epoch for result in results],
    }
    if y.ndim > 1:  # targets
        metrics = regression_metrics(y, mean_outputs(outputs))
        details = {"metrics": metrics, **members}
        details["member_metrics"] = [result.test_metrics for result in results]
        return FoldScore(repeat, fold, None, epoch, tasks[0], tuple(results), details)
    scores = ensemble_scores(y, outputs)
    accuracy = scores.pop("accuracy") / 100
    members["scores"] = class_scores(y, mean_outputs(outputs))
    return FoldScore(repeat, fold, accuracy, epoch, tasks[0], tuple(results), members | scores)
