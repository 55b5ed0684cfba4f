"""The SVM on a Gram matrix: the choice of C and h, and training on a single class."""

from __future__ import annotations

import numpy as np

from diffpool.baselines.graph_kernels.svm import best_choice, right_by_cost


def test_ties_are_broken_by_the_smallest_h_and_then_the_smallest_c() -> None:
    correct = {(1, 0.1): 5, (0, 10.0): 7, (0, 1.0): 7, (1, 1.0): 7, (0, 0.1): 6}
    choice = best_choice(correct)
    assert (choice.depth, choice.cost, choice.correct) == (0, 1.0, 7)
    assert best_choice({(None, 2.0): 1, (None, 1.0): 1}).cost == 1.0


def test_a_training_set_with_one_class_predicts_that_class() -> None:
    y = np.array([0, 0, 0, 1])
    assert right_by_cost(np.eye(4), y, np.array([0, 1]), np.array([2, 3]), [1.0, 2.0]) == [1, 1]


def test_correct_predictions_are_counted_for_each_c() -> None:
    """Two points on a line for each class: a fit with a tiny C predicts the majority class of the training set."""
    x, y = np.array([-2.0, -1.0, 1.0, -1.5, 2.0]), np.array([0, 0, 1, 0, 1])
    counts = right_by_cost(np.outer(x, x), y, np.arange(3), np.array([3, 4]), [1e-6, 10.0])
    assert counts == [1, 2]
