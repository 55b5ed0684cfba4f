"""The Adam kernel does what the plain operations do."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from diffpool.nn.linear import Linear
from diffpool.training import Optimizer, Training

pytestmark = pytest.mark.triton

CONFIGS = [
    Training(learning_rate=1e-3),
    Training(learning_rate=0.1, weight_decay=0.5),
    Training(clip=0.01),
]


def trained(
    layer: Linear, xs: list[Tensor], configs: list[Training], device: str, dtype: torch.dtype
) -> list[Tensor]:
    """Parameters and state of the optimizer after six steps, in some of which a model has no graphs."""
    layer = layer.to(device, dtype)
    optimizer = Optimizer(layer, configs)
    for step, x in enumerate(xs):
        loss = layer(x.to(device, dtype)).square().sum() * 10.0**-step
        present = torch.tensor([True, step != 2, step < 4], device=device)
        optimizer.step(loss, present)
    state = [layer.weight, layer.bias, *optimizer.state().values()]
    return [t.detach().cpu().double() for t in state]


@pytest.mark.parametrize("decay", [True, False])
def test_the_kernel_equals_the_operations(decay: bool, device: str) -> None:
    configs = CONFIGS if decay else [replace(c, weight_decay=0.0) for c in CONFIGS]
    xs = [torch.randn(12, 7) for _ in range(6)]
    start = Linear(7, 300, models=3).state_dict()
    results = []
    for where, dtype in (("cpu", torch.float64), (device, torch.float32)):
        layer = Linear(7, 300, models=3)
        layer.load_state_dict(start)
        results.append(trained(layer, xs, configs, where, dtype))
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
