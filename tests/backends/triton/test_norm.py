"""The normalization kernels on the CPU, by Triton's interpreter, in a process of its own: equal to the modules."""

from __future__ import annotations

from interpreter import needs_triton, says_equal

CODE = """
import copy, torch
from diffpool.nn.norm import FUSED, Steps
from diffpool.layout import Layout, column_mask
from diffpool.graphs import DenseGraphs

generator = torch.Generator().manual_seed(0)


def randn(*shape):
    return torch.randn(shape, generator=generator, dtype=torch.float64)


models, width = 3, 9
# a model with a single row, and one with graphs that have few of the columns
sizes = Layout.from_sizes([30, 0, 7, 1, 0, 0, 20, 3, 5], models=models)
ragged = Layout.from_sizes([6, 0, 2, 1, 0, 0, 6, 1, 3], models=models)
for names in FUSED:
    for d, clusters in ((width, None), (6, None), (6, ragged)):
        for training in (True, False):
            steps = Steps(names, width, models).double().train(training)
            with torch.no_grad():
                for value in steps.state_dict().values():
                    value.add_(0.3 * torch.rand(value.shape, generator=generator))
            x = randn(sizes.total, d) * sizes.real[:, None]
            mask = None if clusters is None else column_mask(sizes, clusters)
            x = x if mask is None else x * mask
            slow, fast = copy.deepcopy(steps), copy.deepcopy(steps).float()
            graphs = DenseGraphs.from_adj(sizes, torch.zeros(sizes.total, 1))
            weight = randn(*x.shape) * sizes.real[:, None]
            weight = weight if mask is None else weight * mask
            results = []
            for own in (slow, fast):
                a = x.to(own.steps[-1].weight.dtype).requires_grad_()
                assert own.fits_gpu(graphs, a) == (own is fast)
                out = own(graphs, a, clusters)
                found = torch.autograd.grad((out * weight.to(out)).sum(), [a, *own.parameters()])
                results.append([out * weight.to(out).ne(0), *found, *own.buffers()])
            for expected, ours in zip(*results, strict=True):
                scale = max(1.0, float(expected.detach().abs().max()))
                where = lambda text: f"{names} {d} {clusters} {training}: {text}"
                torch.testing.assert_close(
                    ours.double(), expected.double(), rtol=0, atol=1e-4 * scale, msg=where
                )
print("equal")
"""


@needs_triton
def test_the_kernels_equal_the_modules() -> None:
    says_equal(CODE)
