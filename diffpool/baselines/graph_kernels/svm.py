"""A C-SVM on a Gram matrix (LIBSVM through scikit-learn), and the choice of C and h by cross-validation.

All values of C share one block of the Gram matrix, but each is fitted from scratch: LIBSVM stops within a tolerance, so
solutions for different C are not bitwise equal even where they are in theory. LIBSVM releases the GIL, so threads can
share one Gram matrix.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

# Iterations for a pair of classes: LIBSVM's own limit, which scikit-learn lifts. Only few features with a
# large C need nearly as many: COLLAB with degrees alone (WL, h = 0) and C = 1000 takes 4,000,000 and 16 s, other fits
# 10,000 and 0.2 s.
MAX_STEPS = 10_000_000
CACHE = 1000  # maximum MB of kernel rows: enough for 16,000 graphs


@dataclass(frozen=True)
class Choice:
    """The C and h with the most correct predictions on held-out graphs."""

    cost: float
    depth: int | None
    correct: int  # correct predictions over all inner folds


def right_by_cost(
    gram: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, costs: Sequence[float]
) -> list[int]:
    """The number of correct predictions on `test` after training on `train`, for each C. gram: [B, B], y: [B]."""
    if len(found := np.unique(y[train])) == 1:
        return [int((y[test] == found[0]).sum())] * len(costs)
    kernel = gram[np.ix_(train, train)]  # [n, n]
    unseen = gram[np.ix_(test, train)]  # [m, n]
    right = []
    for cost in costs:
        model = _svm(cost).fit(kernel, y[train])
        right.append(int((model.predict(unseen) == y[test]).sum()))
    return right


def best_choice(right: Mapping[tuple[int | None, float], int]) -> Choice:
    """The (h, C) with the most correct predictions; among ties the smallest h, then the smallest C."""

    def rank(point: tuple[int | None, float]) -> tuple[int, int, float]:
        depth, cost = point
        return -right[point], -1 if depth is None else depth, cost

    depth, cost = min(right, key=rank)
    return Choice(cost, depth, right[depth, cost])


@contextmanager
def quiet() -> Iterator[None]:
    """Ignore the warning of fits that reach `MAX_STEPS`. It affects all threads, so enter it before starting them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _svm(cost: float) -> SVC:
    return SVC(C=cost, kernel="precomputed", cache_size=CACHE, max_iter=MAX_STEPS)
