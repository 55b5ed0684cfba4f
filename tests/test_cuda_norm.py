"""The normalisation kernels on the CPU, by Triton's interpreter, in a process of its own: equal to the modules."""

from __future__ import annotations

from interpreter import needs_triton, says_equal

CODE = """
import copy, torch
from diffpool.cuda_norm import NormSteps
from diffpool.nn.norm import FUSED, Steps
from diffpool.segment import Layout
from diffpool.graphs import DenseGraphs

generator = torch.Generator().manual_seed(0)


def randn(*shape):
    return torch.randn(shape, generator=generator, dtype=torch.float64)


models, rows, width = 3, 37, 9
for names in FUSED:
    for d in (width, 6):
        for kind in ("whole", "ragged"):
            steps = Steps(names, width, models).double().train()
            with torch.no_grad():
                for value in steps.state_dict().values():
                    value.add_(0.3 * torch.rand(value.shape, generator=generator))
            counts = None
            if kind == "ragged":
                counts = torch.randint(0, d + 1, (models * rows,), generator=generator)
                counts[rows : 2 * rows] = 0  # a model without rows
                counts[0] = d
                counts[2 * rows + 1 :] = 0  # one with a single row or two
            x = randn(models * rows, d)
            mask = None if counts is None else torch.arange(d) < counts[:, None]
            x = x if mask is None else x * mask
            slow, fast = copy.deepcopy(steps), copy.deepcopy(steps).float()
            a = x.clone().requires_grad_()
            graphs = DenseGraphs.of(Layout.of([models * rows]), torch.zeros(models * rows, 1))
            expected = slow(graphs, a, mask)
            weight = randn(*x.shape)
            of_slow = [t for t in slow.parameters()]
            theirs = torch.autograd.grad((expected * weight).sum(), [a, *of_slow])
            b = x.float().requires_grad_()
            batch = fast.steps[-1]
            ours = NormSteps.apply(
                b, batch.weight, batch.bias, batch.running_mean, batch.running_var, counts,
                batch.momentum, batch.eps, "l2" in names, "relu" in names,
            )
            found = torch.autograd.grad((ours * weight.float()).sum(), [b, batch.weight, batch.bias])
            pairs = [(ours, expected), *zip(found, theirs), *zip(fast.buffers(), slow.buffers())]
            for one, other in pairs:
                scale = max(1.0, float(other.detach().abs().max()))
                one = one.double() if mask is None or one.shape != x.shape else one.double() * mask
                other = other if mask is None or other.shape != x.shape else other * mask
                where = f"{names} {d} {kind}"
                torch.testing.assert_close(one, other, rtol=0, atol=1e-4 * scale, msg=where)
print("equal")
"""


@needs_triton
def test_the_kernels_equal_the_modules() -> None:
    says_equal(CODE)
