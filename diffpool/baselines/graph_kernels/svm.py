"""C-SVM on a Gram matrix, by LIBSVM through scikit-learn, and the choice of C and h by cross-validation.

One block of the Gram matrix serves all values of C. There are no shortcuts between them: LIBSVM stops within a
tolerance, so a solution for one C is not, to the bit, that of another, even where theory says that it could be. LIBSVM
releases Python's lock, so threads share one Gram matrix.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

# Of a pair of classes; LIBSVM's own limit, which scikit-learn lifts. Few features and a large C come near to it: COLLAB
# by degrees alone (WL, h = 0) with C = 1000 takes four million and 16 s, other fits of COLLAB 10,000 and 0.2 s.
MOST_STEPS = 10_000_000
CACHE = 1000  # MB of kernel rows, at most: those of 16,000 graphs


@dataclass(frozen=True)
class Choice:
    """C and h with the most held-out graphs predicted right."""

    cost: float
    depth: int | None
    correct: int  # held-out graphs, of all inner folds


def right_by_cost(
    gram: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, costs: Sequence[float]
) -> list[int]:
    """How many graphs of `test` are predicted right after training on `train`, for each C. gram: [B, B], y: [B]."""
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
    """The (h, C) with the most graphs predicted right; of equal ones the smallest h, then the smallest C."""

    def rank(point: tuple[int | None, float]) -> tuple[int, int, float]:
        depth, cost = point
        return -right[point], -1 if depth is None else depth, cost

    depth, cost = min(right, key=rank)
    return Choice(cost, depth, right[depth, cost])


@contextmanager
def quiet() -> Iterator[None]:
    """No warning of a fit that reaches `MOST_STEPS`. For all threads, so it is entered before they start."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _svm(cost: float) -> SVC:
    return SVC(C=cost, kernel="precomputed", cache_size=CACHE, max_iter=MOST_STEPS)
