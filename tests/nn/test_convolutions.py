"""Convolutions against PyTorch Geometric on edge lists, and against dense formulas at every level."""

from __future__ import annotations

import pytest
import reference
import torch
from samples import KINDS, Sample, gradients, local, randn, sample
from torch import Tensor, nn

from diffpool.graphs import DenseGraphs
from diffpool.layout import Layout
from diffpool.nn import Gcn, Gin, Sage, SumConv

CONVOLUTIONS = (Sage, Gcn, Gin, SumConv)
INPUTS, OUTPUTS = 3, 4


def exact(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)


def make(kind: type[nn.Module]) -> nn.Module:
    conv = kind(INPUTS, OUTPUTS).double()
    if kind is Gin:
        nn.init.constant_(conv.scale.epsilon, 0.3)
    return conv


def edge_index(batch: Sample) -> tuple[Tensor, Tensor]:
    """Sources and targets [2, E] and weights [E], in the format of PyG."""
    adj = torch.block_diag(*batch.adjs)
    target, source = adj.nonzero().T
    return torch.stack([source, target]), adj[target, source]


def check(ours: Tensor, theirs: Tensor, pairs: list[tuple[Tensor, Tensor]], x: Tensor) -> None:
    """Equal outputs; equal gradients of x and of each pair of parameters (PyG's converted to our shape)."""
    exact(ours, theirs)
    cotangent = randn(*ours.shape, seed=9)
    mine = gradients((ours * cotangent).sum(), x, *(a for a, _ in pairs))
    other = gradients((theirs * cotangent).sum(), x, *(b for _, b in pairs))
    for a, b in zip(mine, other, strict=True):
        exact(a, b)


# --- PyTorch Geometric -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["undirected", "directed", "loops"])
def test_sage_equals_pyg_sage_with_mean_aggregation(kind: str) -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    batch = sample(**KINDS[kind])
    conv = make(Sage)
    weight = conv.linear.weight[0].detach()
    w_self, w_mean = weight[:INPUTS].T.clone(), weight[INPUTS:].T.clone()
    theirs = pyg.SAGEConv(INPUTS, OUTPUTS, aggr="mean").double()
    theirs.lin_r.weight = nn.Parameter(w_self)
    theirs.lin_l.weight = nn.Parameter(w_mean)
    theirs.lin_l.bias = nn.Parameter(conv.linear.bias[0].detach().clone())
    x = batch.x.requires_grad_()
    a, b = conv(batch.sparse, x), theirs(x, edge_index(batch)[0])
    check(a, b, [], x)
    cotangent = randn(*a.shape, seed=9)
    ours = gradients((a * cotangent).sum(), conv.linear.weight, conv.linear.bias)
    other = gradients(
        (b * cotangent).sum(), theirs.lin_r.weight, theirs.lin_l.weight, theirs.lin_l.bias
    )
    exact(ours[0][0], torch.cat([other[0].T, other[1].T]))
    exact(ours[1][0], other[2])


@pytest.mark.parametrize("kind", ["undirected", "weighted", "directed"])
def test_gcn_equals_pyg_gcn(kind: str) -> None:
    """Without self-loops: PyG keeps existing ones instead of adding the identity."""
    pyg = pytest.importorskip("torch_geometric.nn")
    batch = sample(**KINDS[kind])
    conv = make(Gcn)
    theirs = pyg.GCNConv(INPUTS, OUTPUTS).double()
    theirs.lin.weight = nn.Parameter(conv.linear.weight[0].detach().T.clone())
    theirs.bias = nn.Parameter(conv.linear.bias[0].detach().clone())
    x = batch.x.requires_grad_()
    a, b = conv(batch.sparse, x), theirs(x, *edge_index(batch))
    check(a, b, [], x)
    cotangent = randn(*a.shape, seed=9)
    ours = gradients((a * cotangent).sum(), conv.linear.weight, conv.linear.bias)
    other = gradients((b * cotangent).sum(), theirs.lin.weight, theirs.bias)
    exact(ours[0][0], other[0].T)
    exact(ours[1][0], other[1])


@pytest.mark.parametrize("kind", ["undirected", "directed", "loops"])
def test_gin_equals_pyg_gin(kind: str) -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    batch = sample(**KINDS[kind])
    conv = make(Gin)
    mlp = nn.Sequential(nn.Linear(INPUTS, OUTPUTS), nn.ReLU(), nn.Linear(OUTPUTS, OUTPUTS))
    theirs = pyg.GINConv(mlp, train_eps=True).double()  # re-initializes the MLP
    for linear, mine in ((mlp[0], conv.hidden), (mlp[2], conv.out)):
        linear.weight = nn.Parameter(mine.weight[0].detach().T.clone())
        linear.bias = nn.Parameter(mine.bias[0].detach().clone())
    theirs.eps = nn.Parameter(conv.scale.epsilon.detach().clone())
    x = batch.x.requires_grad_()
    a, b = conv(batch.sparse, x), theirs(x, edge_index(batch)[0])
    check(a, b, [(conv.scale.epsilon, theirs.eps)], x)
    cotangent = randn(*a.shape, seed=9)
    ours = gradients((a * cotangent).sum(), conv.hidden.weight, conv.out.weight)
    other = gradients((b * cotangent).sum(), mlp[0].weight, mlp[2].weight)
    for mine, pygs in zip(ours, other, strict=True):
        exact(mine[0], pygs.T)


# --- dense formulas ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", ["sparse", "dense"])
@pytest.mark.parametrize("kind", CONVOLUTIONS, ids=lambda kind: kind.__name__)
def test_a_convolution_equals_its_dense_formula_for_each_graph(
    ragged: Sample, kind: type[nn.Module], storage: str
) -> None:
    conv = make(kind)
    x = ragged.x.requires_grad_()
    parts = zip(ragged.adjs, reference.blocks(x, ragged.sizes), strict=True)
    slow = torch.cat([reference.convolve(conv, adj, part) for adj, part in parts])
    check(conv(getattr(ragged, storage), x), slow, [(p, p) for p in conv.parameters()], x)


@pytest.mark.parametrize("kind", CONVOLUTIONS, ids=lambda kind: kind.__name__)
def test_the_gradient_reaches_a_coarse_adjacency_through_a_convolution(
    kind: type[nn.Module],
) -> None:
    batch = sample(**KINDS["everything"])
    conv = make(kind)
    adjs = [adj.requires_grad_() for adj in batch.adjs]
    graphs = DenseGraphs.from_adj(Layout.from_sizes(batch.sizes), local(adjs, max(batch.sizes)))
    fast = conv(graphs, batch.x)
    slow = torch.cat(
        [reference.convolve(conv, adj, x) for adj, x in zip(adjs, batch.xs, strict=True)]
    )
    cotangent = randn(*fast.shape, seed=9)
    for a, b in zip(
        gradients((fast * cotangent).sum(), *adjs),
        gradients((slow * cotangent).sum(), *adjs),
        strict=True,
    ):
        exact(a, b)


@pytest.mark.parametrize("columns", [0, 1, OUTPUTS])
@pytest.mark.parametrize("kind", CONVOLUTIONS, ids=lambda kind: kind.__name__)
def test_a_convolution_can_compute_only_its_first_columns(
    kind: type[nn.Module], columns: int
) -> None:
    batch = sample()
    conv = make(kind)
    exact(conv(batch.sparse, batch.x, columns), conv(batch.sparse, batch.x)[:, :columns])


def test_sage_of_a_hand_computed_case() -> None:
    """A path of three nodes with x = 1, 2, 4: the means of the neighbors are 2, 2.5 and 2."""
    batch = Sample([torch.tensor([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]])], [torch.zeros(3, 1)])
    conv = Sage(1, 1)
    conv.linear.weight.data = torch.tensor([[[10.0], [1.0]]])
    conv.linear.bias.data = torch.tensor([[100.0]])
    out = conv(batch.sparse, torch.tensor([[1.0], [2.0], [4.0]]))
    assert out.tolist() == [[112], [122.5], [142]]


def test_a_node_without_neighbors_has_the_mean_zero() -> None:
    batch = Sample([torch.zeros(1, 1)], [torch.zeros(1, 1)])
    conv = Sage(1, 1)
    conv.linear.weight.data = torch.tensor([[[10.0], [1.0]]])
    conv.linear.bias.data = torch.tensor([[100.0]])
    assert conv(batch.sparse, torch.tensor([[3.0]])).tolist() == [[130]]
