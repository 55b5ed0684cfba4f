"""Random models on random batches, with the C kernels and with the reference.

As a program, it runs them with another build of the C kernels, for instance one with sanitizers:
`python -m tests.backends.cpu.random_models MODULE COUNT`.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys

import numpy as np
import torch
from torch import Tensor

from diffpool.architecture import Architecture
from diffpool.backends import use_backend
from diffpool.builder import build
from diffpool.graphs import SparseGraphs
from diffpool.layout import Layout
from diffpool.nn import GraphClassifier

KERNELS = "diffpool.backends.cpu._kernels"
ORDERS = (("l2", "relu", "batch"), ("l2", "batch"), ("relu", "batch"), ("batch",))


def random_graphs(rng: np.random.Generator, models: int) -> SparseGraphs:
    """M times B graphs of 0 to 12 nodes, all of them empty now and then; some weighted, some directed."""
    count = models * int(rng.integers(1, 5))
    sizes = rng.integers(0, 13, count) * (rng.random(count) < 0.8) * int(rng.random() < 0.9)
    ends = np.cumsum(sizes)
    source, target = [], []
    for start, size in zip(ends - sizes, sizes, strict=True):
        number = int(rng.integers(0, 3 * size + 1)) if size else 0
        source.append(start + rng.integers(0, max(size, 1), number))
        target.append(start + rng.integers(0, max(size, 1), number))
    ends_of_edges = [np.concatenate(source), np.concatenate(target)]
    if rng.random() < 0.7:  # undirected
        ends_of_edges = [np.concatenate(ends_of_edges), np.concatenate(ends_of_edges[::-1])]
    weight = rng.random(len(ends_of_edges[0])) if rng.random() < 0.4 else None
    graphs = SparseGraphs.from_edges(sizes, *ends_of_edges, weight)
    if models > 1:
        layout = Layout.from_sizes(sizes, models=models)
        graphs, _ = graphs.with_empty_graph().select(np.arange(count), layout)
    return graphs


def random_model(rng: np.random.Generator, models: int) -> GraphClassifier:
    def choice(values: tuple) -> tuple:
        return values[int(rng.integers(len(values)))]

    architecture = Architecture(
        hidden=int(rng.integers(1, 40)),
        poolings=int(rng.integers(0, 4)),
        layers_before=int(rng.integers(1, 4)),
        layers_after=int(rng.integers(1, 4)),
        ratio=float(rng.choice([1e-12, 0.1, 0.25, 0.5, 1.0])),
        order=choice(ORDERS),
        last_order=choice(ORDERS),
        assignment_order=choice(ORDERS),
        concat=bool(rng.random() < 0.5),
        assignment_linear=bool(rng.random() < 0.5),
        every_level=bool(rng.random() < 0.5),
        readout=str(rng.choice(["sum", "mean", "max"])),
    )
    torch.manual_seed(int(rng.integers(2**31)))
    model = build(architecture, int(rng.integers(1, 20)), 3, 12, models=models)
    return model.train(bool(rng.random() < 0.7))


def outcome(model: GraphClassifier, graphs: SparseGraphs, x: Tensor) -> list[Tensor]:
    """Logits, losses and gradients."""
    x = x.clone().requires_grad_()
    prediction = model(graphs, x)
    outputs = [prediction.logits, *prediction.losses.values()]
    loss = sum(t.square().sum() for t in outputs)
    given = [x, *model.parameters()]
    gradients = torch.autograd.grad(loss, given, allow_unused=True, materialize_grads=True)
    return [t.detach() for t in (*outputs, *gradients)]


def check(seed: int, compare: bool = True) -> None:
    """One random model on one random batch; raises an AssertionError if kernels and reference differ."""
    rng = np.random.default_rng(seed)
    models = int(rng.choice([1, 1, 2, 3]))
    model, graphs = random_model(rng, models), random_graphs(rng, models)
    width = model.encoders[0].convs[0].linear.num_inputs // 2
    x = torch.from_numpy(rng.standard_normal((graphs.num_nodes, width))).float()
    state = {name: t.clone() for name, t in model.state_dict().items()}
    found = outcome(model, graphs, x)
    if not compare:
        return
    # in double precision, because a batch normalization over two rows amplifies rounding errors
    model.load_state_dict(state)
    exact = model.double()
    with use_backend("reference"):
        expected = outcome(exact, graphs.to(dtype=torch.float64), x.double())
        exact.load_state_dict(state)
        single = outcome(exact.float(), graphs, x)
    roundings = _differences(single, expected)
    differences = _differences(found, expected)
    bounds = [1e-4 * (1 + t.abs().max().item() if t.numel() else 1.0) for t in expected]
    # the gradient of a bias before a batch normalization cancels: it has the rounding error of its terms
    bounds = [
        max(bound, 20 * own, 2 * max(roundings))
        for bound, own in zip(bounds, roundings, strict=True)
    ]
    if any(d > bound for d, bound in zip(differences, bounds, strict=True)):
        # ill-conditioned: compare with what rounding the parameters and the input can change
        spread = _sensitivity(exact, state, graphs, x, expected)
        bounds = [max(bound, 5 * own) for bound, own in zip(bounds, spread, strict=True)]
    for number, (difference, bound) in enumerate(zip(differences, bounds, strict=True)):
        assert difference <= bound, (seed, number, difference, bound)


def _differences(found: list[Tensor], expected: list[Tensor]) -> list[float]:
    """The largest difference of each output and gradient."""
    return [
        (a - b).abs().max().item() if a.numel() else 0.0
        for a, b in zip(found, expected, strict=True)
    ]


def _sensitivity(
    model: GraphClassifier,
    state: dict[str, Tensor],
    graphs: SparseGraphs,
    x: Tensor,
    expected: list[Tensor],
) -> list[float]:
    """How much each output and gradient changes in double precision if the inputs are rounded to float32."""
    generator = torch.Generator().manual_seed(0)

    def rounded(t: Tensor) -> Tensor:
        noise = torch.randn(t.shape, generator=generator, dtype=torch.float64)
        return t.double() * (1 + 2**-24 * noise)

    spread = [0.0] * len(expected)
    model, exact_graphs = model.double(), graphs.to(dtype=torch.float64)
    with use_backend("reference"):
        for _ in range(10):
            model.load_state_dict(
                {n: rounded(t) if t.is_floating_point() else t for n, t in state.items()}
            )
            changes = _differences(outcome(model, exact_graphs, rounded(x)), expected)
            spread = [max(pair) for pair in zip(spread, changes, strict=True)]
    return spread


def main() -> None:
    path, count = sys.argv[1], int(sys.argv[2])
    loader = importlib.machinery.ExtensionFileLoader(KERNELS, path)
    spec = importlib.util.spec_from_file_location(KERNELS, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[KERNELS] = module
    torch.set_num_threads(2)
    with use_backend("cpu"):
        for seed in range(count):
            check(seed, compare=False)
    import diffpool.backends.cpu.encoder as user

    assert user._kernels is module
    print(f"{count} random models")


if __name__ == "__main__":
    main()
