"""The C kernels refuse every argument that they cannot read, instead of reading past its end."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from diffpool.architecture import Architecture
from diffpool.backends import enabled_backends, use_backend
from diffpool.builder import build
from diffpool.graphs import SparseGraphs
from diffpool.nn import GraphClassifier
from diffpool.training import Optimizer, Training

pytestmark = pytest.mark.skipif("cpu" not in enabled_backends(), reason="needs the C kernels")

FEATURES = 3
WORKSPACE = ("layers_backward", 2)  # may be larger than needed
BATCHES = ("row_tables", "count_entries", "select_rows")  # functions without a number of threads
FUNCTIONS = ("layers_forward", "layers_backward", "pool_forward", "pool_backward", "adam", *BATCHES)
OUTPUTS = {"row_tables": (4, 5), "select_rows": (8, 9, 10, 11)}  # integers that are overwritten


def small_model(models: int = 1, **settings: Any) -> GraphClassifier:
    torch.manual_seed(0)
    defaults = {"hidden": 4, "poolings": 2, "ratio": 0.5, "assignment_linear": True}
    return build(Architecture(**{**defaults, **settings}), FEATURES, 2, 12, models=models)


def cycles(sizes: list[int]) -> SparseGraphs:
    """One cycle for each size, in both directions."""
    starts = np.cumsum([0, *sizes])
    pairs = [
        (s + i, s + (i + 1) % n) for s, n in zip(starts, sizes, strict=False) for i in range(n)
    ]
    edges = np.array(pairs or [(0, 0)][:0], np.int64).reshape(-1, 2)
    both = np.concatenate([edges, edges[:, ::-1]])
    return SparseGraphs.from_edges(sizes, both[:, 0], both[:, 1])


class Recorder:
    """Stands for the compiled module and keeps the arguments of each call."""

    def __init__(self, module: Any):
        self.module, self.calls = module, {}

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> Any:
            self.calls.setdefault(name, []).append(args)
            return getattr(self.module, name)(*args)

        return call


@pytest.fixture(scope="module")
def calls() -> dict[str, list[tuple[Any, ...]]]:
    """The arguments of every kernel in one training step: sparse graphs at level 0, dense ones above."""
    from diffpool.backends.cpu import _kernels, adam, batch, encoder, pooling

    recorder = Recorder(_kernels)
    patch = pytest.MonkeyPatch()
    for module in (adam, batch, encoder, pooling):
        patch.setattr(module, "_kernels", recorder)
    graphs, _ = cycles([5, 3, 0, 7]).select([1, 0, 2, 3])
    model = small_model()
    prediction = model(graphs, torch.randn(graphs.num_nodes, FEATURES))
    loss = prediction.logits.square().sum() + sum(t.sum() for t in prediction.losses.values())
    Optimizer(model, Training()).step(loss)
    patch.undo()
    return recorder.calls


def damaged(value: Any) -> Iterator[tuple[str, Any]]:
    """Variations of an argument that a kernel must refuse."""
    if isinstance(value, Tensor):
        other = torch.float64 if value.dtype == torch.float32 else torch.int32
        yield "another type", value.to(other)
        yield "no tensor", 3
        yield (
            "one element more",
            torch.cat([value.flatten(), value.flatten()[:1]])
            if len(value.flatten())
            else value.new_zeros(1),
        )
        if value.numel() > 1:
            yield "one element less", value.flatten()[:-1].contiguous()
            wide = torch.stack([value, value], -1)
            yield "not contiguous", wide[..., 0]
        if value.dtype == torch.float32 and value.numel() > 0:
            yield "no memory", torch._efficientzerotensor(value.shape)
            yield "stored with the other sign", torch._neg_view(value)
        if value.dtype == torch.int64 and value.numel() > 0:
            for number in (-1, 10**6, 2**62, -(2**62)):
                changed = value.clone()
                changed[-1] = number
                yield f"the last number is {number}", changed
    elif isinstance(value, int) and not isinstance(value, bool):
        yield "negative", -5
        yield "huge", 2**62
        yield "too large for C", 2**70
    elif value is None:
        yield "something instead of nothing", torch.zeros(1)


def refused(function: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    try:
        function(*args)
    except (TypeError, ValueError, OverflowError):
        return True
    return False


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_damaged_argument_is_refused(name: str, calls: dict[str, list[tuple[Any, ...]]]) -> None:
    from diffpool.backends.cpu import _kernels

    function = getattr(_kernels, name)
    tried = 0
    for args in calls[name]:
        function(*args)  # the arguments themselves are accepted
        first = 0 if name in BATCHES else 1  # 0: the number of threads, of which any is fine
        for index in range(first, len(args)):
            ways = dict(damaged(args[index]))
            if index in OUTPUTS.get(name, ()):
                ways = {what: value for what, value in ways.items() if "number" not in what}
            if (name, index) == WORKSPACE:
                ways = {"no element": args[index][:0], "another type": args[index].double()}
            for what, value in ways.items():
                tried += 1
                changed = (*args[:index], value, *args[index + 1 :])
                assert refused(function, changed), f"argument {index} of {name}: {what}"
        for shorter in (args[:-1], args[: len(args) // 2], ()):
            assert refused(function, shorter)
        assert refused(function, (*args, 1))
    assert tried > 50


def test_weights_stored_with_the_other_sign_give_the_same_outputs() -> None:
    graphs, model = cycles([5, 3]), small_model().eval()
    x = torch.randn(graphs.num_nodes, FEATURES)
    expected = model(graphs, x).logits
    for module in model.modules():
        for name, p in list(module.named_parameters(recurse=False)):
            setattr(module, name, torch.nn.Parameter(torch._neg_view(-p.data)))
    torch.testing.assert_close(model(graphs, x).logits, expected)


def test_batches_of_empty_graphs_only_are_computed() -> None:
    empty = cycles([0, 0])
    model = small_model().eval()
    x = torch.zeros(0, FEATURES)
    with use_backend("reference"):
        expected = model(empty, x).logits
    torch.testing.assert_close(model(empty, x).logits, expected)


@pytest.mark.parametrize("ratio", [1e-12, 1.0])
def test_any_ratio_is_computed(ratio: float) -> None:
    graphs = cycles([5, 0, 3])
    model = small_model(ratio=ratio).eval()
    x = torch.randn(8, FEATURES, generator=torch.Generator().manual_seed(0))
    with use_backend("reference"):
        expected = model(graphs, x).logits
    torch.testing.assert_close(model(graphs, x).logits, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("field", ["sizes", "starts"])
def test_a_layout_that_was_changed_afterwards_is_refused(field: str) -> None:
    graphs = cycles([5, 3])
    model = small_model().eval()
    plan = model.plan(graphs)
    getattr(graphs.layout, field)[1] = 10**6
    with pytest.raises(ValueError, match="expected the rows of a graph"):
        model(graphs, torch.randn(8, FEATURES), plan)


def test_edges_that_were_changed_afterwards_are_refused() -> None:
    graphs = cycles([5, 3])
    graphs.adj.indices[0] = 10**7
    with pytest.raises(ValueError, match="expected the edges of graph 0 within its 5 nodes"):
        small_model()(graphs, torch.randn(8, FEATURES))


def test_statistics_that_are_expanded_or_of_another_shape_are_left_to_the_reference() -> None:
    graphs = cycles([5, 3])
    x = torch.randn(8, FEATURES, generator=torch.Generator().manual_seed(0))
    model = small_model().eval()
    norm = model.encoders[0].steps[0].steps[-1]
    norm.running_mean = torch.full((1, 1), 0.3).expand(1, 4)
    norm.running_var = torch.full((1, 8), 0.7)[:, ::2]
    with use_backend("reference"):
        expected = model(graphs, x).logits
    torch.testing.assert_close(model(graphs, x).logits, expected, rtol=1e-4, atol=1e-5)


def test_weights_with_other_strides_give_the_same_logits() -> None:
    graphs = cycles([5, 3])
    x = torch.randn(8, FEATURES, generator=torch.Generator().manual_seed(0))
    model = small_model().eval()
    expected = model(graphs, x).logits
    for p in model.parameters():
        if p.dim() == 3:
            p.data = p.data.transpose(1, 2).contiguous().transpose(1, 2)
    torch.testing.assert_close(model(graphs, x).logits, expected, rtol=1e-4, atol=1e-5)


def test_more_layers_than_the_kernels_take_are_left_to_the_reference() -> None:
    graphs = cycles([5, 3])
    x = torch.randn(8, FEATURES, generator=torch.Generator().manual_seed(0))
    model = small_model(layers_before=40).eval()
    with use_backend("reference"):
        expected = model(graphs, x).logits
    torch.testing.assert_close(model(graphs, x).logits, expected, rtol=1e-3, atol=1e-4)


def test_an_encoder_that_was_used_can_be_freed() -> None:
    model = small_model()
    model(cycles([5, 3]), torch.randn(8, FEATURES))
    encoder = weakref.ref(model.encoders[0])
    del model
    gc.collect()
    assert encoder() is None
