"""Node-level output: unpooling in a hand-computed case, and the laws of the whole model."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from samples import Sample, randn, sample
from torch import Tensor

from diffpool import equations
from diffpool.architecture import PAPER, flat
from diffpool.builder import build_for_nodes
from diffpool.layout import Layout
from diffpool.nn import NodeClassifier

SMALL = replace(PAPER, hidden=6)
ARCHITECTURES = {
    "one pooling": SMALL,
    "two poolings": replace(SMALL, poolings=2),
    "hard": replace(SMALL, assignment="straight-through"),
    "flat": flat(SMALL),
}
SIZES = (9, 1, 30, 0, 5)
each = pytest.mark.parametrize("name", ARCHITECTURES)


def model_of(name: str) -> NodeClassifier:
    torch.manual_seed(0)
    return build_for_nodes(ARCHITECTURES[name], 3, 4, max(SIZES)).double().eval()


def exact(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def batch_of() -> Sample:
    return sample(SIZES, edgeless=(4,), density=0.4, weighted=True)


def test_unpooling_gives_each_node_the_features_of_its_clusters() -> None:
    """Two graphs, with two clusters and one cluster: S H' computed by hand."""
    s = torch.tensor([[1.0, 0.0], [0.25, 0.75], [1.0, 0.0]])
    h = torch.tensor([[4.0], [8.0], [5.0]])
    lifted = equations.unpooled_features(s, h, Layout.from_sizes([2, 1]), Layout.from_sizes([2, 1]))
    assert lifted.squeeze(1).tolist() == [4.0, 7.0, 5.0]


@each
def test_node_predictions_are_permutation_equivariant(name: str) -> None:
    model = model_of(name)
    graph = sample((8,), edgeless=(), density=0.4)
    order = torch.tensor([3, 5, 0, 7, 1, 4, 6, 2])
    turned = Sample([graph.adjs[0][order][:, order]], [graph.xs[0][order]])
    logits = model(graph.sparse, graph.x).logits
    assert logits.shape == (8, 4)
    exact(model(turned.sparse, turned.x).logits, logits[order])


@each
def test_node_predictions_are_the_same_alone_and_in_a_batch(name: str) -> None:
    model, batch = model_of(name), batch_of()
    together = model(batch.sparse, batch.x).logits.split(list(SIZES))
    for graph in range(len(SIZES)):
        single = batch.of([graph])
        exact(model(single.sparse, single.x).logits, together[graph])


@each
def test_every_parameter_has_a_finite_gradient(name: str) -> None:
    model, batch = model_of(name), batch_of()
    prediction = model(batch.sparse, batch.x)
    loss = (prediction.logits * randn(*prediction.logits.shape, seed=1)).sum()
    (loss + sum(v.sum() for v in prediction.losses.values())).backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert torch.isfinite(parameter.grad).all(), key
        assert parameter.grad.abs().max() > 0, key
