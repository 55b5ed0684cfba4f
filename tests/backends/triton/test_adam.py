"""The optimizer's kernel on the CPU, by Triton's interpreter, in a process of its own: equal to the rest."""

from __future__ import annotations

from interpreter import needs_triton, says_equal

CODE = """
import torch
from diffpool.backends import select as native
from diffpool.nn.linear import Linear
from diffpool.training import Optimizer, Training

configs = [
    Training(learning_rate=1e-3), Training(learning_rate=0.1, weight_decay=0.5), Training(clip=0.01)
]
for decayed in (True, False):
    results = []
    for fast in (False, True):
        native.suits_triton = lambda *tensors: fast
        torch.manual_seed(0)
        layer = Linear(7, 300, models=3)
        own = configs if decayed else [Training(learning_rate=c.learning_rate, clip=c.clip) for c in configs]
        optimizer = Optimizer(layer, own)
        for step in range(6):
            x = torch.randn(12, 7)
            present = torch.tensor([True, step != 2, step < 4])
            optimizer.step(layer(x).square().sum() * 10.0**-step, present)
        results.append([layer.weight, layer.bias, *optimizer.state().values()])
    for slow, ours in zip(*results):
        torch.testing.assert_close(ours, slow, rtol=1e-5, atol=1e-6)
print("equal")
"""


@needs_triton
def test_the_kernel_equals_the_operations() -> None:
    says_equal(CODE)
