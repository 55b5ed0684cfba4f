"""A data set as one ragged batch, its minibatches and its splits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from samples import sample

from diffpool.data import GraphDataset, single_split
from diffpool.errors import DataError


@pytest.fixture(scope="module")
def dataset() -> GraphDataset:
    batch = sample()
    return GraphDataset(
        name="toy",
        graphs=batch.sparse,
        x=batch.x,
        y=torch.tensor([0, 1, 0, 1, 0, 1, 0, 1]),
        class_names=("no", "yes"),
        features="three numbers",
    )


def test_a_batch_has_graphs_features_and_labels_in_the_given_order(
    dataset: GraphDataset,
) -> None:
    batch, parts = dataset.batch([3, 0, 3]), sample().xs
    assert len(batch) == 3
    assert torch.equal(batch.x, torch.cat([parts[3], parts[0], parts[3]]))
    assert batch.y.tolist() == [1, 0, 1]
    assert batch.graphs.layout.sizes.tolist() == [7, 5, 7]
    assert repr(batch) == f"GraphBatch({batch.graphs!r}, 3 features)"


def test_features_or_labels_of_the_wrong_length_are_an_error(dataset: GraphDataset) -> None:
    with pytest.raises(DataError, match="one row of features for each of 25 nodes, got 24"):
        GraphDataset("toy", dataset.graphs, dataset.x[1:], dataset.y, ("no", "yes"), "")
    with pytest.raises(DataError, match="one label for each of 8 graphs, got 7"):
        GraphDataset("toy", dataset.graphs, dataset.x, dataset.y[1:], ("no", "yes"), "")


def test_the_properties_of_a_data_set(dataset: GraphDataset) -> None:
    assert (len(dataset), dataset.num_classes, dataset.num_features, dataset.largest) == (
        8,
        2,
        3,
        7,
    )
    assert repr(dataset) == "GraphDataset(toy: 8 graphs, 2 classes, 3 features (three numbers))"


# --- splits

LABELS = np.repeat([0, 1, 2], [60, 30, 10])


def test_a_split_has_every_graph_in_exactly_one_part() -> None:
    fold = single_split(LABELS, seed=0)
    everything = np.concatenate([fold.train, fold.validation, fold.test])
    assert sorted(everything) == list(range(100))
    assert (len(fold.train), len(fold.validation), len(fold.test)) == (80, 10, 10)
    assert repr(fold) == "Fold(train 80, validation 10, test 10)"


def test_every_part_of_a_split_has_the_same_class_proportions() -> None:
    fold = single_split(LABELS, seed=0)
    assert np.bincount(LABELS[fold.train]).tolist() == [48, 24, 8]
    assert np.bincount(LABELS[fold.validation]).tolist() == [6, 3, 1]
    assert np.bincount(LABELS[fold.test]).tolist() == [6, 3, 1]


def test_the_seed_determines_the_split() -> None:
    a, b, other = (single_split(torch.from_numpy(LABELS), seed) for seed in (0, 0, 1))
    assert np.array_equal(a.test, b.test)
    assert np.array_equal(a.validation, b.validation)
    assert not np.array_equal(a.test, other.test)


@pytest.mark.parametrize("labels", [[0, 0, 0, 1], [0, 1], [], [0] * 50 + [1]])
def test_too_few_graphs_for_a_split_are_an_error(labels: list[int]) -> None:
    with pytest.raises(
        DataError, match=r"some classes have too few graphs .*per class: .*Add graphs"
    ):
        single_split(np.array(labels, dtype=np.int64), seed=0)
