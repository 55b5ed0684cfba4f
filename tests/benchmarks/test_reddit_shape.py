"""The generated data set has the shape of REDDIT-MULTI-12K, and its benchmark trains on every graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks import reddit_shape
from benchmarks.reddit_shape import Census, measure, reddit_shaped, shape
from diffpool.architecture import Architecture
from diffpool.builder import build
from diffpool.data import GraphDataset
from diffpool.training import CohortBatches


@pytest.fixture(scope="module")
def dataset() -> GraphDataset:
    return reddit_shaped(400)


def test_the_statistics_equal_those_of_the_real_data_set(dataset: GraphDataset) -> None:
    numbers = shape(dataset)
    assert numbers["graphs"] == 400
    assert numbers["mean_nodes"] == pytest.approx(391.41, rel=0.01)
    assert numbers["mean_edges"] == pytest.approx(456.89, rel=0.01)
    assert numbers["largest"] == 3782
    assert numbers["classes"] == 11
    assert numbers["features"] == "degree (128), log-degree (1)"


def test_the_graphs_are_trees_around_hubs(dataset: GraphDataset) -> None:
    layout, degree = dataset.graphs.layout, dataset.graphs.degree.numpy()
    max_degree = np.maximum.reduceat(degree, layout.starts.numpy())
    assert np.median(max_degree / layout.sizes.numpy()) > 0.3
    assert (degree == 1).mean() > 0.5
    assert degree.min() >= 1
    sizes = np.sort(layout.sizes.numpy())
    assert sizes[-40:].sum() > 0.35 * sizes.sum()  # a tenth of the graphs


def test_the_seed_determines_the_graphs() -> None:
    one, same, other = reddit_shaped(50), reddit_shaped(50), reddit_shaped(50, seed=1)
    torch.testing.assert_close(one.graphs.adj.indices, same.graphs.adj.indices)
    torch.testing.assert_close(one.y, same.y)
    assert one.graphs.layout.sizes.tolist() != other.graphs.layout.sizes.tolist()
    assert sorted(one.graphs.layout.sizes) == sorted(other.graphs.layout.sizes)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> GraphDataset:
    monkeypatch.setattr(reddit_shape, "LARGEST", 60)
    return reddit_shaped(33)


def test_an_epoch_of_all_folds_trains_every_graph(small: GraphDataset) -> None:
    result = measure(small, "cpu", folds=3)
    assert (
        result["graphs_trained"] == 3 * 20
    )  # 22 are not test graphs, and 2 of these are for validation
    assert result["nodes_trained"] > 60 * 5
    assert result["graphs_a_second"] == pytest.approx(60 / result["seconds"], rel=0.5)
    assert len(result["train_loss"]) == 3
    assert np.isfinite(result["train_loss"]).all()


def test_a_census_counts_the_graphs_and_nodes_of_each_model(small: GraphDataset) -> None:
    model = build(Architecture(hidden=4), small.num_features, 11, small.largest, models=2)
    batches = CohortBatches(small, model.clusters)
    census = Census.from_model(model, 2)
    chosen = np.array([[3, 1, 4], [5, -1, -1]])
    batch = batches.batch(chosen)
    model.train()(batch.graphs, batch.x, batch.plan)
    model.eval()(batch.graphs, batch.x, batch.plan)  # does not count
    sizes = small.graphs.layout.sizes.numpy()
    assert census.counts.tolist() == [[3, sizes[[3, 1, 4]].sum()], [1, sizes[5]]]


def test_a_missing_graph_is_noticed(small: GraphDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = CohortBatches.batch

    def without_the_last(self: CohortBatches, chosen: np.ndarray) -> object:
        chosen = chosen.copy()
        chosen[-1, -1] = -1
        return batch(self, chosen)

    monkeypatch.setattr(CohortBatches, "batch", without_the_last)
    with pytest.raises(AssertionError, match="dropped"):
        measure(small, "cpu", folds=3)
