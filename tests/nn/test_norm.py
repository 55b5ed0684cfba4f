"""Normalizations: batch normalization over the nodes that have a column, l2, and that of the released code."""

from __future__ import annotations

import copy

import pytest
import reference
import torch
from samples import CLUSTERS, SIZES, gradients, local, randn, sample
from torch import Tensor, nn

from diffpool.graphs import SparseGraphs
from diffpool.layout import Layout, column_mask
from diffpool.nn import BatchNorm, L2Norm, NodeIndexNorm, Standardize

WIDTH = 4


def exact(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def batch_norm(training: bool = True) -> BatchNorm:
    norm = BatchNorm(WIDTH).double()
    with torch.no_grad():
        norm.weight.add_(0.3 * randn(1, WIDTH, seed=1))
        norm.bias.add_(0.3 * randn(1, WIDTH, seed=2))
        norm.running_mean.add_(3 + randn(1, WIDTH, seed=3))
        norm.running_var.mul_(randn(1, WIDTH, seed=4).exp())
    return norm.train(training)


@pytest.mark.parametrize("training", [False, True])
def test_batch_normalization_equals_that_of_pytorch(training: bool) -> None:
    graphs = sample().sparse
    ours = batch_norm(training)
    theirs = nn.BatchNorm1d(WIDTH).double().train(training)
    theirs.load_state_dict(
        {key: value[0] for key, value in ours.state_dict().items()}
        | {"num_batches_tracked": torch.tensor(0)}
    )
    x = randn(graphs.num_nodes, WIDTH, seed=0).requires_grad_()
    a, b = ours(graphs, x), theirs(x)
    exact(a, b)
    cotangent = randn(*a.shape, seed=5)
    exact(*gradients((a * cotangent).sum(), x), *gradients((b * cotangent).sum(), x))
    exact(ours.running_mean[0], theirs.running_mean)
    exact(ours.running_var[0], theirs.running_var)


@pytest.mark.parametrize("training", [False, True])
def test_a_mask_that_hides_nothing_changes_nothing(training: bool) -> None:
    graphs = sample().sparse
    x = 5 + randn(graphs.num_nodes, WIDTH, seed=0)
    plain = batch_norm(training)
    masked = copy.deepcopy(plain)
    exact(masked(graphs, x, torch.ones_like(x, dtype=torch.bool)), plain(graphs, x))
    exact(masked.running_mean, plain.running_mean)
    exact(masked.running_var, plain.running_var)


@pytest.mark.parametrize("training", [False, True])
def test_a_column_is_normalized_over_the_nodes_that_have_it(training: bool) -> None:
    graphs = sample().sparse
    clusters = Layout.from_sizes(CLUSTERS)
    mask = column_mask(graphs.layout, clusters)
    x = ((5 + randn(graphs.num_nodes, WIDTH, seed=0)) * mask).requires_grad_()
    norm = batch_norm(training)
    running: reference.Running = {}
    parts = reference.batch_norm(norm, reference.blocks(x, list(SIZES), list(CLUSTERS)), running)
    slow, fast = local(parts, WIDTH), norm(graphs, x, mask)
    exact(fast, slow)
    assert not fast[~mask].any()
    cotangent = randn(*fast.shape, seed=5)
    parameters = (x, *norm.parameters())
    for a, b in zip(
        gradients((fast * cotangent).sum(), *parameters),
        gradients((slow * cotangent).sum(), *parameters),
        strict=True,
    ):
        exact(a, b)
    exact(norm.running_mean[0], running[norm][0])
    exact(norm.running_var[0], running[norm][1])


def test_batch_normalization_of_a_hand_computed_case() -> None:
    """The first column has 1 and 3 (mean 2, variance 1, unbiased 2); the second column has one node only."""
    graphs = SparseGraphs.from_edges([1, 1], [], [], dtype=torch.float64)
    norm = BatchNorm(2, eps=0.0).double()
    mask = torch.tensor([[True, True], [True, False]])
    x = torch.tensor([[1.0, 7.0], [3.0, 0.0]], dtype=torch.float64)
    assert norm(graphs, x, mask).tolist() == [[-1, 7], [1, 0]]
    exact(norm.running_mean, torch.tensor([[0.2, 0.0]], dtype=torch.float64))
    exact(norm.running_var, torch.tensor([[1.1, 1.0]], dtype=torch.float64))


def test_a_single_node_is_normalized_by_the_running_statistics_without_changing_them() -> None:
    graphs = SparseGraphs.from_edges([1], [], [], dtype=torch.float64)
    norm = batch_norm()
    before = copy.deepcopy(norm).eval()
    x = randn(1, WIDTH, seed=0)
    exact(norm(graphs, x), before(graphs, x))
    assert torch.equal(norm.running_mean, before.running_mean)
    assert torch.equal(norm.running_var, before.running_var)


def test_columns_that_a_batch_does_not_use_keep_their_statistics() -> None:
    graphs = sample().sparse
    norm = batch_norm()
    before = copy.deepcopy(norm)
    out = norm(graphs, randn(graphs.num_nodes, 2, seed=0))
    assert out.shape == (graphs.num_nodes, 2)
    assert torch.equal(norm.running_mean[:, 2:], before.running_mean[:, 2:])
    assert torch.equal(norm.running_var[:, 2:], before.running_var[:, 2:])
    assert (norm.running_mean[:, :2] != before.running_mean[:, :2]).all()


def test_the_l2_norm_makes_unit_vectors_and_leaves_zero_alone() -> None:
    graphs = SparseGraphs.from_edges([2], [], [])
    out = L2Norm()(graphs, torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    torch.testing.assert_close(out, torch.tensor([[0.6, 0.8], [0.0, 0.0]]))


def test_the_node_index_norm_equals_that_of_the_released_code() -> None:
    """Without padding: the i-th nodes of all graphs that have one, over graphs and features."""
    batch = sample()
    x = batch.x.requires_grad_()
    slow = torch.cat(reference.node_index_norm(reference.blocks(x, batch.sizes)))
    fast = NodeIndexNorm()(batch.sparse, x)
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-9)
    cotangent = randn(*fast.shape, seed=5)
    torch.testing.assert_close(
        *gradients((fast * cotangent).sum(), x),
        *gradients((slow * cotangent).sum(), x),
        rtol=1e-8,
        atol=1e-8,
    )


def test_inputs_fitted_in_parts_are_standardized_as_in_one_piece() -> None:
    x = torch.randn(50, 3, dtype=torch.float64) * torch.tensor([1e-3, 1, 1e6]) + 7
    x[:, 1] = 3
    columns = torch.tensor([True, True, True])
    whole, parts = Standardize(3).double(), Standardize(3).double()
    whole.fit(x, columns)
    parts.fit_parts(x.split([20, 0, 1, 29]), columns)
    torch.testing.assert_close(parts.mean, whole.mean)
    torch.testing.assert_close(parts.inverse_sd, whole.inverse_sd)
    torch.testing.assert_close(whole.mean[0], x.mean(0))
    assert whole.inverse_sd[0, 1] == parts.inverse_sd[0, 1] == 1  # constant
