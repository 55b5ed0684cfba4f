"""The C kernels: threads, rounding, and arguments that they must leave to the reference or reject.

tests/backends/test_registry.py compares their results with the references.
"""

from __future__ import annotations

import copy
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.checkpoint
from samples import KINDS, gradients, randn, sample
from torch import Tensor

from diffpool.architecture import PAPER
from diffpool.backends import KERNELS, enabled_backends, use_backend
from diffpool.backends.cpu import threads
from diffpool.builder import build
from diffpool.data import embedded
from diffpool.errors import DataError
from diffpool.graphs import SparseGraphs
from diffpool.layout import Layout
from diffpool.nn import BatchNorm, Encoder, GraphClassifier, Linear, Sage
from diffpool.training import CohortBatches, total_loss

pytestmark = pytest.mark.skipif(
    "cpu" not in enabled_backends(), reason="the C kernels were not built"
)
INPUTS, OUTPUTS = 3, 5


def close(a: Tensor, b: Tensor, tolerance: float = 2e-5) -> None:
    """Equal to single precision, relative to the largest entry."""
    scale = max(1.0, float(b.detach().abs().max())) if b.numel() else 1.0
    torch.testing.assert_close(a.double(), b.double(), rtol=0, atol=tolerance * scale)


def encoder() -> Encoder:
    return Encoder(Sage, [INPUTS, 6, 4, OUTPUTS]).train()


def step(model: GraphClassifier, graphs: SparseGraphs, x: Tensor) -> list[Tensor]:
    """Logits, gradients and running statistics of one step."""
    prediction = model(graphs, x)
    loss = prediction.logits.square().sum() + sum(v.sum() for v in prediction.losses.values())
    loss.backward()
    return [prediction.logits, *(p.grad for p in model.parameters()), *model.buffers()]


def medium() -> tuple[SparseGraphs, Tensor]:
    """Enough rows for several chunks."""
    batch = sample((230, 1, 310, 0, 120, 50, 170, 2), edgeless=(5,), density=0.02, weighted=True)
    return batch.sparse.to(dtype=torch.float32), batch.x.float()


@pytest.mark.parametrize("poolings", [1, 2])
def test_a_training_step_is_the_same_with_and_without_the_kernels(poolings: int) -> None:
    graphs, x = medium()
    fast = build(replace(PAPER, hidden=8, poolings=poolings), 3, 3, largest=310).train()
    slow = copy.deepcopy(fast)
    ours = step(fast, graphs, x)
    with use_backend("reference"):
        theirs = step(slow, graphs, x)
    for a, b in zip(ours, theirs, strict=True):
        close(a, b, 2e-4)


@pytest.mark.parametrize("linear", [False, True])
def test_a_step_of_several_models_is_the_same_with_and_without_the_kernels(linear: bool) -> None:
    """The models have different graphs; one has fewer, one has none. Compare losses, gradients, statistics."""
    dataset = embedded(12, seed=1, rungs=4)
    architecture = replace(PAPER, hidden=6, poolings=2, assignment_linear=linear)
    fast = build(architecture, 6, 2, dataset.largest, models=3).train()
    slow = copy.deepcopy(fast)
    batches = CohortBatches(dataset, fast.clusters)
    batch = batches.batch(np.array([[0, 3, 5, 7], [2, 9, -1, -1], [-1, -1, -1, -1]]))
    results = []
    for model, backend in ((fast, "cpu"), (slow, "reference")):
        with use_backend(backend):
            prediction = model(batch.graphs, batch.x, batch.plan)
            loss = total_loss(prediction, batch.y, {}).view(batch.real.shape)
            torch.where(batch.real, loss, 0).sum().backward()
        logits = prediction.logits.view(*batch.real.shape, -1)[batch.real]
        results.append([logits, *(p.grad for p in model.parameters()), *model.buffers()])
    for a, b in zip(*results, strict=True):
        close(a, b, 2e-4)


# --- threads ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the number of threads of the kernels, regardless of the number of cores."""
    before = torch.get_num_threads()
    monkeypatch.setattr(threads, "usable_cores", lambda: 8)
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_results_do_not_depend_on_the_number_of_threads(cores: Callable[[int], None]) -> None:
    graphs, x = medium()
    layers, results = encoder(), []
    for count in (1, 2, 3, 5):
        cores(count)
        copied, features = copy.deepcopy(layers), x.clone().requires_grad_()
        out = copied(graphs, features)
        results.append([out, *gradients(out.square().sum(), features, *copied.parameters())])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert torch.equal(a, b)


def test_several_threads_of_a_process_can_train_at_once(cores: Callable[[int], None]) -> None:
    graphs, x = medium()
    cores(2)
    model = build(replace(PAPER, hidden=8), 3, 3, largest=310).train()
    expected = step(copy.deepcopy(model), graphs, x)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: step(copy.deepcopy(model), graphs, x), range(8)))
    for result in found:
        for a, b in zip(result, expected, strict=True):
            close(a, b, 1e-6)


def _forked_step(connection: Any) -> None:
    """Without a backward pass, which PyTorch does not allow in a forked process."""
    graphs, x = medium()
    torch.manual_seed(0)
    model = build(replace(PAPER, hidden=8), 3, 3, largest=310).train()
    with torch.no_grad():
        connection.send(float(model(graphs, x).logits.sum()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_starts_its_own_threads(cores: Callable[[int], None]) -> None:
    cores(2)
    here, there = multiprocessing.Pipe()
    with threads.threads_for(rows=1):  # PyTorch's own threads do not survive a fork
        _forked_step(there)
        expected = here.recv()
        process = multiprocessing.get_context("fork").Process(target=_forked_step, args=(there,))
        process.start()
        assert here.poll(60)
    assert here.recv() == pytest.approx(expected)
    process.join()


def test_small_batches_limit_pytorch_but_not_the_kernels_to_one_thread(
    cores: Callable[[int], None],
) -> None:
    cores(4)
    with threads.threads_for(rows=100):
        assert (torch.get_num_threads(), threads.num_threads()) == (1, 4)
        with threads.threads_for(rows=100):
            assert (torch.get_num_threads(), threads.num_threads()) == (1, 4)
    assert (torch.get_num_threads(), threads.num_threads()) == (4, 4)
    with threads.threads_for(rows=1e6):
        assert torch.get_num_threads() == 4


# --- odd values and arguments ----------------------------------------------------------------------------------------


def test_rows_of_zeros_have_the_gradients_of_the_reference() -> None:
    """Such rows have no direction, so their norm counts as a constant."""
    single = Encoder(Sage, [INPUTS, OUTPUTS]).train()
    torch.nn.init.zeros_(single.convs[0].linear.bias)
    double = copy.deepcopy(single).double()
    graphs = SparseGraphs.from_edges([3, 2], [0, 1], [1, 0])
    x = torch.tensor([[0.0, 0, 0], [0, 0, 0], [1, 2, 3], [0, 0, 0], [3, 1, 2]])
    results = []
    for layers, dtype in ((single, torch.float32), (double, torch.float64)):
        out = layers(graphs.to(dtype=dtype), x.to(dtype))
        loss = (out * randn(*out.shape, seed=4).to(dtype)).sum()
        results.append([out, *gradients(loss, *layers.parameters())])
    for a, b in zip(*results, strict=True):
        close(a, b)


def test_nan_stays_nan() -> None:
    graphs, x = SparseGraphs.from_edges([3, 2], [0, 1], [1, 0]), torch.randn(5, INPUTS)
    x[1, 2] = torch.nan
    layers = encoder().eval()
    with use_backend("reference"):
        expected = layers(graphs, x).isnan()
    assert expected.any()
    assert torch.equal(layers(graphs, x).isnan(), expected)


def test_frozen_parameters_do_not_block_other_gradients() -> None:
    batch = sample()
    single = encoder()
    for parameter in single.convs[1].parameters():
        parameter.requires_grad_(False)
    double = copy.deepcopy(single).double()
    results = []
    for layers, dtype in ((single, torch.float32), (double, torch.float64)):
        out = layers(batch.sparse.to(dtype=dtype), batch.x.to(dtype))
        trained = [p for p in layers.parameters() if p.requires_grad]
        results.append(gradients((out * randn(*out.shape, seed=4).to(dtype)).sum(), *trained))
    for a, b in zip(*results, strict=True):
        close(a, b, 1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_double_precision_graphs_with_single_precision_features_are_rejected(kind: str) -> None:
    batch = sample(**KINDS[kind])
    with pytest.raises(RuntimeError):
        encoder()(batch.sparse, batch.x.float())


@pytest.mark.parametrize("extra", [-2, 100])
def test_a_wrong_number_of_feature_rows_is_rejected(extra: int) -> None:
    graphs = SparseGraphs.from_edges([4, 3], [0, 1, 4, 6], [1, 0, 6, 4])
    model = build(replace(PAPER, hidden=8), INPUTS, 2, largest=4)
    for network in (encoder(), model):
        with pytest.raises(DataError, match=f"each of 7 nodes, got {7 + extra}"):
            network(graphs, torch.randn(7 + extra, INPUTS))


def test_shapes_that_do_not_fit_are_left_to_the_reference() -> None:
    graphs = SparseGraphs.from_edges([4, 3], [0, 1, 4, 6], [1, 0, 6, 4])
    clusters, accepts = Layout.from_sizes([3, 2]), KERNELS["equations.pool", "cpu"].accepts
    logits, z = torch.randn(7, 3), torch.randn(7, 5)
    assert accepts(graphs, logits, z, clusters)
    assert not accepts(graphs, logits[:, :2].contiguous(), z, clusters)
    assert not accepts(graphs, logits[:5], z, clusters)
    assert not accepts(graphs, logits, z[:5], clusters)
    assert not accepts(graphs, logits, z, Layout.from_sizes([3, 2, 1]))


def _same_as_the_reference(layers: Encoder, graphs: SparseGraphs, x: Tensor) -> None:
    ours = layers(graphs, x)
    with use_backend("reference"):
        close(ours, layers(graphs, x))


def test_replaced_parts_of_an_encoder_are_noticed() -> None:
    graphs, x = SparseGraphs.from_edges([4, 3], [0, 1, 4, 6], [1, 0, 6, 4]), torch.randn(7, INPUTS)
    layers = encoder().eval()
    _same_as_the_reference(layers, graphs, x)
    layers.convs[1].linear = Linear(12, 4)
    _same_as_the_reference(layers, graphs, x)
    layers.steps[2].steps[-1] = BatchNorm(OUTPUTS).eval()
    layers.steps[2].steps[-1].running_mean += 1
    _same_as_the_reference(layers, graphs, x)
    bias = {"convs.2.linear.bias": torch.randn(1, OUTPUTS)}
    layers.load_state_dict(bias, strict=False, assign=True)
    _same_as_the_reference(layers, graphs, x)
    weight = layers.convs[0].linear.weight
    layers.convs[0].linear.weight = torch.nn.Parameter(weight.mT.contiguous().mT.detach())
    _same_as_the_reference(layers, graphs, x)  # not contiguous
    functional = {"convs.1.linear.weight": torch.randn(1, 12, 4)}
    ours = torch.func.functional_call(layers, functional, (graphs, x))
    with use_backend("reference"):
        close(ours, torch.func.functional_call(layers, functional, (graphs, x)))


def test_subclasses_and_hooks_of_encoders_are_called() -> None:
    class Doubled(Encoder):
        def forward(self, *arguments: Any) -> Tensor:
            return 2 * super().forward(*arguments)

    graphs, x = SparseGraphs.from_edges([4, 3], [0, 1, 4, 6], [1, 0, 6, 4]), torch.randn(7, INPUTS)
    model = build(replace(PAPER, hidden=8), INPUTS, 2, largest=4).eval()
    called: list[str] = []
    for number, module in enumerate((*model.encoders, model.poolers[0].gnn)):
        module.register_forward_hook(lambda *_, n=number: called.append(n))
    model(graphs, x)
    assert sorted(called) == [0, 1, 2]
    model = build(replace(PAPER, hidden=8), INPUTS, 2, largest=4).eval()
    model.encoders[0].__class__ = Doubled
    ours = model(graphs, x).logits
    with use_backend("reference"):
        close(ours, model(graphs, x).logits)


def test_saved_tensors_may_be_moved_before_the_backward_pass() -> None:
    graphs, x = medium()
    x = x.requires_grad_()
    layers = encoder()
    (expected,) = torch.autograd.grad(copy.deepcopy(layers)(graphs, x).square().sum(), x)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        out = copy.deepcopy(layers)(graphs, x)
    (found,) = torch.autograd.grad(out.square().sum(), x)
    close(found, expected)
    copied = copy.deepcopy(layers)
    out = torch.utils.checkpoint.checkpoint(copied, graphs, x, use_reentrant=False)
    (found,) = torch.autograd.grad(out.square().sum(), x)
    close(found, expected)


@pytest.mark.parametrize("width", [INPUTS - 1, INPUTS + 2])
def test_features_of_the_wrong_width_are_left_to_the_reference(width: int) -> None:
    graphs = SparseGraphs.from_edges([4, 3], [0, 1, 4, 6], [1, 0, 6, 4])
    accepts = KERNELS["nn.encoder.encode", "cpu"].accepts
    assert not accepts(graphs, torch.randn(7, width), encoder(), None)
    assert accepts(graphs, torch.randn(7, INPUTS), encoder(), None)


def test_more_clusters_than_outputs_are_left_to_the_reference() -> None:
    graphs = SparseGraphs.from_edges([40, 3], [0, 1], [1, 0])
    many = Layout.from_sizes([OUTPUTS + 1, 1])
    accepts = KERNELS["nn.encoder.encode", "cpu"].accepts
    assert not accepts(graphs, torch.randn(43, INPUTS), encoder(), many)
    assert encoder()(graphs, torch.randn(43, INPUTS), many).shape == (43, OUTPUTS + 1)


def test_strided_features_are_read_correctly() -> None:
    batch = sample()
    layers = encoder()
    graphs = batch.sparse.to(dtype=torch.float32)
    wide = torch.zeros(graphs.num_nodes, 2 * INPUTS)
    wide[:, ::2] = batch.x.float()
    expected = copy.deepcopy(layers)(graphs, batch.x.float())
    close(layers(graphs, wide[:, ::2]), expected)


def test_a_strided_cotangent_is_read_correctly() -> None:
    batch = sample()
    layers = encoder()
    graphs = batch.sparse.to(dtype=torch.float32)
    x = batch.x.float().requires_grad_()
    strided = torch.randn(OUTPUTS, graphs.num_nodes).T
    (a,) = torch.autograd.grad(copy.deepcopy(layers)(graphs, x), x, strided)
    (b,) = torch.autograd.grad(layers(graphs, x), x, strided.contiguous())
    assert torch.equal(a, b)


def test_a_second_derivative_is_rejected() -> None:
    batch = sample()
    x = batch.x.float().requires_grad_()
    out = encoder()(batch.sparse.to(dtype=torch.float32), x).square().sum()
    (first,) = torch.autograd.grad(out, x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()
