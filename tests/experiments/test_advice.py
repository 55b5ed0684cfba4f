"""Warnings about a data set and a method before the training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from diffpool import DiffPoolClassifier
from diffpool.architecture import Architecture, flat
from diffpool.data import Fold, GraphDataset, as_raw, embedded
from diffpool.errors import DataError
from diffpool.experiments.advice import (
    class_counts,
    collapsed_pooling,
    imbalance,
    trivial_pooling,
)
from diffpool.experiments.cohorts import initial_models


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


def collapsed(dataset: GraphDataset, rows: float, models: int = 1, **settings: int) -> str | None:
    """The warning for models whose pooling networks prefer the first cluster by this much."""
    architecture = Architecture(hidden=4, min_clusters=2, **settings)
    folds = [Fold(np.arange(len(dataset)), np.arange(len(dataset)), np.arange(0))] * models
    model = initial_models(architecture, range(models), dataset, folds)
    with torch.no_grad():
        for pooler in model.poolers:
            *_, last = [p for name, p in pooler.gnn.named_parameters() if name.endswith("bias")]
            last[..., 0] += rows
    return collapsed_pooling(architecture, model, dataset, [fold.validation for fold in folds])


@pytest.mark.parametrize("models", [1, 2])
def test_a_pooling_that_uses_one_cluster_gives_a_warning(models: int) -> None:
    dataset = embedded(12)
    assert collapsed(dataset, rows=0, models=models) is None
    message = collapsed(dataset, rows=9, models=models)
    assert message is not None
    assert message.startswith(
        "pooling uses a single cluster: 100 % of the nodes of validation graphs are"
    )
    assert "link_weight" in message


def test_graphs_that_cannot_have_several_clusters_are_no_collapse() -> None:
    assert collapsed(graphs([0, 1], nodes=1), rows=9) is None
    assert collapsed(graphs([0, 1], nodes=9), rows=9) is None  # all nodes look the same
    star = np.zeros((5, 5))
    star[0, 1:] = star[1:, 0] = 1
    stars = GraphDataset.from_raw(as_raw([star] * 2, [0, 1]))
    assert collapsed(stars, rows=9) is not None


def test_flat_models_and_fixed_clusters_give_no_warning() -> None:
    assert collapsed(embedded(12), rows=9, poolings=0) is None
    fixed = replace(Architecture(), pooler="uniform")
    dataset = embedded(12)
    fold = Fold(np.arange(12), np.arange(12), np.arange(0))
    model = initial_models(fixed, [0], dataset, [fold])
    assert collapsed_pooling(fixed, model, dataset, [fold.validation]) is None


def test_training_warns_once_about_a_collapse() -> None:
    star = np.zeros((30, 30))
    star[0, 1:] = star[1:, 0] = 1  # 29 of 30 nodes look the same
    given, y = [star] * 16, [0, 1] * 8
    with pytest.warns(UserWarning, match="uses a single cluster") as found:
        DiffPoolClassifier(epochs=1, hidden=4, min_clusters=2).fit(given, y)
    assert [str(w.message)[:29] for w in found].count("pooling uses a single cluster") == 1
