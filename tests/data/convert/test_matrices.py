"""Adjacency matrices of SciPy and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from diffpool.data.convert import as_raw
from diffpool.errors import DataError
from tests.data.test_jsonl import assert_same

TRIANGLE = np.ones((3, 3)) - np.eye(3)
PAIR = np.array([[0.0, 1.0], [1.0, 0.0]])


def test_an_entry_is_an_edge_from_its_row_to_its_column() -> None:
    raw = as_raw([np.array([[0, 1], [0, 0]])])
    assert raw.directed
    assert (raw.source.tolist(), raw.target.tolist()) == ([0], [1])
    assert raw.edge_weights is None


def test_duplicate_entries_are_added_and_zeros_are_not_edges() -> None:
    twice = sp.coo_array(([1.0, 1.0, 0.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    raw = as_raw([twice, PAIR])
    assert raw.num_edges == 3
    assert raw.edge_weights.tolist() == [2, 1, 1]
    assert twice.nnz == 3  # the matrix itself is unchanged


def test_booleans_are_edges_without_weights() -> None:
    assert_same(as_raw([TRIANGLE > 0]), as_raw([TRIANGLE]))


def test_features_may_be_sparse_or_a_tensor() -> None:
    expected = as_raw([(PAIR, np.eye(2))])
    assert expected.node_attributes.tolist() == [[1, 0], [0, 1]]
    assert_same(as_raw([(PAIR, sp.eye_array(2))]), expected)
    assert_same(as_raw([[PAIR, torch.eye(2)]]), expected)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (
            np.ones((2, 3)),
            r"expected a square matrix of numbers, got float64 \[2, 3\]. Pass features",
        ),
        (PAIR.astype(complex), "expected a square matrix of numbers, got complex128"),
        (np.array([["a"]]), "expected a square matrix of numbers, got <U1"),
        (-PAIR, "expected edge weights of at least 0, got -1.0"),
        (PAIR * np.nan, "expected finite edge weights, got NaN, infinity or"),
        (
            (PAIR, np.ones((3, 1))),
            r"expected features as numbers \[2, columns\], got float64 \[3, 1\]",
        ),
        ((PAIR, [["a"], ["b"]]), r"expected features as numbers \[2, columns\], got <U1"),
        ((PAIR, [[1], [2, 3]]), r"expected features as numbers \[2, columns\]"),
        ((PAIR, [[1], [np.inf]]), "expected finite features, got NaN, infinity or"),
    ],
)
def test_an_invalid_matrix_is_an_error(graph: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"graph 1: {message}"):
        as_raw([TRIANGLE if isinstance(graph, np.ndarray) else (TRIANGLE, np.ones((3, 1))), graph])


def test_all_matrices_have_features_or_none() -> None:
    with pytest.raises(DataError, match="graph 1: expected features in every graph or in none"):
        as_raw([(PAIR, np.eye(2)), PAIR])
