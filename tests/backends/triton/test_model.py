"""Whole models by the Triton kernels, without a GPU: by its interpreter, in a process of its own, equal to the modules.

Memory that a kernel leaves unwritten is NaN here, so that reading it is seen.
"""

from __future__ import annotations

import pytest
from interpreter import needs_triton, says_equal

CODE = """
import copy, torch
from dataclasses import replace
import numpy as np
from diffpool.backends import select as native
native.kernels = None
from diffpool.data import Categories, GraphDataset, RawGraphs
from diffpool.architecture import PAPER, RELEASED
from diffpool.builder import build
from diffpool.baselines.prepare import prepare
from diffpool.training import CohortBatches
from diffpool.backends.capture import Capacity, Drawing

def poisoned(make):
    def made(*arguments, **options):
        t = make(*arguments, **options)
        return t.fill_(torch.nan) if t.is_floating_point() else t
    return made

torch.empty_like = poisoned(torch.empty_like)
torch.Tensor.new_empty = poisoned(torch.Tensor.new_empty)

ORDER = ("l2", "relu", "batch")
ARCHITECTURES = {
    "paper": PAPER,
    "two poolings": replace(PAPER, poolings=2, ratio=0.4),
    "side by side": replace(
        PAPER, poolings=2, ratio=0.4, concat=True, assignment_linear=True, assignment_order=ORDER,
        readout="mean", head=(5,),
    ),
    "one number of clusters": replace(PAPER, clusters="dataset", readout="max"),
    "gin": replace(PAPER, conv="gin"),
    "released": RELEASED,
    "straight-through": replace(PAPER, poolings=2, ratio=0.4, assignment="straight-through"),
    "random": replace(PAPER, poolings=2, ratio=0.4, pooler="random"),
    "uniform": replace(PAPER, pooler="uniform"),
    "s2v": replace(PAPER, conv="s2v", layers_before=1, layers_after=1, last_order=("batch",)),
    "set2set": replace(PAPER, poolings=0, readout="set2set"),
    "sort": replace(
        PAPER, conv="dgcnn", poolings=0, layers_before=1, order=("tanh",), last_order=("tanh",),
        concat=True, readout="sort", sorted_nodes=12,
    ),
    "fields": replace(PAPER, poolings=0, readout="fields", field_count=9, field_size=4),
}
rng = np.random.default_rng(0)
sizes = np.array([13, 1, 70, 8, 0, 41])
starts = np.cumsum(sizes) - sizes
source = np.concatenate([s + rng.integers(0, max(n, 1), 3 * n) for s, n in zip(starts, sizes)])
target = np.concatenate([s + rng.integers(0, max(n, 1), 3 * n) for s, n in zip(starts, sizes)])
x = rng.normal(size=(sizes.sum(), 4))
raw = RawGraphs.from_edges(
    "uneven", sizes, source, target, one_way=ONE_WAY, node_attributes=x,
    classes=Categories.from_values(np.arange(6) % 2)
)
dataset = GraphDataset.from_raw(raw)
models = 2
chosen = np.array([[0, 2, 1, 4], [5, 3, -1, -1]])
for name in NAMES:
    architecture = replace(ARCHITECTURES[name], hidden=8)
    ready = prepare(architecture, dataset.graphs, 70, keep=False)
    torch.manual_seed(0)
    double = build(architecture, dataset.num_features, 2, 70, models=models).double()
    with torch.no_grad():
        for value in double.state_dict().values():
            value.add_(0.3 * torch.rand(value.shape, dtype=value.dtype))
    for training in (True, False):
        for drawn in (True, False):
            results = []
            for dtype in (torch.float64, torch.float32):
                here = copy.deepcopy(double).to(dtype).train(training)
                own = replace(dataset, graphs=ready.to(dtype=dtype), x=dataset.x.to(dtype))
                batches = CohortBatches(own, here.clusters)
                if drawn and dtype == torch.float32:
                    numbers = torch.from_numpy(np.where(chosen >= 0, chosen, len(sizes)))
                    capacity = Capacity.from_rows(int(batches.levels(chosen)[0].sum(1).max()), 4, here.clusters)
                    graphs, plan, x, y, real = Drawing(batches).draw(numbers, capacity)
                else:
                    graphs, plan, x, y, real = batches.batch(chosen).parts
                found = here(graphs, x, plan)
                mask = real.view(-1)
                weights = torch.linspace(-1, 2, int(2 * mask.sum()), dtype=dtype).view(-1, 2)
                loss = (found.logits[mask] * weights).sum()
                for number, (kind, value) in enumerate(sorted(found.losses.items())):
                    loss = loss + (1 + number) * value[mask].sum()
                grads = torch.autograd.grad(loss, list(here.parameters()))
                s = [a.of_graph(g) for a in found.assignments for g in range(8)]
                buffers = [b for n, b in here.named_buffers()]
                results.append([found.logits[mask], loss, *grads, *s, *buffers])
            for a, b in zip(*results, strict=True):
                scale = max(1.0, float(a.detach().abs().max()) if a.numel() else 1.0)
                where = lambda text: f"{name}, training {training}, drawn {drawn}: {text}"
                torch.testing.assert_close(b.double(), a, rtol=0, atol=1e-3 * scale, msg=where)
print("equal")
"""

KINDS = (
    *("paper", "two poolings", "side by side", "one number of clusters", "gin", "released"),
    *("straight-through", "random", "uniform", "s2v", "set2set", "sort", "fields"),
)


@needs_triton
@pytest.mark.parametrize("name", KINDS)
def test_a_model_by_the_kernels_equals_the_modules(name: str) -> None:
    says_equal(CODE.replace("NAMES", f"[{name!r}]").replace("ONE_WAY", "True"))


@needs_triton
def test_the_same_with_directed_edges() -> None:
    code = CODE.replace("NAMES", "['side by side']").replace("ONE_WAY", "False")
    says_equal(code)


@needs_triton
def test_rows_of_several_sizes() -> None:
    code = CODE.replace("NAMES", "['side by side']").replace("ONE_WAY", "True")
    says_equal("import diffpool.backends.triton.blocks as blocks; blocks.FIRST = 8\n" + code)
