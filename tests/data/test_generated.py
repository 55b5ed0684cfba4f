"""The generated data set: no node sees enough of its graph to tell the classes apart."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components, shortest_path

from diffpool.data import GraphDataset, embedded
from diffpool.errors import SettingError

GRAPHS, COMMUNITIES, MARKED, RUNGS = 200, 4, 2, 12
SIZE = 2 * RUNGS  # nodes in a community


@pytest.fixture(scope="module")
def dataset() -> GraphDataset:
    return embedded(GRAPHS, seed=5)


@pytest.fixture(scope="module")
def adjacency(dataset: GraphDataset) -> csr_matrix:
    adj = dataset.graphs.adj
    n = dataset.graphs.num_nodes
    return csr_matrix((np.ones(len(adj.indices)), adj.indices, adj.indptr), shape=(n, n))


@pytest.fixture(scope="module")
def distances(dataset: GraphDataset, adjacency: csr_matrix) -> np.ndarray:
    """Hops between the nodes of each graph: [graphs, n, n]."""
    n = COMMUNITIES * SIZE
    blocks = (adjacency[g * n : (g + 1) * n, g * n : (g + 1) * n] for g in range(GRAPHS))
    return np.stack([shortest_path(block, unweighted=True) for block in blocks])


def marks(dataset: GraphDataset) -> tuple[np.ndarray, np.ndarray]:
    """Which nodes carry mark A and mark B: [graphs, n] bool."""
    last = dataset.x[:, -2:].numpy().reshape(len(dataset), -1, 2)
    return last[..., 0] == 1, last[..., 1] == 1


def by_community(values: np.ndarray) -> np.ndarray:
    return values.reshape(len(values), COMMUNITIES, SIZE)


def test_the_data_depend_on_the_seed_only() -> None:
    a, b, other = embedded(20, seed=1), embedded(20, seed=1), embedded(20, seed=2)
    assert torch.equal(a.x, b.x)
    assert torch.equal(a.y, b.y)
    assert torch.equal(a.graphs.adj.indices, b.graphs.adj.indices)
    assert not torch.equal(a.x, other.x)
    assert not torch.equal(a.graphs.adj.indices, other.graphs.adj.indices)
    assert not torch.equal(a.y, other.y)


def test_the_default_data_set_is_well_formed() -> None:
    dataset = embedded()
    assert repr(dataset) == (
        "GraphDataset(embedded: 2000 graphs, 2 classes, 6 features (community code (4), mark A, mark B))"
    )
    assert dataset.largest == COMMUNITIES * SIZE
    assert dataset.graphs.layout.uniform
    assert dataset.class_names == ("apart", "together")
    assert dataset.x.dtype == torch.float32
    assert torch.isfinite(dataset.x).all()
    assert dataset.graphs.adj_t is dataset.graphs.adj
    # 34 edges in a ladder of 12 rungs, 4 between the communities of a graph, in both directions.
    assert dataset.graphs.num_edges == 2000 * 2 * (4 * 34 + 4)


@pytest.mark.parametrize("count", [GRAPHS, 7])
def test_the_classes_are_balanced(count: int) -> None:
    counts = torch.bincount(embedded(count).y).tolist()
    assert counts == [count - count // 2, count // 2]


def test_every_graph_has_the_same_number_of_each_mark(dataset: GraphDataset) -> None:
    a, b = marks(dataset)
    assert (a.sum(1) == 2 * MARKED).all()
    assert (b.sum(1) == 2 * MARKED).all()
    assert (by_community(a).any(2).sum(1) == MARKED).all()
    assert (by_community(b).any(2).sum(1) == MARKED).all()


def test_the_marks_share_their_communities_in_one_class_and_never_in_the_other(
    dataset: GraphDataset,
) -> None:
    a, b = (by_community(mark).any(2) for mark in marks(dataset))
    together = dataset.y.numpy() == 1
    assert (a[together] == b[together]).all()
    assert not (a & b)[~together].any()


def test_the_marks_are_at_opposite_ends_of_the_ladder(dataset: GraphDataset) -> None:
    a, b = (by_community(mark) for mark in marks(dataset))
    assert set(np.nonzero(a)[2]) == {0, 1}
    assert set(np.nonzero(b)[2]) == {SIZE - 2, SIZE - 1}


def test_the_communities_are_named_and_equally_large(dataset: GraphDataset) -> None:
    named = dataset.communities.numpy().reshape(GRAPHS, -1)
    expected = np.repeat(np.arange(COMMUNITIES), SIZE)
    assert (named == expected).all()


def test_every_graph_is_connected_and_so_is_every_community(
    dataset: GraphDataset, adjacency: csr_matrix
) -> None:
    assert connected_components(adjacency)[0] == GRAPHS
    rows, columns = adjacency.nonzero()
    label = dataset.communities.numpy() + COMMUNITIES * dataset.graphs.layout.graph_of_row.numpy()
    inside = label[rows] == label[columns]
    ladders = csr_matrix((np.ones(inside.sum()), (rows[inside], columns[inside])), adjacency.shape)
    assert connected_components(ladders)[0] == GRAPHS * COMMUNITIES


def test_both_classes_have_the_same_degrees(dataset: GraphDataset, adjacency: csr_matrix) -> None:
    """Communities are ladders, and every graph has four edges between them, at middle nodes."""
    label = dataset.communities.numpy()
    rows, columns = adjacency.nonzero()
    inside = np.bincount(rows[label[rows] == label[columns]], minlength=len(label))
    ladder = Counter({2: 4, 3: SIZE - 4})
    for community in inside.reshape(-1, SIZE):
        assert Counter(community.tolist()) == ladder
    outside = np.bincount(rows[label[rows] != label[columns]], minlength=len(label))
    outside = outside.reshape(GRAPHS, COMMUNITIES, SIZE)
    assert (outside.sum(2) == 2).all()
    assert set(np.nonzero(outside)[2]) == {RUNGS - 1, RUNGS}


def test_edges_between_communities_do_not_tell_the_classes_apart() -> None:
    """The share of communities whose two edges end at one node differs by less than three standard errors."""
    dataset = embedded(2000, seed=0)
    degree = dataset.graphs.degree.numpy().reshape(2000, -1)
    crowded = (degree == 5).sum(1)
    a, b = (crowded[dataset.y.numpy() == label] for label in (0, 1))
    error = np.sqrt(a.var() / len(a) + b.var() / len(b))
    assert crowded.std() > 0
    assert abs(a.mean() - b.mean()) < 3 * error


def test_the_two_marks_of_a_community_are_more_than_ten_hops_apart(
    dataset: GraphDataset, distances: np.ndarray
) -> None:
    a, b = marks(dataset)
    for graph in range(GRAPHS):
        assert distances[graph][np.ix_(a[graph], b[graph])].min() > 10


def test_no_node_sees_both_marks_within_five_hops(
    dataset: GraphDataset, distances: np.ndarray
) -> None:
    a, b = marks(dataset)
    for graph in range(GRAPHS):
        sees_a = distances[graph][:, a[graph]].min(1) <= 5
        sees_b = distances[graph][:, b[graph]].min(1) <= 5
        assert sees_a.any()
        assert not (sees_a & sees_b).any()


def test_as_many_nodes_see_each_mark_in_both_classes(
    dataset: GraphDataset, distances: np.ndarray
) -> None:
    """Within four hops, where no edge between communities is reached: the counts are equal in all graphs."""
    for mark in marks(dataset):
        seen = {(distances[g][:, mark[g]].min(1) <= 4).sum() for g in range(GRAPHS)}
        assert seen == {MARKED * 2 * 5}


def test_the_nodes_of_a_community_carry_its_unit_vector_with_noise(dataset: GraphDataset) -> None:
    codes = dataset.x[:, :-2].double().view(GRAPHS, COMMUNITIES, SIZE, -1)
    lengths = codes.mean(2).norm(dim=-1)
    assert (lengths - 1).abs().max() < 0.05  # the mean of 24 nodes with noise 0.05
    exact = embedded(10, noise=0.0).x[:, :-2].view(10, COMMUNITIES, SIZE, -1)
    assert torch.equal(exact, exact[:, :, :1].expand_as(exact))
    torch.testing.assert_close(exact.norm(dim=-1), torch.ones(10, COMMUNITIES, SIZE))


def test_too_many_marked_communities_are_an_error() -> None:
    with pytest.raises(SettingError, match="at least 6 communities for 3 marked ones, got 4"):
        embedded(10, communities=4, marked=3)


def test_the_sizes_can_be_changed() -> None:
    dataset = embedded(6, communities=6, marked=1, rungs=5, code_size=3)
    assert dataset.graphs.layout.sizes.tolist() == [60] * 6
    assert dataset.num_features == 5
    assert dataset.x[:, -2:].view(6, -1, 2).sum(1).tolist() == [[2, 2]] * 6
