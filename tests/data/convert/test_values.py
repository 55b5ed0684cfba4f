"""Classes and targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from diffpool.data.convert import as_raw
from diffpool.errors import DataError

pyg = pytest.importorskip("torch_geometric.data")

TRIANGLE = np.ones((3, 3)) - np.eye(3)
PAIR = np.array([[0.0, 1.0], [1.0, 0.0]])


def data(n: int, edges: list[tuple[int, int]], **more: Any) -> Any:
    index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    return pyg.Data(edge_index=index, num_nodes=n, **more)


@pytest.mark.parametrize(
    ("y", "names"),
    [
        (["b", "a"], ["b", "a"]),
        ([10, 9], ["10", "9"]),
        (np.array([True, False]), ["True", "False"]),
        (torch.tensor([1, 0]), ["1", "0"]),
        ((np.int64(3), 4), ["3", "4"]),
        (np.array(["u", "v"], dtype=object), ["u", "v"]),
        (torch.tensor([[1], [0]]), ["1", "0"]),
    ],
)
def test_words_and_integers_are_classes(y: Any, names: list[str]) -> None:
    raw = as_raw([PAIR, PAIR], y)
    assert raw.classes.words() == names
    assert raw.targets is None


def test_classes_are_in_numerical_order() -> None:
    assert as_raw([PAIR] * 3, [10, 9, -1]).classes.names == (("-1", "9", "10"),)


@pytest.mark.parametrize(
    ("y", "targets"),
    [
        (np.array([0.5, 1.0]), [[0.5], [1]]),
        ([0.5, 1], [[0.5], [1]]),
        (torch.tensor([[1.0, 2.0], [3.0, 4.0]]), [[1, 2], [3, 4]]),
        ([np.float32(0.5), 2.0], [[0.5], [2]]),
    ],
)
def test_floats_are_targets(y: Any, targets: list[list[float]]) -> None:
    raw = as_raw([PAIR, PAIR], y)
    assert raw.targets.tolist() == targets
    assert raw.classes is None


def test_y_replaces_the_targets_of_the_graphs() -> None:
    raw = as_raw([PAIR, PAIR], ["a", "b"])
    assert as_raw(raw, [0.5, 1.5]).classes is None
    assert as_raw(raw, [0.5, 1.5]).targets.tolist() == [[0.5], [1.5]]
    assert as_raw(raw, ["c", "d"]).classes.words() == ["c", "d"]
    odd = [data(1, [], y=torch.tensor([1, 2])), data(1, [])]  # its y is not read
    assert as_raw(odd, [0, 1]).classes.words() == ["0", "1"]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1], "expected one y for each of 2 graphs, got 1. Are some missing"),
        (3, "expected y as a list or array, got int"),
        (torch.tensor(3), "expected y as a list or array, got Tensor"),
        ("ab", "expected y as a list or array, got str"),
        ([1, None], "graph 1: expected a class .*, got None"),
        (["a", 0.5], "graph 1: expected a class .*, got 0.5. Use classes or targets"),
        (np.zeros((2, 2), int), r"graph 0: expected a class .*, got \[0, 0\]"),
        ([0.5, float("nan")], r"graph 1: expected finite numbers as targets, .* got \[nan\]"),
        ([0.5, 10**400], "graph 1: expected finite numbers as targets"),
        ([[0.5, 1.5], [0.5]], "graph 1: expected 2 targets, as in graph 0, got 1"),
        ([[0.5], []], "graph 1: expected finite numbers as targets, .* got"),
    ],
)
def test_an_invalid_y_is_an_error(y: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        as_raw([PAIR, PAIR], y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.ma.masked_array([1, 2], [False, True]), "y: expected no masked values"),
        ([0, 10**5000], "graph 1: expected a class of 1 to 4000 .* got an integer of 16610 bits"),
        (["a", "\ud800"], "graph 1: expected a class of 1 to 4000 valid characters"),
        (["a", ""], "graph 1: expected a class of 1 to 4000 valid characters, got ''"),
    ],
)
def test_a_class_without_a_proper_name_is_an_error(y: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        as_raw([TRIANGLE, PAIR], y)


def test_a_masked_adjacency_matrix_is_an_error() -> None:
    with pytest.raises(DataError, match="graph 0: adjacency: expected no masked values"):
        as_raw([np.ma.masked_array(PAIR, PAIR > 0)])


def test_classes_of_mixed_types_are_an_error() -> None:
    graphs = [np.eye(2), np.eye(2)]
    with pytest.raises(
        DataError, match=r"graph 1: expected classes of one type, like 1 of graph 0"
    ):
        as_raw(graphs, [1, "1"])
