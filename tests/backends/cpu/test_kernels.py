"""The C kernels: fused layers do what their modules do, and refuse what they would misread."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
import torch
from samples import KINDS, Sample, gradients, local, randn, sample
from torch import Tensor

from diffpool.architecture import PAPER
from diffpool.backends import select as native
from diffpool.builder import build
from diffpool.data import embedded
from diffpool.errors import DataError
from diffpool.graphs import DenseGraphs, Graphs, SparseGraphs
from diffpool.layout import Layout
from diffpool.nn import BatchNorm, DiffPool, Encoder, Sage
from diffpool.training import CohortBatches, total_loss

pytestmark = pytest.mark.skipif(native.kernels is None, reason="the C kernels were not built")

ORDER = ("l2", "relu", "batch")
INPUTS, OUTPUTS = 3, 5
# The kernels take over the first layers with this order: all of them, or all but the last.
ENCODERS = {
    "one layer": {"sizes": [INPUTS, OUTPUTS]},
    "three layers": {"sizes": [INPUTS, 6, 4, OUTPUTS]},
    "three layers side by side": {"sizes": [INPUTS, 6, 4, OUTPUTS], "concat": True},
    "a last layer of its own": {"sizes": [INPUTS, 6, 4, OUTPUTS], "last_order": ("batch",)},
    "a last layer of its own, side by side": {
        "sizes": [INPUTS, 6, 4, OUTPUTS],
        "last_order": ("batch",),
        "concat": True,
        "outputs": OUTPUTS,
    },
}
# Which columns of the last convolution the graphs use: all, the first four in every graph, or as many as each has.
COLUMNS = {"all": None, "four": (4,) * 8, "ragged": (2, 0, 1, 3, 2, 4, 0, 3)}


def close(a: Tensor, b: Tensor, tolerance: float = 2e-5) -> None:
    """Equal to single precision, measured by the largest entry."""
    scale = max(1.0, float(b.detach().abs().max())) if b.numel() else 1.0
    torch.testing.assert_close(a.double(), b.double(), rtol=0, atol=tolerance * scale)


def encoder(name: str = "one layer") -> Encoder:
    """An encoder in single precision whose parameters are not the initial ones."""
    layers = Encoder(Sage, order=ORDER, **ENCODERS[name])
    with torch.no_grad():
        for value in layers.steps.state_dict().values():
            value.add_(0.3 * torch.rand_like(value))
    return layers.train()


class Recorder:
    """The kernels, and the names of those that have been called."""

    def __init__(self, kernels: ModuleType):
        self.kernels = kernels
        self.called: set[str] = set()

    def __getattr__(self, name: str) -> Callable[..., None]:
        self.called.add(name)
        return getattr(self.kernels, name)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    spy = Recorder(native.kernels)
    monkeypatch.setattr(native, "kernels", spy)
    return spy


def graphs_of(batch: Sample, storage: str, dtype: torch.dtype) -> tuple[Graphs, list[Tensor]]:
    """The batch, and the blocks that its gradients reach (none for an edge list)."""
    if storage == "sparse":
        return batch.sparse.to(dtype=dtype), []
    adjs = [adj.to(dtype).requires_grad_() for adj in batch.adjs]
    return DenseGraphs.from_adj(Layout.from_sizes(batch.sizes), local(adjs, max(batch.sizes))), adjs


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("storage", ["sparse", "dense"])
def test_fused_layers_do_what_their_modules_do(
    ragged: Sample, storage: str, name: str, columns: str, recorder: Recorder
) -> None:
    """Outputs, all gradients and running statistics; the modules compute in double precision."""
    single = encoder(name)
    double = copy.deepcopy(single).double()
    results = []
    for layers, dtype in ((single, torch.float32), (double, torch.float64)):
        recorder.called.clear()
        graphs, adjs = graphs_of(ragged, storage, dtype)
        x = ragged.x.to(dtype).requires_grad_()
        out = layers(
            graphs, x, None if COLUMNS[columns] is None else Layout.from_sizes(COLUMNS[columns])
        )
        loss = (out * randn(*out.shape, seed=4).to(dtype)).sum()
        found = gradients(loss, x, *adjs, *layers.parameters())
        results.append([out, *found, *layers.buffers()])
        assert ("layers_forward" in recorder.called) == (dtype == torch.float32)
    for a, b in zip(*results, strict=True):
        close(a, b, 1e-4)


def test_fused_layers_with_rows_of_zeros_have_the_gradients_of_their_modules() -> None:
    """Such rows have no direction: their length counts as constant."""
    single = encoder()
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


def test_one_node_alone_is_normalized_by_the_running_statistics(recorder: Recorder) -> None:
    single = encoder()
    double = copy.deepcopy(single).double()
    before = [b.clone() for b in single.buffers()]
    graphs = SparseGraphs.from_edges([1], [], [])
    x = torch.tensor([[1.0, -2.0, 3.0]])
    close(single(graphs, x), double(graphs.to(dtype=torch.float64), x.double()))
    assert "layers_forward" in recorder.called
    for a, b in zip(single.buffers(), before, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("poolings", [1, 2])
def test_a_training_step_is_the_same_with_and_without_the_kernels(
    poolings: int, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = sample((23, 1, 31, 0, 12, 5, 17, 2), edgeless=(5,), density=0.2, weighted=True)
    graphs, x = batch.sparse.to(dtype=torch.float32), batch.x.float()
    fast = build(replace(PAPER, hidden=8, poolings=poolings), 3, 3, largest=31).train()
    slow = copy.deepcopy(fast)
    results = []
    for model in (fast, slow):
        if model is slow:
            assert {
                "layers_forward",
                "layers_backward",
                "pool_forward",
                "pool_backward",
            } <= recorder.called
            monkeypatch.setattr(native, "kernels", None)
        prediction = model(graphs, x)
        loss = prediction.logits.square().sum()
        loss = loss + sum(part.sum() for part in prediction.losses.values())
        loss.backward()
        results.append([prediction.logits, *(p.grad for p in model.parameters()), *model.buffers()])
    for a, b in zip(*results, strict=True):
        close(a, b, 2e-4)


@pytest.mark.parametrize("storage", ["sparse", "dense"])
@pytest.mark.parametrize("columns", ["four", "ragged"])
@pytest.mark.parametrize("kind", KINDS)
def test_fused_pooling_does_what_the_equations_do(
    kind: str, columns: str, storage: str, recorder: Recorder
) -> None:
    """S, X', A', its degrees, both losses, and all gradients; the equations compute in double precision."""
    batch = sample(**KINDS[kind])
    sizes = [0 if n == 0 else max(k, 1) for n, k in zip(batch.sizes, COLUMNS[columns], strict=True)]
    clusters = Layout.from_sizes(sizes)
    logits, z = (
        randn(sum(batch.sizes), clusters.largest, seed=7),
        randn(sum(batch.sizes), 3, seed=8),
    )
    results = []
    for dtype in (torch.float32, torch.float64):
        recorder.called.clear()
        graphs, adjs = graphs_of(batch, storage, dtype)
        inputs = [t.to(dtype).requires_grad_() for t in (2 * logits, z)]
        pooled = DiffPool(lambda *_, given=inputs[0]: given)(graphs, inputs[1], inputs[1], clusters)
        coarse = pooled.graphs
        made = [pooled.assignment.s, pooled.x, coarse.adj, coarse.degree, coarse.inverse_degree]
        made += [pooled.losses["link"], pooled.losses["entropy"]]
        loss = sum((t * randn(*t.shape, seed=i).to(dtype)).sum() for i, t in enumerate(made))
        results.append([*made, *gradients(loss, *inputs, *adjs)])
        assert ("pool_forward" in recorder.called) == (dtype == torch.float32)
    for a, b in zip(*results, strict=True):
        close(a, b, 1e-4)


@pytest.mark.parametrize("linear", [False, True])
def test_a_step_of_several_models_is_the_same_with_and_without_the_kernels(
    linear: bool, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With different graphs for each, one of them with fewer and one with none: losses, gradients, statistics."""
    dataset = embedded(12, seed=1, rungs=4)
    order = ("l2", "relu", "batch")
    architecture = replace(
        PAPER, hidden=6, poolings=2, ratio=0.25, assignment_linear=linear, assignment_order=order
    )
    fast = build(architecture, 6, 2, dataset.largest, models=3).train()
    slow = copy.deepcopy(fast)
    batches = CohortBatches(dataset, fast.clusters)
    batch = batches.batch(np.array([[0, 3, 5, 7], [2, 9, -1, -1], [-1, -1, -1, -1]]))
    results = []
    for model in (fast, slow):
        recorder.called.clear()
        if model is slow:
            monkeypatch.setattr(native, "kernels", None)
        prediction = model(batch.graphs, batch.x, batch.plan)
        loss = total_loss(prediction, batch.y, {}).view(batch.real.shape)
        torch.where(batch.real, loss, 0).sum().backward()
        logits = prediction.logits.view(*batch.real.shape, -1)[batch.real]
        results.append([logits, *(p.grad for p in model.parameters()), *model.buffers()])
        assert model is slow or {"layers_backward", "pool_backward"} <= recorder.called
    for a, b in zip(*results, strict=True):
        close(a, b, 2e-4)


def test_the_number_of_threads_changes_nothing_but_rounding() -> None:
    batch = sample((23, 1, 31, 0, 12, 5, 17, 2), edgeless=(5,), density=0.2, weighted=True)
    graphs, x = batch.sparse.to(dtype=torch.float32), batch.x.float()
    model = build(replace(PAPER, hidden=8, poolings=2), 3, 3, largest=31).train()
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 2):
            torch.set_num_threads(threads)
            copied = copy.deepcopy(model)
            prediction = copied(graphs, x)
            (prediction.logits.square().sum() + prediction.losses["link"].sum()).backward()
            results.append([prediction.logits, *(p.grad for p in copied.parameters())])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            close(a, b, 1e-4)
    for a, b in zip(results[1], results[3], strict=True):
        assert torch.equal(a, b)


# --- what the kernels must not do --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["one layer", "three layers"])
def test_a_frozen_batch_normalization_stays_frozen_while_the_rest_trains(name: str) -> None:
    single = encoder(name)
    for module in single.modules():
        if isinstance(module, BatchNorm):
            module.eval()
    double = copy.deepcopy(single).double()
    before = [b.clone() for b in single.buffers()]
    batch = sample()
    out = single(batch.sparse.to(dtype=torch.float32), batch.x.float())
    close(out, double(batch.sparse, batch.x))
    for a, b in zip(single.buffers(), before, strict=True):
        assert torch.equal(a, b)


def test_the_gradient_reaches_a_coarse_adjacency_whose_features_are_constant() -> None:
    batch = sample(**KINDS["weighted"])
    single = encoder()
    double = copy.deepcopy(single).double()
    results = []
    for layers, dtype in ((single, torch.float32), (double, torch.float64)):
        graphs, adjs = graphs_of(batch, "dense", dtype)
        out = layers(graphs, batch.x.to(dtype))
        results.append(gradients((out * randn(*out.shape, seed=4).to(dtype)).sum(), *adjs))
    for a, b in zip(*results, strict=True):
        close(a, b)


def test_frozen_parameters_do_not_stop_the_gradient_of_the_others() -> None:
    batch = sample()
    single = encoder("three layers")
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


@pytest.mark.parametrize("storage", ["sparse", "dense"])
@pytest.mark.parametrize("weighted", [False, True])
def test_graphs_in_double_precision_with_features_in_single_are_refused(
    weighted: bool, storage: str
) -> None:
    """They must not be read as single precision. PyTorch raises, as for any mix of types."""
    batch = sample(weighted=weighted)
    with pytest.raises(RuntimeError, match="Double"):
        encoder()(getattr(batch, storage), batch.x.float())


@pytest.mark.parametrize("extra", [-2, 100])
def test_another_number_of_feature_rows_than_nodes_is_refused(extra: int) -> None:
    graphs = SparseGraphs.from_edges([4, 3], [0, 1, 4, 6], [1, 0, 6, 4])
    with pytest.raises(DataError, match=f"7 nodes, got {7 + extra}"):
        encoder()(graphs, torch.randn(7 + extra, INPUTS))


def test_features_with_strides_are_read_as_they_are() -> None:
    batch = sample()
    layers = encoder()
    graphs = batch.sparse.to(dtype=torch.float32)
    wide = torch.zeros(graphs.num_nodes, 2 * INPUTS)
    wide[:, ::2] = batch.x.float()
    expected = copy.deepcopy(layers)(graphs, batch.x.float())
    close(layers(graphs, wide[:, ::2]), expected)


def test_a_cotangent_with_strides_is_read_as_it_is() -> None:
    batch = sample()
    layers = encoder()
    graphs = batch.sparse.to(dtype=torch.float32)
    x = batch.x.float().requires_grad_()
    strided = torch.randn(OUTPUTS, graphs.num_nodes).T
    (a,) = torch.autograd.grad(copy.deepcopy(layers)(graphs, x), x, strided)
    (b,) = torch.autograd.grad(layers(graphs, x), x, strided.contiguous())
    assert torch.equal(a, b)


def test_a_second_derivative_of_fused_layers_is_refused() -> None:
    batch = sample()
    x = batch.x.float().requires_grad_()
    loss = encoder()(batch.sparse.to(dtype=torch.float32), x).square().sum()
    (first,) = torch.autograd.grad(loss, x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        first.square().sum().backward()


def test_the_environment_can_leave_the_kernels_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIFFPOOL_NATIVE", "0")
    spec = importlib.util.spec_from_file_location("select_again", native.__file__)
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    assert again.kernels is None
