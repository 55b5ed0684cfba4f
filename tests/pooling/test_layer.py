"""The layer `DiffPooling`: its laws, the number of clusters, copies, and errors in a call."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from pooling.layers import SETTINGS, SIZES, call, close, inputs, layer
from pooling.test_assign import OfAdj
from samples import KINDS, randn, sample
from torch import nn

from diffpool import DiffPooling
from diffpool.errors import DataError


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_the_order_of_the_nodes_does_not_matter(settings: dict[str, Any]) -> None:
    ragged = sample(SIZES, weighted=True)
    pool = layer(**settings)
    out, other = call(pool, ragged), call(pool, ragged.relabeled(seed=1))
    close(out.x, other.x)
    close(out.adj, other.adj)
    close(out.loss, other.loss)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_graph_is_pooled_the_same_alone_and_in_a_batch(settings: dict[str, Any]) -> None:
    ragged = sample(SIZES, directed=True)
    pool = layer(**settings)
    whole = call(pool, ragged)
    for g in range(len(SIZES)):
        alone = call(pool, ragged.of([g]))
        k = alone.x.shape[0]
        close(whole.x[whole.batch == g], alone.x)
        close(whole.adj[g, :k, :k], alone.adj[0])
        close(whole.assignment.of_graph(g), alone.assignment.of_graph(0))
        for name in ("link", "entropy"):
            close(whole.losses[name][g], alone.losses[name][0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_pooling_keeps_the_total_edge_weight_and_the_sum_of_the_features(
    settings: dict[str, Any], kind: str
) -> None:
    ragged = sample(SIZES, **KINDS[kind])
    out = call(layer(**settings), ragged)
    close(out.adj.sum((1, 2)), torch.stack([a.sum() for a in ragged.adjs]))
    close(out.x_dense.sum(1), torch.stack([x.sum(0) for x in ragged.xs]))
    close(out.assignment.s.sum(1), torch.ones(sum(SIZES), dtype=torch.float64))


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_gradients_are_finite_and_reach_everything(settings: dict[str, Any]) -> None:
    ragged = sample(SIZES, weighted=True)
    pool = layer(**settings)
    x, edge_index, batch, weight = inputs(ragged)
    assert weight is not None
    x, weight = x.requires_grad_(), weight.requires_grad_()
    out = pool(x, edge_index, batch, edge_weight=weight)
    (out.loss + out.x.square().sum() + out.edge_weight.square().sum()).backward()
    for tensor in (x, weight, *pool.parameters()):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()
        assert tensor.grad.abs().sum() > 0


def test_the_equations_hold_for_each_graph() -> None:
    ragged = sample(SIZES, directed=True, weighted=True)
    logits = randn(sum(SIZES), 3, seed=1)
    out = call(DiffPooling(link_weight=2, entropy_weight=0.5), ragged, s=logits)
    rows = logits.split(SIZES)
    for g, (a, x, row) in enumerate(zip(ragged.adjs, ragged.xs, rows, strict=True)):
        s = row.softmax(1)
        close(out.x_dense[g], s.T @ x)
        close(out.adj[g], (s.T @ a @ s).T)  # from source to target
        close(out.losses["link"][g], (a - s @ s.T).norm())
        close(out.losses["entropy"][g], -(s * s.log()).sum(1).mean())
        close(out.assignment.of_graph(g), s)
    close(out.loss, (2 * out.losses["link"] + 0.5 * out.losses["entropy"]).mean())


def test_num_clusters_gives_every_graph_as_many() -> None:
    out = call(layer(num_clusters=3), sample((5, 0, 1)))
    assert out.batch.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert out.mask.all()
    assert out.x_dense.shape == (3, 3, 3)
    assert out.batch_size == 3


def test_a_ratio_gives_each_graph_a_share_of_its_own_nodes() -> None:
    pool = layer(ratio=0.5, max_clusters=4)
    assert call(pool, sample((5, 0, 1, 20))).graphs.layout.sizes.tolist() == [3, 0, 1, 4]
    pool = layer(ratio=0.5, max_clusters=4, min_clusters=2)
    out = call(pool, sample((5, 0, 1, 2)))
    assert out.graphs.layout.sizes.tolist() == [3, 0, 1, 2]
    assert out.mask.tolist() == [[True] * 3, [False] * 3, [True, False, False], [True, True, False]]
    assert (out.x_dense[~out.mask] == 0).all()


def test_the_layout_of_equal_numbers_of_clusters_is_kept_but_not_from_inference_mode() -> None:
    ragged, pool = sample(SIZES), layer(num_clusters=17)
    with torch.inference_mode():
        expected = call(pool, ragged).x.clone()
    out = call(pool, ragged)
    (out.loss + out.x_dense.sum()).backward()  # fails with tensors of inference mode
    assert call(pool, ragged).graphs.layout is out.graphs.layout
    assert call(pool, ragged.of([0, 1])).graphs.layout is not out.graphs.layout
    close(out.x, expected)


def test_with_an_assignment_network_its_outputs_are_the_number_of_clusters() -> None:
    ragged = sample(SIZES)
    assign = nn.Linear(3, 6, dtype=torch.float64)
    assert call(DiffPooling(assign=assign), ragged).x_dense.shape == (6, 6, 3)
    out = call(DiffPooling(assign=assign, ratio=0.5), ragged)
    assert out.graphs.layout.sizes.tolist() == [3, 1, 4, 2, 1, 3]


def test_the_assignment_may_read_other_features_than_those_that_are_pooled() -> None:
    ragged = sample(SIZES)
    z = randn(sum(SIZES), 7, seed=2)
    x, edge_index, batch, _ = inputs(ragged)
    pool = layer(num_clusters=3)
    out, usual = pool(z, edge_index, batch, assign_x=x), pool(x, edge_index, batch)
    close(out.assignment.s, usual.assignment.s)
    for g, s in enumerate(usual.assignment.s.split(SIZES)):
        close(out.x_dense[g], s.T @ z.split(SIZES)[g])


def test_a_layer_can_be_copied_saved_and_printed() -> None:
    pool = layer(ratio=0.25, max_clusters=4, losses="pyg")
    ragged = sample(SIZES)
    expected = call(pool, ragged).x
    for other in (copy.deepcopy(pool), pickle.loads(pickle.dumps(pool))):
        close(call(other, ragged).x, expected)
    other = layer(seed=5, ratio=0.25, max_clusters=4)
    other.load_state_dict(pool.state_dict())
    close(call(other, ragged).x, expected)
    first, second, *_ = repr(pool).splitlines()
    assert first == "DiffPooling("
    assert second.strip() == "in_channels=3, ratio=0.25, max_clusters=4, losses='pyg'"
    assert repr(DiffPooling()) == "DiffPooling()"


class Pair(nn.Module):
    def forward(self, x):  # type: ignore[no-untyped-def]
        return x, x


N = sum(SIZES)


X = torch.zeros(N, 3, dtype=torch.float64)


@pytest.mark.parametrize(
    ("settings", "arguments", "message"),
    [
        ({}, {}, "expected logits, because this layer has no assignment network: pass s="),
        ({}, {"s": X, "assign_x": X}, "either s or assign_x, got both"),
        ({}, {"s": X[1:]}, r"one row of features for each of 25 nodes.*got \[24, 3\]"),
        ({}, {"s": X.long()}, r"expected logits \[25, clusters\].*got torch.int64"),
        ({}, {"s": X, "mask": torch.ones(2, 2).bool()}, "a mask only with adj"),
        ({"num_clusters": 4}, {"s": X}, "num_clusters=4 columns, got 3: make the assignment"),
        ({"ratio": 0.9, "max_clusters": 9}, {"s": X}, "7 clusters of the largest graph, got 3"),
        (
            {"assign": OfAdj(2)},
            {},
            "for edge lists, got OfAdj for dense adjacency.*sparse counterpart",
        ),
        ({}, {"s": X, "x": X[1:]}, r"25 nodes, \[N, D\], got \[24, 3\]"),
        ({}, {"s": X, "x": X.long()}, "floating-point numbers, got torch.int64: convert"),
        (
            {"assign": Pair()},
            {},
            r"logits \[25, clusters\] from the assignment network, got tuple: wrap",
        ),
        (
            {},
            {"s": X, "edge_attr": X},
            r"one row of edge_attr for each of \d+ edges, got \[25, 3\]",
        ),
        ({}, {"s": X, "x": X[0]}, r"25 nodes, \[N, D\], got \[3\]"),
    ],
)
def test_wrong_arguments_are_explained(
    settings: dict[str, Any], arguments: dict[str, Any], message: str
) -> None:
    x, edge_index, batch, _ = inputs(sample(SIZES))
    pool = DiffPooling(**settings)
    with pytest.raises(DataError, match=message):
        pool(arguments.pop("x", x), edge_index, batch, **arguments)
