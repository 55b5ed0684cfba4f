"""Weights of classes and graphs, and scaled targets: hand-computed cases and laws of the training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from diffpool.architecture import Architecture
from diffpool.data import Fold, GraphDataset, embedded
from diffpool.errors import SettingError
from diffpool.experiments.cohorts import initial_models
from diffpool.training import Cohort, CohortBatches, LossTargets, Training, score
from diffpool.training.loss_targets import packed, target_scale

SMALL = Architecture(hidden=4)
TEN = Fold(np.arange(10), np.arange(10, 15), np.arange(15, 20))


@pytest.fixture(scope="module")
def dataset() -> GraphDataset:
    return embedded(20, seed=0, rungs=2)


def with_classes(dataset: GraphDataset, y: list[int]) -> GraphDataset:
    return replace(dataset, y=torch.tensor(y))


def with_targets(dataset: GraphDataset) -> GraphDataset:
    y = torch.linspace(100, 300, 40).view(20, 2)
    return replace(dataset, y=y, class_names=())


def parameters(dataset: GraphDataset, folds: list[Fold], configs: list[Training]) -> dict:
    """The parameters of models trained for two epochs side by side."""
    model = initial_models(SMALL, [config.seed for config in configs], dataset, folds)
    cohort = Cohort(model, dataset, folds, configs, target_folds=folds)
    for _ in range(2):
        cohort.train_epoch()
    return {name: p.detach().clone() for name, p in cohort.in_training.named_parameters()}


def test_balanced_weights_give_every_class_the_same_total_weight(dataset: GraphDataset) -> None:
    given = with_classes(dataset, [0] * 8 + [1] * 2 + [0] * 10)
    configs = [Training(class_weight="balanced"), Training()]
    loss_targets = LossTargets.for_training(given, [TEN, TEN], configs)
    assert loss_targets.class_weights.tolist() == [[0.625, 2.5], [1.0, 1.0]]
    y, weights = loss_targets(torch.tensor([0, 1, 1, 0, 0, 1]), models=2)
    assert y.tolist() == [0, 1, 1, 0, 0, 1]
    assert weights.tolist() == [0.625, 2.5, 2.5, 1.0, 1.0, 1.0]


def test_a_class_without_training_graphs_weighs_as_much_as_an_average_graph(
    dataset: GraphDataset,
) -> None:
    given = replace(with_classes(dataset, [0] * 8 + [1] * 2 + [2] * 10), class_names=(0, 1, 2))
    loss_targets = LossTargets.for_training(given, [TEN], [Training(class_weight="balanced")])
    assert loss_targets.class_weights.tolist() == [[0.625, 2.5, 1.0]]


@pytest.mark.parametrize("regression", [False, True])
def test_all_graphs_count_the_same_in_scores(dataset: GraphDataset, regression: bool) -> None:
    given = with_targets(dataset) if regression else dataset
    weighted = replace(given, weights=torch.arange(20.0))
    model = initial_models(SMALL, [0], given, [TEN])
    graphs = np.arange(20)
    assert score(model, weighted, graphs) == score(model, given, graphs)


def test_without_weights_nothing_is_weighted(dataset: GraphDataset) -> None:
    loss_targets = LossTargets.for_training(dataset, [TEN], [Training()])
    y, weights = loss_targets(dataset.y[:4], models=1)
    assert torch.equal(y, dataset.y[:4])
    assert weights is None


def test_targets_are_scaled_on_the_training_graphs_of_each_model(dataset: GraphDataset) -> None:
    given = with_targets(dataset)
    other = Fold(np.arange(5, 15), TEN.validation, TEN.test)
    folds = [TEN, other]
    loss_targets = LossTargets.for_training(given, folds, [Training()] * 2, target_folds=folds)
    y, _ = loss_targets(torch.cat([given.y[TEN.train], given.y[other.train]]), models=2)
    for own in y.view(2, 10, 2):
        assert torch.allclose(own.mean(0), torch.zeros(2), atol=1e-5)
        assert torch.allclose(own.std(0, correction=0), torch.ones(2), atol=1e-5)


def test_tiny_targets_are_scaled_and_constant_ones_are_not(dataset: GraphDataset) -> None:
    tiny = torch.linspace(1e-12, 2e-12, 20)
    given = replace(with_targets(dataset), y=torch.stack([tiny, torch.full((20,), 0.1)], 1))
    _, sd = target_scale(given, TEN)
    assert sd[0] == pytest.approx(np.std(tiny[:10].numpy().astype(float)), rel=1e-5)
    assert sd[1] == 1


@pytest.mark.parametrize("regression", [False, True])
def test_weights_travel_with_the_graphs(dataset: GraphDataset, regression: bool) -> None:
    given = with_targets(dataset) if regression else dataset
    given = replace(given, weights=torch.arange(20.0))
    batch = CohortBatches(given, ()).batch(np.array([[3, 11], [7, -1]]))
    y, weights = LossTargets.for_training(given, [TEN] * 2, [Training()] * 2)(batch.y, models=2)
    assert weights.tolist() == [3, 11, 7, 0]
    assert torch.equal(y[:3], given.y[[3, 11, 7]])
    assert y.dtype == given.y.dtype
    assert packed(replace(given, weights=None)) is given.y


@pytest.mark.parametrize("kind", ["weights", "balanced classes"])
def test_equal_weights_change_nothing(dataset: GraphDataset, kind: str) -> None:
    given = with_classes(dataset, [0, 1] * 10)
    plain = parameters(given, [TEN], [Training()])
    if kind == "weights":
        same = parameters(replace(given, weights=torch.ones(20)), [TEN], [Training()])
    else:
        same = parameters(given, [TEN], [Training(class_weight="balanced")])
    assert all(torch.equal(plain[name], same[name]) for name in plain)


def test_the_class_of_a_graph_with_weight_0_does_not_matter(dataset: GraphDataset) -> None:
    weights = torch.ones(20)
    weights[4] = 0
    given = replace(dataset, weights=weights)
    other = with_classes(given, [1 - int(c) if g == 4 else int(c) for g, c in enumerate(given.y)])
    one, two = (parameters(d, [TEN], [Training()]) for d in (given, other))
    assert all(torch.equal(one[name], two[name]) for name in one)
    changed = parameters(replace(other, weights=None), [TEN], [Training()])
    assert any(not torch.equal(one[name], changed[name]) for name in one)


@pytest.mark.parametrize("kind", ["balanced", "weights", "targets"])
def test_every_model_is_weighted_and_scaled_as_if_it_were_alone(
    dataset: GraphDataset, kind: str
) -> None:
    given = with_classes(dataset, [0] * 7 + [1] * 3 + [0] * 8 + [1] * 2)
    given = with_targets(given) if kind == "targets" else given
    given = replace(given, weights=torch.linspace(0, 2, 20) if kind == "weights" else None)
    given = replace(given, graphs=given.graphs.to(dtype=torch.float64), x=given.x.double())
    given = replace(given, y=given.y.double()) if kind == "targets" else given
    folds = [TEN, Fold(np.arange(6, 16), TEN.validation, TEN.test)]
    weight = "balanced" if kind == "balanced" else None
    configs = [Training(class_weight=weight), Training(seed=1)]
    together = parameters(given, folds, configs)
    for m in range(2):
        alone = parameters(given, [folds[m]], [configs[m]])
        for name, value in alone.items():
            torch.testing.assert_close(together[name][m], value[0], rtol=1e-8, atol=1e-10)


def test_balanced_classes_need_classes(dataset: GraphDataset) -> None:
    with pytest.raises(
        SettingError, match="class_weight needs classes, but embedded has regression targets"
    ):
        LossTargets.for_training(with_targets(dataset), [TEN], [Training(class_weight="balanced")])
