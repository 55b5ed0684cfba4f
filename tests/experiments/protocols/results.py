"""What protocols are tested on: classes of graphs, folds that cover them, results of models."""

from __future__ import annotations

import numpy as np

from diffpool.experiments.plan import Trained

Y = np.random.default_rng(0).choice(3, 123, p=[0.6, 0.3, 0.1])


def covers(parts: list[np.ndarray], count: int) -> bool:
    return np.array_equal(np.sort(np.concatenate(parts)), np.arange(count))


def trained(accuracy: float, loss: float = 1.0, curve: tuple[float, ...] = ()) -> Trained:
    scores = {"balanced_accuracy": 100 * accuracy, "macro_f1": accuracy, "roc_auc": None}
    return Trained(2, loss, accuracy, curve, accuracy, 10, 100, 1.0, test_metrics=scores)
