"""Conversions between ragged batches, padded tensors and edge lists."""

from __future__ import annotations

import pytest
import torch
from samples import KINDS, padded, sample
from torch import Tensor

from diffpool.errors import DataError
from diffpool.exchange import (
    check_padded,
    dense_from_edges,
    edge_list,
    from_padded,
    padded_adj,
    padded_mask,
    padded_rows,
)
from diffpool.layout import Layout


@pytest.mark.parametrize("kind", KINDS)
def test_padding_and_its_reverse(kind: str) -> None:
    ragged = sample(**KINDS[kind])
    dense, largest = ragged.dense, max(ragged.sizes)
    adj, x, mask = padded(ragged, largest)
    assert torch.equal(padded_adj(dense), adj)
    assert torch.equal(padded_rows(ragged.x, dense.layout), x)
    assert torch.equal(padded_mask(dense.layout), mask)
    graphs, row = from_padded(adj, mask)
    assert torch.equal(graphs.adj, dense.adj)
    assert torch.equal(graphs.degree, dense.degree)
    assert graphs.layout.sizes.tolist() == ragged.sizes
    assert torch.equal(x.flatten(0, 1)[row], ragged.x)


def test_nodes_may_be_anywhere_and_entries_outside_the_mask_are_ignored() -> None:
    ragged = sample(weighted=True, directed=True)
    adj, x, mask = padded(ragged, 10)
    order = torch.randperm(10, generator=torch.Generator().manual_seed(0))
    mixed = adj[:, order][:, :, order]
    noise = torch.rand(mixed.shape, dtype=torch.float64)
    outside = ~(mask[:, order, None] & mask[:, None, order])
    graphs, row = from_padded(torch.where(outside, noise, mixed), mask[:, order])
    place = order.argsort()  # of each node after mixing
    for g in range(len(ragged.sizes)):
        kept = place[: ragged.sizes[g]].argsort()  # the nodes in their new order
        torch.testing.assert_close(graphs.block(g), ragged.adjs[g][kept][:, kept])
    expected = torch.cat([h[place[: len(h)].argsort()] for h in ragged.xs if len(h)])
    assert torch.equal(x[:, order].flatten(0, 1)[row], expected)


def test_without_a_mask_every_row_is_a_node() -> None:
    ragged = sample((4, 4, 4), directed=True)
    adj, _, _ = padded(ragged, 4)
    graphs, row = from_padded(adj, None)
    assert row is None
    assert graphs.layout.uniform
    assert torch.equal(graphs.adj, ragged.dense.adj)
    for name in ("starts", "graph_of_row", "index_in_graph", "slot_of_row", "device_sizes"):
        assert torch.equal(getattr(graphs.layout, name), getattr(ragged.dense.layout, name))
    none, _ = from_padded(adj[:0], None)
    assert (len(none), none.num_nodes) == (0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_an_edge_list_is_the_batch_again(kind: str) -> None:
    ragged = sample(**KINDS[kind])
    whole = torch.block_diag(*ragged.adjs)
    for graphs, pairs in ((ragged.sparse, int((whole != 0).sum())), (ragged.dense, None)):
        (source, target), weight = edge_list(graphs)
        assert len(source) == (pairs or sum(n * n for n in ragged.sizes))
        made = torch.zeros_like(whole)
        made[target, source] = torch.ones(len(source)).double() if weight is None else weight
        assert torch.equal(made, whole)
    key = source * len(whole) + target
    assert (key.diff() > 0).all()  # the pairs of dense blocks are sorted by source


def test_dense_blocks_have_the_gradient_of_every_weight() -> None:
    ragged = sample(weighted=True, directed=True)
    edge_index, weight = edge_list(ragged.sparse)
    assert weight is not None
    weight = weight.clone().requires_grad_()
    dense = dense_from_edges(Layout.from_sizes(ragged.sizes), edge_index, weight)
    torch.testing.assert_close(dense.adj, ragged.dense.adj)
    (gradient,) = torch.autograd.grad(dense.adj.square().sum(), weight)
    torch.testing.assert_close(gradient, 2 * weight)
    twice = torch.cat([edge_index, edge_index], 1), torch.cat([weight, weight])
    doubled = dense_from_edges(Layout.from_sizes(ragged.sizes), *twice)
    torch.testing.assert_close(doubled.adj, 2 * dense.adj)


ADJ, X = torch.ones(2, 3, 3), torch.ones(2, 3, 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X, ADJ[:, :2], None), r"square matrix for each graph: \[B, n, n\], got \[2, 2, 3\]"),
        ((X[:, :2], ADJ, None), r"features \[2, 3, D\].*got \[2, 2, 5\]: pad both"),
        ((X[0], ADJ, None), r"features \[2, 3, D\].*got \[3, 5\].*or give edge_index and batch"),
        ((X, ADJ, torch.ones(2, 2).bool()), r"mask of booleans \[2, 3\], got torch.bool \[2, 2\]"),
        ((X, ADJ, torch.ones(2, 3)), r"mask of booleans \[2, 3\], got torch.float32"),
    ],
)
def test_wrong_shapes_are_explained(
    arguments: tuple[Tensor, Tensor, Tensor | None], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        check_padded(*arguments)
