"""Batches made from `edge_index` and `batch` are those that `from_edges` makes from the same edges."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from samples import KINDS, Sample, sample
from torch import Tensor

from diffpool.errors import DataError
from diffpool.graphs import SparseGraphs
from diffpool.layout import Layout

LAYOUT_TABLES = ("sizes", "starts", "graph_of_row", "index_in_graph", "slot_of_row", "device_sizes")


def edges_of(sample: Sample) -> tuple[Tensor, Tensor, Tensor]:
    """`edge_index`, `batch` and `edge_weight` of a sample, with the edges in random order."""
    whole = torch.block_diag(*sample.adjs)
    target, source = whole.nonzero().T
    order = torch.randperm(len(source), generator=torch.Generator().manual_seed(1))
    target, source = target[order], source[order]
    batch = torch.repeat_interleave(torch.arange(len(sample.sizes)), torch.tensor(sample.sizes))
    return torch.stack([source, target]), batch, whole[target, source]


def same(ours: SparseGraphs, other: SparseGraphs) -> None:
    """Assert that two batches are equal, with the same tables and the same storage of Aᵀ."""
    for name in LAYOUT_TABLES:
        torch.testing.assert_close(getattr(ours.layout, name), getattr(other.layout, name))
    assert (ours.layout.total, ours.layout.largest) == (other.layout.total, other.layout.largest)
    assert (ours.adj_t is ours.adj) == (other.adj_t is other.adj)
    for a, b in ((ours.adj, other.adj), (ours.adj_t, other.adj_t)):
        torch.testing.assert_close(a.indptr, b.indptr)
        torch.testing.assert_close(a.indices, b.indices)
        torch.testing.assert_close(a.values, b.values)
    for name in ("degree", "inverse_degree", "squared_norm"):
        torch.testing.assert_close(getattr(ours, name), getattr(other, name))


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_the_one_that_from_edges_makes(kind: str) -> None:
    ragged = sample(**KINDS[kind])
    edge_index, batch, weight = edges_of(ragged)
    given = None if bool((weight == 1).all()) else weight
    size = len(ragged.sizes)
    ours = SparseGraphs.from_edge_index(
        edge_index, batch, given, batch_size=size, dtype=torch.float64
    )
    same(ours, ragged.sparse)
    by_sizes = SparseGraphs.from_edge_index(
        edge_index, None, given, sizes=ragged.sizes, dtype=torch.float64
    )
    same(by_sizes, ragged.sparse)


def test_the_number_of_graphs_is_found_in_the_batch() -> None:
    edge_index = torch.tensor([[0, 1], [1, 0]])
    graphs = SparseGraphs.from_edge_index(edge_index, torch.tensor([0, 0, 2]))
    assert graphs.layout.sizes.tolist() == [2, 0, 1]
    assert graphs.squared_norm.tolist() == [2, 0, 0]


@pytest.mark.parametrize("weight", [None, torch.tensor([1.0, 2.0, 5.0, 0.5])])
def test_edges_given_twice_are_merged_as_in_from_edges(weight: Tensor | None) -> None:
    source, target = torch.tensor([[0, 0, 1, 0], [1, 1, 0, 1]])
    ours = SparseGraphs.from_edge_index(torch.stack([source, target]), None, weight, sizes=[2])
    same(ours, SparseGraphs.from_edges([2], source, target, weight))


def test_duplicates_may_make_the_weights_symmetric() -> None:
    edge_index = torch.tensor([[0, 0, 1], [1, 1, 0]])
    graphs = SparseGraphs.from_edge_index(
        edge_index, torch.zeros(2, dtype=torch.int64), torch.tensor([1.0, 2.0, 3.0])
    )
    assert graphs.adj_t is graphs.adj
    assert graphs.block(0).tolist() == [[0, 3], [3, 0]]


@pytest.mark.parametrize("kind", ["undirected", "directed"])
def test_edge_attributes_become_channels(kind: str) -> None:
    ragged = sample(**KINDS[kind])
    edge_index, batch, _ = edges_of(ragged)
    attributes = torch.rand(edge_index.shape[1], 2, dtype=torch.float64)
    graphs = SparseGraphs.from_edge_index(
        edge_index, batch, edge_attr=attributes, dtype=torch.float64
    )
    eye = torch.eye(graphs.num_nodes, dtype=torch.float64)
    for channel in range(2):
        expected = torch.zeros_like(eye)
        expected[edge_index[1], edge_index[0]] = attributes[:, channel]
        h = eye.clone().requires_grad_()
        out = graphs.propagate_channel(channel, h)
        torch.testing.assert_close(out, expected)
        (gradient,) = torch.autograd.grad(out, h, eye)
        torch.testing.assert_close(gradient, expected.T)


def test_batches_without_nodes_edges_or_graphs() -> None:
    none = torch.empty(2, 0, dtype=torch.int64)
    for batch, size, nodes in (([], 0, 0), ([], 2, 0), ([0, 0, 1], 3, 3)):
        graphs = SparseGraphs.from_edge_index(
            none, torch.tensor(batch, dtype=torch.int64), batch_size=size
        )
        same(graphs, SparseGraphs.from_edges([batch.count(g) for g in range(size)], [], []))
        assert (len(graphs), graphs.num_nodes, graphs.num_edges) == (size, nodes, 0)


def test_a_layout_made_on_the_device_has_the_tables_of_from_sizes() -> None:
    for sizes in ([3, 0, 2, 2], [], [0], [4, 4]):
        counts = torch.tensor(sizes, dtype=torch.int64)
        graph = torch.repeat_interleave(torch.arange(len(sizes)), counts)
        ours, other = Layout.on_device(sizes, counts, graph), Layout.from_sizes(sizes)
        for name in LAYOUT_TABLES:
            assert getattr(ours, name).tolist() == getattr(other, name).tolist()
        assert (ours.total, ours.largest, ours.uniform) == (
            other.total,
            other.largest,
            other.uniform,
        )


PAIR = torch.tensor([[0, 1], [1, 0]])
TWO = torch.zeros(2, dtype=torch.int64)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"edge_index": PAIR.T.reshape(4)}, r"two rows of integers.*\[4\]: for another format"),
        ({"edge_index": PAIR.float()}, "two rows of integers.*float32"),
        ({"edge_index": torch.zeros(3, 2, dtype=torch.int64)}, r"two rows.*\[3, 2\]"),
        ({"batch": None}, r"either `batch`.* or `sizes`.*got none.*sizes=\[num_nodes\]"),
        ({"sizes": [2]}, "either `batch`.* or `sizes`.*got both"),
        ({"batch": TWO.float()}, "one integer per node.*float32"),
        ({"batch": torch.tensor([1, 0])}, "ascending order.*sort the nodes by graph"),
        ({"batch": torch.tensor([-1, 0])}, "ascending order, from 0 to 0"),
        ({"batch_size": 1, "batch": torch.tensor([0, 1])}, "from 0 to 0, got other numbers"),
        ({"batch": None, "sizes": [-2]}, "sizes of at least 0, got -2"),
        ({"edge_weight": torch.ones(3)}, r"one weight for each of the 2 edges, got \[3\]: leave"),
        ({"edge_weight": torch.tensor([1.0, -1.0])}, "finite edge weights of at least 0.*remove"),
        ({"edge_weight": torch.tensor([1.0, torch.nan])}, "finite edge weights of at least 0"),
        ({"edge_index": PAIR + 1}, "node numbers from 0 to 1, got 2: are nodes counted from 1"),
        ({"edge_index": PAIR - 1}, "node numbers from 0 to 1, got -1"),
        ({"batch": torch.tensor([0, 1])}, r"edge 0 from node 0 \(graph 0\) to node 1 \(graph 1\)"),
        ({"batch": TWO[:0], "batch_size": 1}, "no edges between 0 nodes, got 2"),
        ({"batch": TWO.to("meta")}, "`batch` on cpu, like edge_index, got meta: move"),
        (
            {"edge_attr": torch.ones(3, 1)},
            r"one row of edge_attr for each of the 2 edges.*\[3, 1\]",
        ),
        (
            {"edge_index": torch.tensor([[0, 0], [1, 1]]), "edge_attr": torch.ones(2, 1)},
            "each edge once.*edge features.*remove it",
        ),
    ],
)
def test_wrong_arguments_are_explained(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        SparseGraphs.from_edge_index(**{"edge_index": PAIR, "batch": TWO, **arguments})
