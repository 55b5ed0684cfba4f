"""Stacks of convolutions."""

from __future__ import annotations

import pytest
import torch
from samples import sample

from diffpool.backends import use_backend
from diffpool.layout import Layout, column_mask
from diffpool.nn import Encoder, Sage


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("outputs", [None, 4])
def test_columns_that_a_row_does_not_have_are_zero_and_have_no_gradient(backend, outputs):
    drawn = sample((6, 3, 8), edgeless=())
    clusters = Layout.from_sizes([2, 1, 4])
    encoder = Encoder(Sage, [3, 5, 4], concat=outputs is not None, outputs=outputs)
    with use_backend(backend):
        graphs = drawn.sparse.to(dtype=torch.float32)
        scores = encoder(graphs, drawn.x.float(), clusters)
        outside = ~column_mask(graphs.layout, clusters)
        assert (scores[outside] == 0).all()
        grads = torch.autograd.grad(scores[outside].sum(), list(encoder.parameters()))
    assert all((grad == 0).all() for grad in grads)
