"""Warnings about a data set and a method before the training."""

from __future__ import annotations

import numpy as np
import pytest

from diffpool import DiffPoolClassifier
from diffpool.architecture import Architecture, flat
from diffpool.data import GraphDataset, as_raw
from diffpool.errors import DataError
from diffpool.experiments.advice import class_counts, imbalance, trivial_pooling


def complete(n: int) -> np.ndarray:
    return np.ones((n, n)) - np.eye(n)


def graphs(y: list, nodes: int = 3) -> GraphDataset:
    return GraphDataset.from_raw(as_raw([complete(nodes)] * len(y), y, name="mine"))


def test_classes_are_counted() -> None:
    dataset = graphs(["b", "a", "b", "b"])
    assert class_counts(dataset) == {"a": 1, "b": 3}
    assert class_counts(dataset, np.array([1, 2])) == {"a": 1, "b": 1}


def test_imbalanced_classes_give_a_warning() -> None:
    message = imbalance(graphs([0] * 9 + [1]))
    assert message.startswith("the classes are imbalanced: always predicting '0' has an accuracy")
    assert "of 90 %" in message
    assert "--class-weight balanced" in message
    assert imbalance(graphs([0] * 5 + [1] * 2)) is None
    assert imbalance(graphs([0.5, 1.5, 9.0])) is None  # targets


def test_a_single_cluster_for_most_graphs_gives_a_warning() -> None:
    small = graphs([0, 1], nodes=9)
    message = trivial_pooling(Architecture(), small)
    assert message.startswith("pooling is trivial: 100 % of the graphs have a single cluster")
    assert "median 9 nodes" in message
    assert "--min-clusters 4" in message


@pytest.mark.parametrize(
    "architecture",
    [
        Architecture(min_clusters=4),
        Architecture(ratio=0.25),
        Architecture(poolings=2),
        Architecture(clusters=(1,)),  # as asked for
        flat(Architecture()),
    ],
)
def test_other_poolings_give_no_warning(architecture: Architecture) -> None:
    assert trivial_pooling(architecture, graphs([0, 1], nodes=9)) is None


def test_large_graphs_and_single_nodes_give_no_warning() -> None:
    assert trivial_pooling(Architecture(), graphs([0, 1], nodes=11)) is None
    assert trivial_pooling(Architecture(), graphs([0, 1], nodes=1)) is None


def test_fit_warns_and_names_the_setting_that_mends_it() -> None:
    given, y = [complete(n) for n in (5, 6, 7, 8) * 4], [0, 1] * 8
    with pytest.warns(UserWarning, match="pooling is trivial.*min_clusters"):
        DiffPoolClassifier(epochs=1, hidden=4).fit(given, y)
    model = DiffPoolClassifier(epochs=1, hidden=4, min_clusters=3).fit(given, y)
    assert [levels[0].shape for levels in model.clusters(given[:2])] == [(5, 3), (6, 3)]


def test_a_single_class_is_refused_by_estimators() -> None:
    graphs = [complete(3)] * 12
    with pytest.raises(DataError, match=r"all 12 graphs have the class 'a': .* at least two"):
        DiffPoolClassifier(epochs=1).fit(graphs, ["a"] * 12)


def test_classes_with_one_graph_each_are_refused_by_estimators() -> None:
    graphs = [complete(3)] * 12
    with pytest.raises(DataError, match=r"12 graphs have 12 different classes: .* DiffPoolRegr"):
        DiffPoolClassifier(epochs=1).fit(graphs, list(range(12)))
