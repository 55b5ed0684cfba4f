"""The batch types: construction from edges, and the four operations, against dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import torch
from samples import CLUSTERS, KINDS, SIZES, Sample, gradients, local, randn, sample
from torch import Tensor

from diffpool.errors import DataError
from diffpool.graphs import DenseGraphs, SparseGraphs
from diffpool.layout import Layout

HOWS = ("sum", "mean", "max")
STORAGES = ("sparse", "dense")


def exact(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def matrices(graphs: SparseGraphs) -> tuple[Tensor, Tensor]:
    """A and Aᵀ of the whole batch, as they are stored."""
    return tuple(
        reference.dense_matrix(m.indptr, m.indices, m.values) for m in (graphs.adj, graphs.adj_t)
    )


# --- from edges --------------------------------------------------------------------------------------------------


def test_from_edges_makes_the_block_diagonal_matrix_and_its_transpose(ragged: Sample) -> None:
    adj, adj_t = matrices(ragged.sparse)
    expected = torch.block_diag(*ragged.adjs)
    exact(adj, expected)
    exact(adj_t, expected.T)


def test_the_order_of_the_edges_does_not_matter(ragged: Sample) -> None:
    target, source = torch.block_diag(*ragged.adjs).nonzero().T
    weight = torch.block_diag(*ragged.adjs)[target, source]
    order = torch.randperm(len(source))
    shuffled = SparseGraphs.from_edges(
        ragged.sizes, source[order], target[order], weight[order], dtype=torch.float64
    )
    exact(matrices(shuffled)[0], matrices(ragged.sparse)[0])


def test_edges_given_twice_count_once_without_weights() -> None:
    graphs = SparseGraphs.from_edges([2], [0, 0, 1, 0], [1, 1, 0, 1])
    assert graphs.num_edges == 2
    assert matrices(graphs)[0].tolist() == [[0, 1], [1, 0]]
    assert graphs.degree.tolist() == [1, 1]
    assert graphs.squared_norm.tolist() == [2]


def test_the_weights_of_edges_given_twice_add_up() -> None:
    graphs = SparseGraphs.from_edges([2], [0, 0, 1, 0], [1, 1, 0, 1], [1.0, 2.0, 5.0, 0.5])
    assert graphs.num_edges == 2
    assert matrices(graphs)[0].tolist() == [[0, 5], [3.5, 0]]
    assert graphs.degree.tolist() == [5, 3.5]
    assert graphs.squared_norm.tolist() == [25 + 3.5**2]


def test_a_self_loop_counts_once() -> None:
    graphs = SparseGraphs.from_edges([1, 2], [0, 1, 2, 2], [0, 2, 1, 2])
    assert graphs.num_edges == 4
    assert matrices(graphs)[0].tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 1]]
    assert graphs.degree.tolist() == [1, 1, 2]
    assert graphs.squared_norm.tolist() == [1, 3]


def test_an_edge_points_from_source_to_target() -> None:
    graphs = SparseGraphs.from_edges([3], [0, 1], [2, 2])
    h = torch.tensor([[1.0], [10.0], [100.0]], requires_grad=True)
    out = graphs.propagate(h)
    assert out.tolist() == [[0], [0], [11]]
    (gradient,) = torch.autograd.grad(out, h, torch.tensor([[1.0], [2.0], [3.0]]))
    assert gradient.tolist() == [[3], [3], [0]]


@pytest.mark.parametrize(
    ("kind", "symmetric"),
    [("undirected", True), ("weighted", True), ("loops", True), ("directed", False)],
)
def test_a_symmetric_batch_stores_its_matrix_once(kind: str, symmetric: bool) -> None:
    graphs = sample(**KINDS[kind]).sparse
    assert (graphs.adj_t is graphs.adj) is symmetric


def test_edges_in_both_directions_with_different_weights_are_directed() -> None:
    graphs = SparseGraphs.from_edges([2], [0, 1], [1, 0], [2.0, 3.0])
    adj, adj_t = matrices(graphs)
    assert adj.tolist() == [[0, 3], [2, 0]]
    assert adj_t.tolist() == [[0, 2], [3, 0]]


def test_arrays_lists_and_tensors_make_the_same_batch() -> None:
    edges = [0, 1, 2], [1, 0, 2]
    for kind in (list, np.array, torch.tensor):
        graphs = SparseGraphs.from_edges(kind([2, 1]), *(kind(e) for e in edges))
        assert matrices(graphs)[0].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]


def test_graphs_without_nodes_or_edges_are_graphs() -> None:
    graphs = SparseGraphs.from_edges([0, 2, 0], [], [])
    assert repr(graphs) == "SparseGraphs(3 graphs, 2 nodes, 0 edges)"
    assert graphs.degree.tolist() == [0, 0]
    assert graphs.inverse_degree.tolist() == [0, 0]
    assert graphs.squared_norm.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([2], [0, 1], [1]), "expected as many sources as targets, got 2 and 1: give both"),
        (([2], [0, 1], [1, 0], [1.0]), "one weight for each of the 2 edges, got 1: leave"),
        (([2], [0, 1], [1, 0], [1.0, -1.0]), "finite edge weights of at least 0.*remove"),
        (([2], [0, 1], [1, 0], [1.0, np.nan]), "finite edge weights of at least 0.*remove"),
        (([2], [0, 1], [1, 0], [1.0, np.inf]), "finite edge weights of at least 0.*remove"),
        (([2, -1], [0], [1]), "graph sizes of at least 0, got -"),
        (([2], [0, 2], [1, 1]), "node numbers from 0 to 1, got 2: are nodes counted from 1"),
        (([2], [0, 1], [1, -1]), "node numbers from 0 to 1, got -1"),
        (([], [0], [0]), "node numbers from 0 to -1, got 0"),
        (
            ([2, 2], [0, 1], [1, 2]),
            r"both ends.*edge 1 from node 1 \(graph 0\) to node 2 \(graph 1\)",
        ),
    ],
)
def test_invalid_edges_are_rejected(arguments: tuple, message: str) -> None:
    with pytest.raises(DataError, match=message):
        SparseGraphs.from_edges(*arguments)


# --- the four operations -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", STORAGES)
def test_propagate_is_the_product_with_the_adjacency_matrix(ragged: Sample, storage: str) -> None:
    graphs = getattr(ragged, storage)
    h = randn(graphs.num_nodes, 4, seed=1).requires_grad_()
    cotangent = randn(graphs.num_nodes, 4, seed=2)
    parts = zip(ragged.adjs, reference.blocks(h, ragged.sizes), strict=True)
    slow = torch.cat([adj @ part for adj, part in parts])
    fast = graphs.propagate(h)
    exact(fast, slow)
    exact(*gradients((fast * cotangent).sum(), h), *gradients((slow * cotangent).sum(), h))


@pytest.mark.parametrize("clusters", [CLUSTERS, (3,) * len(SIZES)])
@pytest.mark.parametrize("storage", STORAGES)
def test_contract_is_the_product_with_the_transposed_assignment(
    storage: str, clusters: tuple[int, ...]
) -> None:
    batch = sample()
    graphs = getattr(batch, storage)
    ss = [randn(n, k, seed=g) for g, (n, k) in enumerate(zip(SIZES, clusters, strict=True))]
    h = randn(graphs.num_nodes, 4, seed=1)
    out = graphs.contract(local(ss, max(clusters)), h, Layout.from_sizes(clusters))
    parts = zip(ss, reference.blocks(h, batch.sizes), strict=True)
    exact(out, torch.cat([s.T @ part for s, part in parts]))


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("storage", STORAGES)
def test_the_readout_of_each_graph_uses_only_its_nodes(storage: str, how: str) -> None:
    batch = sample()
    graphs = getattr(batch, storage)
    h = randn(graphs.num_nodes, 4, seed=1).requires_grad_()
    cotangent = randn(len(graphs), 4, seed=2)
    slow = torch.stack([reference.readout(part, how) for part in reference.blocks(h, batch.sizes)])
    fast = graphs.readout(h, how)
    exact(fast, slow)
    exact(*gradients((fast * cotangent).sum(), h), *gradients((slow * cotangent).sum(), h))


@pytest.mark.parametrize("sizes", [[2, 2], [2, 0, 2]])
def test_the_readouts_of_a_hand_computed_case(sizes: list[int]) -> None:
    graphs = SparseGraphs.from_edges(sizes, [], [])
    h = torch.tensor([[1.0], [3.0], [-5.0], [-7.0]])
    empty = [[0.0]] * (len(sizes) - 2)
    assert graphs.readout(h, "sum").tolist() == [[4.0], *empty, [-12.0]]
    assert graphs.readout(h, "mean").tolist() == [[2.0], *empty, [-6.0]]
    assert graphs.readout(h, "max").tolist() == [[3.0], *empty, [-5.0]]


def test_the_mean_of_a_number_for_each_node_is_a_number_for_each_graph() -> None:
    graphs = SparseGraphs.from_edges([2, 0, 1], [], [])
    assert graphs.readout(torch.tensor([1.0, 3.0, 5.0]), "mean").tolist() == [2, 0, 5]


@pytest.mark.parametrize("storage", STORAGES)
def test_degree_and_squared_norm_equal_those_of_the_dense_matrices(
    ragged: Sample, storage: str
) -> None:
    graphs = getattr(ragged, storage)
    degree = torch.cat([adj.sum(1) for adj in ragged.adjs])
    exact(graphs.degree, degree)
    exact(graphs.inverse_degree, torch.where(degree > 0, 1 / degree, 0))
    exact(graphs.squared_norm, torch.stack([adj.square().sum() for adj in ragged.adjs]))


def test_the_block_and_the_trace_of_dense_graphs_are_those_of_each_graph(ragged: Sample) -> None:
    graphs = ragged.dense
    for graph, adj in enumerate(ragged.adjs):
        assert torch.equal(graphs.block(graph), adj)
    exact(graphs.trace(), torch.stack([adj.trace() for adj in ragged.adjs]))
    assert repr(graphs) == "DenseGraphs(8 graphs, 25 nodes, largest 7)"


def test_a_dense_node_without_edges_has_inverse_degree_zero_and_a_finite_gradient() -> None:
    adj = torch.tensor([[0.0, 0.0], [0.0, 2.0]], requires_grad=True)
    graphs = DenseGraphs.from_adj(Layout.from_sizes([2]), adj)
    assert graphs.inverse_degree.tolist() == [0, 0.5]
    (gradient,) = torch.autograd.grad(graphs.inverse_degree.sum(), adj)
    assert gradient.tolist() == [[0, 0], [-0.25, -0.25]]


# --- batching and conversion -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chosen",
    [[3, 0, 5], [7, 7, 1, 7], [1, 6], [], list(range(8)), [4, 2], [0, 1, 2, 1, 0]],
    ids=str,
)
def test_select_is_the_batch_of_the_chosen_graphs(ragged: Sample, chosen: list[int]) -> None:
    batch, nodes = ragged.sparse.select(chosen)
    adjs = reference.select(ragged.adjs, chosen)
    assert batch.layout.sizes.tolist() == [len(adj) for adj in adjs]
    adj, adj_t = matrices(batch)
    expected = torch.block_diag(*adjs) if batch.num_nodes else torch.zeros(0, 0)
    exact(adj, expected.double())
    exact(adj_t, expected.double().T)
    exact(ragged.x[nodes], torch.cat([*reference.select(ragged.xs, chosen), ragged.x[:0]]))
    rebuilt = Sample(adjs, ragged.xs).sparse if adjs else SparseGraphs.from_edges([], [], [])
    for field in ("degree", "inverse_degree", "squared_norm"):
        exact(getattr(batch, field).double(), getattr(rebuilt, field).double())
    for field in ("graph_of_row", "index_in_graph", "slot_of_row", "total", "largest"):
        ours, theirs = getattr(batch.layout, field), getattr(rebuilt.layout, field)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_select_takes_lists_arrays_and_tensors() -> None:
    graphs = sample().sparse
    expected = graphs.select([3, 0])[1]
    assert torch.equal(graphs.select(np.array([3, 0]))[1], expected)
    assert torch.equal(graphs.select(torch.tensor([3, 0]))[1], expected)


def test_a_selection_of_symmetric_graphs_stores_its_matrix_once() -> None:
    batch, _ = sample().sparse.select([3, 0])
    assert batch.adj_t is batch.adj


def test_a_conversion_changes_the_type_of_every_number_and_nothing_else(ragged: Sample) -> None:
    graphs = ragged.sparse
    single = graphs.to(dtype=torch.float32)
    assert (single.adj_t is single.adj) == (graphs.adj_t is graphs.adj)
    for field in ("degree", "inverse_degree", "squared_norm"):
        assert getattr(single, field).dtype == torch.float32
        assert torch.equal(getattr(single, field), getattr(graphs, field).float())
    h = randn(graphs.num_nodes, 2, seed=0).float()
    assert single.propagate(h).dtype == torch.float32
    torch.testing.assert_close(
        single.propagate(h).double(), graphs.propagate(h.double()), rtol=1e-6, atol=1e-6
    )


def test_the_block_of_a_graph_is_its_adjacency_matrix(ragged: Sample) -> None:
    for graph, adj in enumerate(ragged.adjs):
        assert torch.equal(ragged.sparse.block(graph), adj)


@pytest.mark.parametrize(
    ("indptr", "source", "message"),
    [
        ([0, 1, 2, 3, 4], [10**7, 0, 3, 2], "got edge 0 from node 10000000 to node 0"),
        ([0, 1, 2, 3, 4], [1, 0, 3, -1], "got edge 3 from node -1 to node 3"),
        ([0, 1, 2, 3, 4], [1, 2, 3, 2], "got edge 1 from node 2 to node 1"),  # of another graph
        ([0, 10**6, 2, 3, 4], [1, 0, 3, 2], "ascending order"),
        ([0, 1, 2, 3, 5], [1, 0, 3, 2], "from 0 to the number of edges, 4"),
        ([0, 1, 2, 4], [1, 0, 3, 2], "4 nodes and one more, got 4 entries"),
    ],
)
def test_rows_with_edges_outside_their_graph_are_refused(
    indptr: list[int], source: list[int], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        SparseGraphs.from_csr(np.array([2, 2]), np.array(indptr), np.array(source))


@pytest.mark.parametrize("sizes", [[2**62, 2**62], [2**63 - 1], [3, -1]])
def test_sizes_that_no_graphs_can_have_are_refused(sizes: list[int]) -> None:
    with pytest.raises(DataError, match="expected"):
        SparseGraphs.from_edges(sizes, [], [])
    with pytest.raises(ValueError, match="expected"):
        Layout.from_sizes(sizes)
