"""The normalization kernels equal the modules, which compute in double precision."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from diffpool.graphs import DenseGraphs
from diffpool.layout import Layout, column_mask
from diffpool.nn.norm import FUSED, Steps

pytestmark = pytest.mark.triton

MODELS, WIDTH = 3, 9
# One model has a single row, and one has graphs with few of the columns.
SIZES = (30, 0, 7, 1, 0, 0, 20, 3, 5)
CLUSTERS = (6, 0, 2, 1, 0, 0, 6, 1, 3)


def result(
    steps: Steps, x: Tensor, weight: Tensor, clusters: bool, device: str
) -> list[tuple[str, Tensor]]:
    """The output where the weight is not zero, all gradients and the running statistics."""
    steps = steps.to(device)
    layout = Layout.from_sizes(SIZES, device, models=MODELS)
    columns = Layout.from_sizes(CLUSTERS, device, models=MODELS) if clusters else None
    dtype = steps.steps[-1].weight.dtype
    x, weight = x.to(device, dtype).requires_grad_(), weight.to(device, dtype)
    graphs = DenseGraphs.from_adj(layout, torch.zeros(layout.total, 1, device=device))
    out = steps(graphs, x, columns)
    inputs = {"x": x, **dict(steps.named_parameters())}
    found = torch.autograd.grad((out * weight).sum(), list(inputs.values()))
    named = [("output", out * weight.ne(0)), *zip(inputs, found, strict=True)]
    named += steps.named_buffers()
    return [(name, value.detach().cpu().double()) for name, value in named]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("width", "clusters"), [(WIDTH, False), (6, False), (6, True)])
@pytest.mark.parametrize("order", FUSED, ids="-".join)
def test_the_kernels_equal_the_modules(
    order: tuple[str, ...], width: int, clusters: bool, training: bool, device: str
) -> None:
    steps = Steps(order, WIDTH, MODELS).double().train(training)
    with torch.no_grad():
        for value in steps.state_dict().values():
            value.add_(0.3 * torch.rand(value.shape))
    layout = Layout.from_sizes(SIZES, models=MODELS)
    mask = layout.real[:, None]
    if clusters:
        mask = mask & column_mask(layout, Layout.from_sizes(CLUSTERS, models=MODELS))
    x, weight = (torch.randn(layout.total, width, dtype=torch.float64) * mask for _ in range(2))
    expected = result(copy.deepcopy(steps), x, weight, clusters, "cpu")
    found = result(copy.deepcopy(steps).float(), x, weight, clusters, device)
    for (name, a), (_, b) in zip(expected, found, strict=True):
        scale = max(1.0, float(a.abs().max()))
        torch.testing.assert_close(
            b, a, rtol=0, atol=1e-4 * scale, msg=lambda text, name=name: f"{name}: {text}"
        )
