"""Set2Set and SortPool against PyTorch Geometric and by hand, for one model and for several side by side."""

from __future__ import annotations

import pytest
import torch
from samples import Sample, gradients, randn, sample
from torch import Tensor

from diffpool.baselines.set2set import Set2Set
from diffpool.baselines.sort_pool import SortPool, sorted_nodes
from diffpool.layout import Layout
from diffpool.nn import take

aggr = pytest.importorskip("torch_geometric.nn.aggr", reason="compared with PyTorch Geometric")

SIZES = (5, 1, 9, 0, 3, 14)


def batch_of(sizes: tuple[int, ...] = SIZES) -> Sample:
    return sample(sizes, edgeless=(), density=0.4)


def exact(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


# --- Set2Set -----------------------------------------------------------------------------------------------------


def peer_of(own: Set2Set) -> torch.nn.Module:
    """PyG's Set2Set with the same parameters; its two biases are merged here."""
    peer = aggr.Set2Set(own.width, processing_steps=own.steps).double()
    weight, bias = own.gates.weight.detach()[0].T, own.gates.bias.detach()[0]
    with torch.no_grad():
        peer.lstm.weight_ih_l0.copy_(weight[:, : 2 * own.width])
        peer.lstm.weight_hh_l0.copy_(weight[:, 2 * own.width :])
        peer.lstm.bias_ih_l0.copy_(bias)
        peer.lstm.bias_hh_l0.zero_()
    return peer


@pytest.mark.parametrize("steps", [1, 4])
def test_set2set_equals_that_of_pytorch_geometric(steps: int) -> None:
    batch = batch_of()
    own = Set2Set(3, steps).double()
    peer = peer_of(own)
    x = batch.x.clone().requires_grad_()
    ours = own(batch.sparse, x)
    theirs = peer(x, batch.sparse.layout.graph_of_row, dim_size=len(SIZES))
    exact(ours, theirs)
    weights = randn(*ours.shape, seed=1)
    (of_x, of_gates) = gradients((ours * weights).sum(), x, own.gates.weight)
    (peer_x, in_weight, hidden_weight) = gradients(
        (theirs * weights).sum(), x, peer.lstm.weight_ih_l0, peer.lstm.weight_hh_l0
    )
    exact(of_x, peer_x)
    exact(of_gates[0].T, torch.cat([in_weight, hidden_weight], 1))


def test_one_step_of_set2set_with_zero_weights_is_the_mean() -> None:
    """With zero gates, the query is zero and attends to all nodes equally."""
    batch = batch_of()
    own = Set2Set(3, 1).double()
    torch.nn.init.zeros_(own.gates.weight)
    torch.nn.init.zeros_(own.gates.bias)
    expected = torch.cat([torch.zeros(len(SIZES), 3), batch.sparse.readout(batch.x, "mean")], 1)
    exact(own(batch.sparse, batch.x), expected)


# --- SortPool ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [1, 4, 20])
def test_the_kept_nodes_equal_those_of_pytorch_geometric(nodes: int) -> None:
    batch = batch_of()
    x = batch.x.clone().requires_grad_()
    ours = sorted_nodes(x, batch.sparse.layout, nodes)
    theirs = aggr.SortAggregation(nodes)(x, batch.sparse.layout.graph_of_row, dim_size=len(SIZES))
    exact(ours.flatten(1), theirs)
    weights = randn(*theirs.shape, seed=1)
    (a,) = gradients((ours.flatten(1) * weights).sum(), x)
    (b,) = gradients((theirs * weights).sum(), x)
    exact(a, b)


def test_rows_of_no_graph_are_never_kept() -> None:
    """The second of two models has fewer rows; its padding would sort first."""
    layout = Layout.from_sizes([3, 2, 1, 2], models=2)
    assert layout.total == 10
    x = torch.tensor([1.0, 3, 2, 5, 4, 7, 8, 6, 99, 99])[:, None]
    kept = sorted_nodes(x, layout, 2)[..., 0]
    assert kept.tolist() == [[3, 2], [5, 4], [7, 0], [8, 6]]


def test_the_convolutions_of_sortpool_equal_those_of_pytorch() -> None:
    batch = batch_of()
    own = SortPool(3, nodes=13, filters=(4, 5), width=3, hidden=6).double()
    chosen = sorted_nodes(batch.x, batch.sparse.layout, 13)  # [B, 13, 3]
    first = torch.nn.functional.conv1d(
        chosen.flatten(1)[:, None], own.first.weight[0].T[:, None], own.first.bias[0], stride=3
    ).relu()
    pairs = torch.nn.functional.max_pool1d(first, 2)  # [B, 4, 6]
    kernel = own.second.weight[0].view(3, 4, 5).permute(2, 1, 0)  # [out, in, width]
    second = torch.nn.functional.conv1d(pairs, kernel, own.second.bias[0]).relu()
    flat = second.transpose(1, 2).flatten(1)
    expected = (flat @ own.dense.weight[0] + own.dense.bias[0]).relu()
    exact(own(batch.sparse, batch.x), expected)


# --- several models ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [Set2Set, SortPool], ids=["set2set", "sortpool"])
def test_readouts_of_models_side_by_side_equal_those_of_each_alone(make: type) -> None:
    together = make(3, 3, models=2).double() if make is Set2Set else make(3, 12, models=2).double()
    batch = batch_of((4, 2, 3, 3))
    out = together(batch.sparse, batch.x)
    for model in range(2):
        half = batch.of([2 * model, 2 * model + 1])
        exact(take(together, [model])(half.sparse, half.x), out[2 * model : 2 * model + 2])
