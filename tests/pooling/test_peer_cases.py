"""The cases that PyTorch Geometric tests of `dense_diff_pool`, and torch-geometric-pool of `get_pooler("diff")`."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from pooling.layers import SETTINGS, SIZES, call, close, layer
from samples import padded, randn, sample
from torch import nn

from diffpool import DiffPooling


def test_a_padded_batch_has_the_shapes_and_losses_that_pyg_tests() -> None:
    graphs, nodes, channels, clusters = 2, 20, 16, 10
    x, adj = torch.randn(graphs, nodes, channels), torch.rand(graphs, nodes, nodes)
    mask = torch.rand(graphs, nodes) < 0.5
    out = DiffPooling(losses="pyg")(x, adj, mask=mask, s=torch.randn(graphs, nodes, clusters))
    assert out.x_dense.shape == (2, 10, 16)
    assert out.adj.shape == (2, 10, 10)
    assert out.losses["link"] >= 0
    assert 0 <= out.losses["entropy"] <= torch.tensor(10.0).log()


@pytest.mark.parametrize("training", [True, False])
def test_dense_edge_list_and_ragged_input_give_the_same_layer(training: bool) -> None:
    """Batched and unbatched mode of torch-geometric-pool: here, formats of the input."""
    ragged = sample((6, 6, 6), weighted=True)
    adj, x, _ = padded(ragged, 6)
    pool = layer(num_clusters=3).train(training)
    start = copy.deepcopy(pool.state_dict())
    dense = pool(x, adj)
    pool.load_state_dict(start)
    sparse = call(pool, ragged)
    close(dense.assignment.s, sparse.assignment.s)
    close(dense.x, sparse.x)
    close(dense.adj, sparse.adj)
    for name in dense.losses:
        close(dense.losses[name], sparse.losses[name])


def test_random_directed_edges_with_duplicates_are_pooled() -> None:
    torch.manual_seed(42)
    x, batch = torch.randn(25, 16), torch.tensor([0] * 10 + [1] * 15)
    edges = torch.cat([torch.randint(0, 10, (2, 20)), torch.randint(10, 25, (2, 30))], 1)
    for pool in (DiffPooling(16, num_clusters=5), DiffPooling(assign=nn.Linear(16, 5))):
        out = pool(x, edges, batch)
        assert out.x_dense.shape == (2, 5, 16)
        assert out.adj.shape == (2, 5, 5)
        assert out.edge_index.shape == (2, 50)
        assert out.x.shape == (len(out.batch), 16)
        assert out.lift(out.x).shape == x.shape
    unique = torch.unique(edges, dim=1)
    torch.testing.assert_close(out.adj.sum((1, 2)), (batch[unique[0]].bincount()).float())
    assert pool(x[:10], edges[:, :20]).x_dense.shape == (1, 5, 16)


@pytest.mark.parametrize("edges", [0, 1])
def test_single_nodes_pairs_and_isolated_nodes_have_finite_losses(edges: int) -> None:
    pair = torch.tensor([[0, 1], [1, 0]])[:, : 2 * edges]
    for nodes in (1 + edges, 5):
        logits = torch.randn(nodes, 1 + nodes // 3, requires_grad=True)
        out = DiffPooling()(torch.randn(nodes, 2), pair, s=logits)
        out.loss.backward()
        assert out.loss.isfinite()
        assert logits.grad is not None
        assert logits.grad.isfinite().all()
    one = DiffPooling()(torch.ones(2, 1), pair, s=torch.zeros(2, 1))
    # A − SSᵀ for a single cluster: −1 everywhere, except where there is an edge
    torch.testing.assert_close(one.losses["link"], torch.tensor([4.0 - 2 * edges]).sqrt())
    assert one.losses["entropy"].tolist() == [0]


def test_the_weights_of_the_losses_are_settings() -> None:
    pool = DiffPooling(16, num_clusters=5)
    assert (pool.link_weight, pool.entropy_weight) == (1, 1)
    pool = DiffPooling(16, num_clusters=5, link_weight=0.5, entropy_weight=2)
    out = pool(torch.randn(6, 16), torch.tensor([[0, 1, 2], [1, 2, 3]]))
    close(out.loss, 0.5 * out.losses["link"].sum() + 2 * out.losses["entropy"].sum())


@pytest.mark.parametrize("training", [True, False])
def test_the_auxiliary_loss_has_a_gradient_for_the_features(training: bool) -> None:
    ragged = sample((6, 6, 6), weighted=True)
    adj, x, _ = padded(ragged, 6)
    x.requires_grad_()
    layer(num_clusters=3).train(training)(x, adj).loss.backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert x.grad.abs().sum() > 0


@pytest.mark.parametrize("losses", ["paper", "pyg"])
@pytest.mark.parametrize("kind", ["undirected", "weighted", "edgeless", "isolated"])
def test_the_losses_of_matrices_and_of_edges_are_the_same(kind: str, losses: Any) -> None:
    edgeless = range(4) if kind == "edgeless" else ()
    ragged = sample((3, 5, 1, 4), weighted=kind == "weighted", edgeless=edgeless)
    if kind == "isolated":
        for a in ragged.adjs:
            a[-1] = a[:, -1] = 0
    adj, x, mask = padded(ragged, 5)
    logits = randn(13, 3, seed=1)
    s = torch.zeros(4, 5, 3, dtype=torch.float64)
    s[mask] = logits
    pool = DiffPooling(losses=losses)
    dense, sparse = pool(x, adj, mask=mask, s=s), call(pool, ragged, s=logits)
    close(dense.loss, sparse.loss)
    for name, loss in dense.losses.items():
        assert loss.isfinite().all()
        close(loss, sparse.losses[name])


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_the_pooled_graphs_go_through_layers_of_pyg_and_back(settings: dict[str, Any]) -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(0)
    ragged = sample(SIZES, weighted=True).to(torch.float32)
    pool = DiffPooling(3, **settings).eval()
    out = call(pool, ragged)
    sparse, dense = pyg.GraphConv(3, 4), pyg.DenseGraphConv(3, 4)
    dense.lin_rel.load_state_dict(sparse.lin_rel.state_dict())
    dense.lin_root.load_state_dict(sparse.lin_root.state_dict())
    h = sparse(out.x, out.edge_index, out.edge_weight)
    # DenseGraphConv adds up adj @ x, the edges that leave a node; GraphConv those that arrive
    padded_h = dense(out.x_dense, out.adj.mT, out.mask)
    torch.testing.assert_close(padded_h[out.mask], h)
    assert out.lift(h).shape == (sum(SIZES), 4)
    torch.testing.assert_close(out.lift(padded_h), out.lift(h))
    pool.reset_parameters()
    assert (call(pool, ragged).x != out.x).any()
