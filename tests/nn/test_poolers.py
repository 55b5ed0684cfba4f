"""Poolers other than DiffPool: given, uniform and hard clusters."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from samples import Sample, gradients, pooled, randn, sample
from torch import Tensor

from diffpool import equations
from diffpool.baselines.fixed_clusters import GivenClusters, UniformClusters, given_of_clusters
from diffpool.errors import DataError
from diffpool.graphs import Prepared
from diffpool.layout import Layout
from diffpool.nn import DiffPool, Encoder, HardDiffPool, Random, Sage
from diffpool.nn.poolers.hard import straight_through


def exact(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def path() -> Sample:
    """0 − 1 − 2 − 3."""
    adj = torch.diag(torch.ones(3, dtype=torch.float64), 1)
    return Sample([adj + adj.T], [torch.tensor([[1.0], [2.0], [3.0], [4.0]]).double()])


# --- given clusters ----------------------------------------------------------------------------------------------


def test_given_clusters_by_hand() -> None:
    """{0, 1}, {2}, {3}, then one cluster of all: edges within the first cluster become a self-loop."""
    batch = path()
    given = torch.tensor([[0, 0], [0, 0], [1, 0], [2, 0]])
    graphs = replace(batch.sparse, prepared=Prepared(nodes=given))
    first = pooled(GivenClusters(), graphs, batch.x, Layout.from_sizes([3]))
    assert first.assignment.s.tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert first.x.squeeze(1).tolist() == [3, 3, 4]
    assert first.graphs.adj.tolist() == [[2, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert first.losses == {}
    second = pooled(GivenClusters(), first.graphs, first.x, Layout.from_sizes([1]))
    assert second.x.tolist() == [[10]]
    assert second.graphs.adj.tolist() == [[6]]


def test_clusters_of_clusters_are_found_in_batches_with_rows_of_no_graph() -> None:
    """Model 0 has graphs with 3 nodes and 1 node, model 1 one with 2 nodes and an empty one."""
    rows, clusters = (
        Layout.from_sizes([3, 1, 2, 0], models=2),
        Layout.from_sizes([2, 1, 2, 0], models=2),
    )
    graphs = replace(
        sample((3, 1, 2), edgeless=(), density=1.0).sparse,
        layout=rows,
        prepared=Prepared(
            nodes=torch.tensor([[1, 5], [0, 4], [1, 5], [0, 7], [1, 9], [0, 8], [0, 0], [0, 0]])
        ),
    )
    found = given_of_clusters(graphs.prepared.nodes, rows, clusters)[:, 0]
    assert found.tolist() == [4, 5, 7, 8, 9, 0]


def test_graphs_without_clusters_are_rejected() -> None:
    batch = path()
    with pytest.raises(
        DataError, match="expected graphs with clusters for every pooling, got none"
    ):
        pooled(GivenClusters(), batch.sparse, batch.x, Layout.from_sizes([2]))


def test_uniform_clusters_are_all_the_same() -> None:
    batch = path()
    coarse = pooled(UniformClusters(), batch.sparse, batch.x, Layout.from_sizes([2]))
    assert coarse.assignment.s.tolist() == [[0.5, 0.5]] * 4
    assert coarse.x.tolist() == [[5], [5]]
    assert coarse.graphs.adj.tolist() == [[1.5, 1.5], [1.5, 1.5]]


# --- hard clusters -----------------------------------------------------------------------------------------------


def hard(gumbel: bool = False, models: int = 1) -> HardDiffPool:
    return HardDiffPool(Encoder(Sage, [3, 5, 4], models=models), gumbel).double()


def test_a_hard_assignment_is_the_most_likely_cluster_with_the_gradient_of_the_soft_one() -> None:
    rows, clusters = Layout.from_sizes([3, 2]), Layout.from_sizes([3, 1])
    logits = randn(5, 3, seed=0).requires_grad_()
    soft = equations.assignment(logits, rows, clusters)
    s = straight_through(soft, rows, clusters)
    expected = torch.zeros(5, 3, dtype=torch.float64).scatter(1, soft.argmax(1, keepdim=True), 1.0)
    exact(s, expected)
    weights = randn(5, 3, seed=1)
    exact(gradients((s * weights).sum(), logits)[0], gradients((soft * weights).sum(), logits)[0])


@pytest.mark.parametrize("gumbel", [False, True])
def test_hard_clusters_keep_the_edge_weight_and_give_sparse_graphs(gumbel: bool) -> None:
    batch = sample((12, 9, 5), edgeless=(), density=0.3, weighted=True)
    pooler, graphs = hard(gumbel).train(), batch.sparse
    coarse = pooled(pooler, graphs, batch.x, Layout.from_sizes([4, 3, 2]))
    s = coarse.assignment.s
    assert set(s.unique().tolist()) <= {0.0, 1.0}
    assert s.sum(1).tolist() == [1.0] * 26
    assert int((coarse.graphs.adj != 0).sum()) <= graphs.num_edges
    exact(coarse.graphs.adj.sum(), graphs.degree.sum())
    loss = coarse.x.square().sum() + coarse.graphs.adj.square().sum()
    for gradient in gradients(
        loss + sum(v.sum() for v in coarse.losses.values()), *pooler.parameters()
    ):
        assert torch.isfinite(gradient).all()


def test_gumbel_clusters_are_drawn_with_their_probabilities_in_training_only() -> None:
    """A batch of 2000 copies of a graph with one node."""
    pooler, count = hard(gumbel=True).eval(), 2000
    one = sample((1,), edgeless=(), seed=3)
    many = Sample(one.adjs * count, one.xs * count)
    rows, clusters = Layout.from_sizes([1] * count), Layout.from_sizes([4] * count)
    soft = equations.assignment(pooler.gnn(many.sparse, many.x, clusters), rows, clusters)
    calm = pooled(pooler, many.sparse, many.x, clusters).assignment.s
    exact(calm, straight_through(soft, rows, clusters))
    pooler.train()
    pooler.gnn.eval()  # all rows are equal: batch normalization would make them zero
    noise = Random([0], torch.zeros(1, 1)).at(0)
    counts = pooled(pooler, many.sparse, many.x, clusters, noise).assignment.s.detach().sum(0)
    expected = soft.detach().sum(0)
    assert (
        float(((counts - expected) ** 2 / expected).sum()) < 16.3
    )  # chi-squared, 3 degrees, 0.1 %
    again = pooled(pooler, many.sparse, many.x, clusters, noise).assignment.s.detach().sum(0)
    assert torch.equal(again, counts)  # the same step draws the same numbers


def test_the_noise_of_a_model_does_not_depend_on_other_models() -> None:
    steps = torch.tensor([[3.0], [8.0]])
    both, second = Random([1, 2], steps), Random([2], steps[1:])
    like = torch.empty(10, 4, dtype=torch.float64)
    exact(both.uniform(like, 1)[5:], second.uniform(like[5:], 1))
    assert not torch.equal(both.uniform(like, 1), both.uniform(like, 0))
    drawn = Random([0], steps[:1]).uniform(torch.empty(1000, 100), 0)
    assert float(drawn.min()) >= 0
    assert float(drawn.max()) < 1
    assert abs(float(drawn.mean()) - 0.5) < 0.01


@pytest.mark.parametrize("kind", [DiffPool, HardDiffPool])
def test_missing_scores_are_explained(kind: type[DiffPool] | type[HardDiffPool]) -> None:
    batch, clusters = path(), Layout.from_sizes([2])
    pooler = kind(Encoder(Sage, [1, 2]))
    with pytest.raises(DataError, match=r"got None: pass pooler\.gnn\(graphs, x, clusters\)"):
        pooler(batch.sparse, batch.x, None, clusters)
