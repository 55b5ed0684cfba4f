"""Every registered kernel against the reference of its operation: values and gradients over one table of cases.

The reference computes in double precision. A new kernel needs no separate test: its operation has a row in CASES.
"""

from __future__ import annotations

import inspect
import math
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from samples import KINDS, local, randn, sample
from torch import Tensor, nn

import diffpool.builder  # registers the operations of the baselines
import diffpool.training  # noqa: F401  (registers its operations)
from diffpool.backends import KERNELS, OPERATIONS, enabled_backends, use_backend
from diffpool.errors import SettingError
from diffpool.graphs import DenseGraphs, Graphs, SparseGraphs
from diffpool.layout import Layout, column_mask
from diffpool.nn import BatchNorm, Encoder, Sage
from diffpool.nn.convolutions import SumConv
from diffpool.nn.norm import Steps
from diffpool.training.optimizer import joined

enabled_backends()  # loads the kernels
DEVICES = {"cpu": "cpu", "triton": "cuda" if torch.cuda.is_available() else "cpu"}
DEVICE = "cpu"  # the device of the kernel under test
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # slow
HUGE = (80 if INTERPRETED else 300, 1, 2, 0)  # one large graph among small ones
SHAPES: dict[str, tuple[int, ...]] = {
    "ragged": (5, 0, 1, 7, 4, 2, 0, 6),
    "equal": (4, 4, 4),
    "one node": (1,),
    "empty graphs": (0, 3, 0),
    "huge": HUGE,
    "many rows": (70, 40) if INTERPRETED else (200, 150, 180, 90),  # more than one tile or chunk
}
ORDERS = (("l2", "relu", "batch"), ("l2", "batch"), ("relu", "batch"), ("batch",))
NODE_INDEX = ("l2", "relu", "node-index")


@dataclass
class Call:
    """The arguments of one call; `inputs` have gradients, `masks` mark the entries of an output that are compared."""

    args: tuple[Any, ...]
    inputs: list[Tensor]
    masks: list[Tensor | None] | None = None
    buffers: list[Tensor] | None = None  # changed in place
    served: bool = True  # whether a kernel must accept it
    backends: tuple[str, ...] = ("cpu", "triton")  # whose kernels must accept it, if it is served

    def served_by(self, backend: str) -> bool:
        return self.served and backend in self.backends


Case = Callable[[torch.dtype], Call]


def place(t: Tensor, dtype: torch.dtype, gradient: bool = True) -> Tensor:
    return t.to(DEVICE, dtype).requires_grad_(gradient)


def clusters_of(sizes: tuple[int, ...]) -> Layout:
    return Layout.from_sizes([-(-n // 3) for n in sizes], DEVICE)


def batch(
    sizes: tuple[int, ...], storage: str, dtype: torch.dtype, kind: str = "weighted"
) -> tuple[Graphs, list[Tensor], Tensor]:
    """Graphs, those of their tensors that have gradients, and features [N, 3]."""
    drawn = sample(sizes, edgeless=(), density=0.4 if max(sizes) < 100 else 0.02, **KINDS[kind])
    x = drawn.x
    if storage == "sparse":
        return drawn.sparse.to(DEVICE, dtype), [], x
    adj = place(local(drawn.adjs, max(sizes)), dtype)
    return DenseGraphs.from_adj(Layout.from_sizes(sizes, DEVICE), adj), [adj], x


def two_models(dtype: torch.dtype) -> tuple[Graphs, Tensor, Layout]:
    """Model 0 has graphs with 3 and 4 nodes, model 1 one with 5 and an empty one: two rows belong to no graph."""
    drawn = sample((3, 4, 5, 1, 1), edgeless=(3, 4), density=0.6)

    graphs = drawn.sparse
    layout = Layout.from_sizes([3, 4, 5, 0], models=2)
    graphs = replace(graphs, layout=layout, squared_norm=graphs.squared_norm[:4]).to(DEVICE, dtype)
    x = drawn.x * layout.real[:, None]
    return graphs, x, Layout.from_sizes([1, 2, 2, 0], DEVICE, models=2)


def perturbed(module: nn.Module, dtype: torch.dtype) -> Any:
    """The module with random parameters and buffers instead of the initial ones."""
    with torch.no_grad():
        for number, value in enumerate(module.state_dict().values()):
            value.add_(0.3 * randn(*value.shape, seed=number).abs())
    return module.to(DEVICE, dtype).train()


# --- cases: functions of the dtype, by operation ---------------------------------------------------------------------


def pool_cases() -> Iterator[tuple[str, Case]]:
    for name, sizes in SHAPES.items():
        for storage in ("sparse", "dense"):
            for kind in KINDS if name == "ragged" else ("weighted",):

                def case(dtype: torch.dtype, sizes=sizes, storage=storage, kind=kind) -> Call:
                    graphs, more, _ = batch(sizes, storage, dtype, kind)
                    clusters = clusters_of(sizes)
                    logits = place(2 * randn(sum(sizes), clusters.largest, seed=7), dtype)
                    z = place(randn(sum(sizes), 5, seed=8), dtype)
                    return Call((graphs, logits, z, clusters), [logits, z, *more])

                yield f"{name}, {storage}, {kind}", case

    def models(dtype: torch.dtype) -> Call:
        graphs, x, clusters = two_models(dtype)
        logits = place(randn(len(x), clusters.largest, seed=7), dtype)
        z = place(randn(len(x), 5, seed=8), dtype)
        rows = graphs.layout.real[:, None]
        return Call((graphs, logits, z, clusters), [logits, z], [rows, *[None] * 6])

    yield "two models", models

    def nothing(dtype: torch.dtype) -> Call:
        graphs, _, _ = batch((0, 0), "sparse", dtype)
        empty = torch.zeros(0, 0, device=DEVICE, dtype=dtype)
        return Call((graphs, empty, empty, Layout.from_sizes([0, 0], DEVICE)), [], served=False)

    yield "no rows", nothing


def make_encoder(dtype: torch.dtype, models: int = 1, **options: Any) -> Encoder:
    torch.manual_seed(0)
    sizes, conv = options.pop("sizes", [3, 6, 4, 5]), options.pop("conv", Sage)
    return perturbed(Encoder(conv, sizes, models=models, **options), dtype)


RELEASED_ORDERS: dict[str, Any] = {"order": NODE_INDEX, "last_order": ("l2",), "concat": True}
TRITON_ENCODERS: dict[str, dict[str, Any]] = {  # which only Triton kernels serve
    "batch-relu": {"order": ("batch", "relu")},
    "l2": {"order": ("l2",)},
    "sum": {"conv": SumConv},
    "released": {"conv": SumConv, **RELEASED_ORDERS},
    "released assignment": {"conv": SumConv, **RELEASED_ORDERS, "outputs": 5},
}
ENCODERS: dict[str, dict[str, Any]] = {
    "one layer": {"sizes": [3, 5]},
    "concatenated": {"concat": True},
    "another last order": {"last_order": ("batch",)},
    "linear": {"last_order": ("batch",), "concat": True, "outputs": 5},
    **{"-".join(order): {"order": order} for order in ORDERS},
    **TRITON_ENCODERS,
}


def encoder_case(
    sizes: tuple[int, ...],
    storage: str,
    options: dict,
    columns: str,
    backends: tuple[str, ...] = Call.backends,
) -> Case:
    def case(dtype: torch.dtype) -> Call:
        graphs, more, features = batch(sizes, storage, dtype)
        encoder = make_encoder(dtype, **options)
        x = place(features, dtype)
        clusters, masks = None, None
        if columns == "local":
            counts = [min(-(-n // 3), 5) for n in sizes]
            clusters = Layout.from_sizes(counts, DEVICE)
            masks = [column_mask(graphs.layout, clusters)]
        inputs = [x, *more, *encoder.parameters()]
        buffers = list(encoder.buffers())
        return Call((graphs, x, encoder, clusters), inputs, masks, buffers, backends=backends)

    return case


def encode_cases() -> Iterator[tuple[str, Case]]:
    for name, sizes in SHAPES.items():
        for storage in ("sparse", "dense"):
            yield f"{name}, {storage}", encoder_case(sizes, storage, {"concat": True}, "all")
    for name, options in ENCODERS.items():
        for storage in ("sparse", "dense"):
            for columns in ("all", "local"):
                if columns == "local" and options.get("concat") and "outputs" not in options:
                    continue  # local columns cannot be concatenated
                backends = ("triton",) if name in TRITON_ENCODERS else Call.backends
                case = encoder_case(SHAPES["ragged"], storage, options, columns, backends)
                yield f"{name}, {storage}, {columns} columns", case

    def models(dtype: torch.dtype) -> Call:
        graphs, features, _ = two_models(dtype)
        encoder, x = make_encoder(dtype, models=2), place(features, dtype)
        rows = graphs.layout.real[:, None]
        inputs = [x, *encoder.parameters()]
        return Call((graphs, x, encoder, None), inputs, [rows], list(encoder.buffers()))

    yield "two models", models

    def many_columns(dtype: torch.dtype) -> Call:
        """More columns than a panel or tile has; only graphs in the middle of the batch have the last ones."""
        sizes = (30, 200, 60) if INTERPRETED else (30, 400, 700, 60)
        graphs, _, features = batch(sizes, "sparse", dtype)
        encoder = make_encoder(dtype, sizes=[3, 20, 40], concat=True, outputs=40)
        counts = [5, 40, 18] if INTERPRETED else [5, 40, 39, 18]
        clusters = Layout.from_sizes(counts, DEVICE)
        x = place(features, dtype)
        masks = [column_mask(graphs.layout, clusters)]
        inputs = [x, *encoder.parameters()]
        return Call((graphs, x, encoder, clusters), inputs, masks, list(encoder.buffers()))

    yield "many columns", many_columns

    def frozen(dtype: torch.dtype) -> Call:
        call = encoder_case(SHAPES["ragged"], "sparse", {}, "all")(dtype)
        for module in call.args[2].modules():
            if isinstance(module, BatchNorm):
                module.eval()
        return call

    yield "frozen normalization", frozen

    def nothing(dtype: torch.dtype) -> Call:
        graphs, _, x = batch((0, 0), "sparse", dtype)
        encoder = make_encoder(dtype)
        return Call((graphs, place(x, dtype, False), encoder, None), [], served=False)

    yield "no rows", nothing


def level_cases() -> Iterator[tuple[str, Case]]:
    for name, sizes in SHAPES.items():
        for storage in ("sparse", "dense"):

            def case(dtype: torch.dtype, sizes=sizes, storage=storage) -> Call:
                graphs, more, features = batch(sizes, storage, dtype)
                encoder = make_encoder(dtype, concat=True)
                gnn = make_encoder(dtype, last_order=("batch",), concat=True, outputs=5)
                clusters = Layout.from_sizes([min(-(-n // 3), 5) for n in sizes], DEVICE)
                x = place(features, dtype)
                masks = [None, column_mask(graphs.layout, clusters)]
                inputs = [x, *more, *encoder.parameters(), *gnn.parameters()]
                buffers = [*encoder.buffers(), *gnn.buffers()]
                return Call((graphs, x, encoder, gnn, clusters), inputs, masks, buffers)

            yield f"{name}, {storage}", case


def steps_cases() -> Iterator[tuple[str, Case]]:
    for order in (*ORDERS, ("batch", "relu"), ("l2",), NODE_INDEX):
        for name, sizes in SHAPES.items():

            def case(dtype: torch.dtype, order=order, sizes=sizes) -> Call:
                graphs, _, _ = batch(sizes, "sparse", dtype)
                steps = perturbed(Steps(order, 6), dtype)
                x = place(randn(sum(sizes), 6, seed=3), dtype)
                inputs = [x, *steps.parameters()]
                return Call((graphs, x, steps, None), inputs, None, list(steps.buffers()))

            yield f"{'-'.join(order)}, {name}", case

    for order in (("l2",), NODE_INDEX):

        def models(dtype: torch.dtype, order=order) -> Call:
            graphs, features, _ = two_models(dtype)
            steps, x = perturbed(Steps(order, 3, models=2), dtype), place(features, dtype)
            rows = graphs.layout.real[:, None]
            return Call((graphs, x, steps, None), [x], [rows])

        yield f"{'-'.join(order)}, two models", models


def standardize_cases() -> Iterator[tuple[str, Case]]:
    for models in (1, 3):

        def case(dtype: torch.dtype, models=models) -> Call:
            x, mean, inverse = (
                place(randn(rows, 5, seed=rows), dtype, False) for rows in (12, models, models)
            )
            return Call((x, mean, inverse), [])

        yield f"{models} models", case


def product_cases() -> Iterator[tuple[str, Case]]:
    for form in ("nn", "tn", "nt"):
        for name, sizes in SHAPES.items():
            for square in (False, True):

                def case(dtype: torch.dtype, form=form, sizes=sizes, square=square) -> Call:
                    rows, columns = Layout.from_sizes(sizes, DEVICE), clusters_of(sizes)
                    mask = column_mask(rows, columns)
                    width = columns.largest
                    a = randn(rows.total, width, seed=1).to(DEVICE)
                    a = a if mask is None or form == "nt" else a * mask
                    d = width if square else 5
                    b = randn(rows.total if form == "tn" else columns.total, d, seed=2).to(DEVICE)
                    if form == "nt":
                        a = randn(rows.total, d, seed=1).to(DEVICE)
                    if square:
                        for t, layout in ((a, rows), (b, rows if form == "tn" else columns)):
                            own = column_mask(layout, columns)
                            t *= 1 if own is None else own[:, : t.shape[1]]
                    a, b = place(a, dtype), place(b, dtype)
                    uniform = rows.uniform and columns.uniform
                    args = (form, a, b, rows, columns, square)
                    masks = None
                    if square or form == "nt":  # the columns of the result are local
                        masks = [column_mask(columns if form == "tn" else rows, columns)]
                    return Call(args, [a, b], masks, served=not uniform and sum(sizes) > 0)

                yield f"{form}, {name}, {'square' if square else 'wide'}", case


def sum_cases() -> Iterator[tuple[str, Case]]:
    for name, sizes in SHAPES.items():
        for shape in ((), (5,), (3, 2)):

            def case(dtype: torch.dtype, sizes=sizes, shape=shape) -> Call:
                layout = Layout.from_sizes(sizes, DEVICE)
                h = place(randn(sum(sizes), *shape, seed=1), dtype)
                return Call((h, layout), [h], served=not layout.uniform)

            yield f"{name}, {shape}", case


def max_cases() -> Iterator[tuple[str, Case]]:
    for name, sizes in SHAPES.items():
        for ties in (False, True):

            def case(dtype: torch.dtype, sizes=sizes, ties=ties) -> Call:
                layout = Layout.from_sizes(sizes, DEVICE)
                h = randn(sum(sizes), 5, seed=1)
                h = place(h.round() if ties else h, dtype)
                return Call((h, layout), [h], served=not layout.uniform)

            yield f"{name}{', ties' if ties else ''}", case

    def models(dtype: torch.dtype) -> Call:
        graphs, x, _ = two_models(dtype)
        h = place(x, dtype)
        return Call((h, graphs.layout), [h])

    yield "two models", models


def mean_cases() -> Iterator[tuple[str, Case]]:
    for name, sizes in SHAPES.items():

        def case(dtype: torch.dtype, sizes=sizes) -> Call:
            graphs, more, features = batch(sizes, "dense", dtype)
            x = place(features, dtype)
            return Call((graphs, x), [x, *more])

        yield name, case


def filtered_cases() -> Iterator[tuple[str, Case]]:
    for name, sizes in SHAPES.items():
        for channels, units, inputs, outputs in ((2, 16, 3, 5), (1, 3, 70, 4)):
            if inputs > 64 and name != "ragged":
                continue

            def case(
                dtype: torch.dtype,
                sizes=sizes,
                shape=(channels, units, inputs, outputs),
                directed=name == "ragged",
            ) -> Call:
                drawn = sample(sizes, density=0.4 if max(sizes) < 100 else 0.02, directed=directed)
                graphs = with_edge_features(drawn.sparse, shape[0]).to(DEVICE, dtype)
                return filtered_call(graphs, 1, *shape, dtype)

            yield f"{name}, {inputs} inputs", case

    def models(dtype: torch.dtype) -> Call:
        graphs, _, _ = two_models(torch.float64)
        layout = graphs.layout
        graphs = replace(with_edge_features(graphs.to("cpu"), 2), layout=layout)
        call = filtered_call(graphs.to(DEVICE, dtype), 2, 2, 16, 3, 5, dtype)
        return replace(call, masks=[layout.real.view(2, -1, 1)])

    yield "two models", models


def with_edge_features(graphs: SparseGraphs, channels: int) -> SparseGraphs:
    """The graphs with random edge features, different in both directions of an edge."""
    values = randn(graphs.num_edges, channels, seed=9).numpy()
    adj = graphs.adj
    indptr, indices = adj.indptr.numpy(), adj.indices.numpy()
    sizes = np.array([graphs.num_nodes])  # as one graph
    made = SparseGraphs.from_csr(sizes, indptr, indices, None, values, dtype=torch.float64)
    return replace(made, layout=graphs.layout, squared_norm=graphs.squared_norm)


def filtered_call(
    graphs: SparseGraphs,
    models: int,
    channels: int,
    units: int,
    inputs: int,
    outputs: int,
    dtype: torch.dtype,
) -> Call:
    x = place(randn(graphs.num_nodes, inputs, seed=1), dtype)
    weight = place(randn(models, channels, units, seed=2), dtype)
    bias = place(randn(models, units, seed=3), dtype)
    theta = place(randn(models, units + 1, inputs, outputs, seed=4), dtype)
    return Call((graphs, x, weight, bias, theta), [x, weight, bias, theta])


def adam_cases() -> Iterator[tuple[str, Case]]:
    for decay in (False, True):

        def case(dtype: torch.dtype, decay=decay) -> Call:
            def rows(width: int, seed: int) -> Tensor:
                return place(randn(3, width, seed=seed), dtype, False)

            parameters, gradient, mean, square = (rows(40, seed) for seed in range(4))
            square = square.square()
            norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
            clip, rate = rows(1, 5).abs() + 1, rows(1, 6).abs() / 100
            steps = torch.tensor([[1.0], [2.0], [30.0]], device=DEVICE)
            present = torch.tensor([True, False, True], device=DEVICE)
            args = (parameters, gradient, mean, square, rows(40, 7).abs() if decay else None)
            args += (norm, clip, rate, steps, present, (0.9, 0.999), 1e-8)
            return Call(args, [], None, [parameters, mean, square])

        yield f"decay {decay}", case


def adam_step_cases() -> Iterator[tuple[str, Case]]:
    shapes = [(5, 8), (3,), (16,), (4, 4), (0, 7)]
    for decay, scale in ((False, 1.0), (True, 1.0), (True, 1e-3)):

        def case(dtype: torch.dtype, decay=decay, scale=scale) -> Call:
            def rows(*shape: int, seed: int) -> Tensor:
                return place(randn(3, *shape, seed=seed), dtype, False)

            grads = [scale * rows(*shape, seed=seed) for seed, shape in enumerate(shapes, 10)]
            gaps = [g.new_zeros(3, -g[0].numel() % 16) for g in grads]
            width = sum(g[0].numel() + gap.shape[1] for g, gap in zip(grads, gaps, strict=True))
            parameters, mean, square, decays = (rows(width, seed=seed) for seed in range(4))
            held = joined([torch.ones_like(g) for g in grads], gaps)  # the gaps are zero everywhere
            parameters, mean, square, decays = (
                t * held for t in (parameters, mean, square.square(), decays.abs())
            )
            clip, rate = rows(1, seed=5).abs() + 1, rows(1, seed=6).abs() / 100
            steps = torch.tensor([[1.0], [2.0], [30.0]], device=DEVICE)
            present = torch.tensor([True, False, True], device=DEVICE)
            args = (parameters, grads, gaps, torch.zeros_like(parameters), mean, square)
            args += (decays if decay else None, clip, rate, steps, present, (0.9, 0.999), 1e-8)
            return Call(args, [], None, [parameters, mean, square])

        yield f"decay {decay}, gradient times {scale:g}", case


def layout_cases() -> Iterator[tuple[str, Case]]:
    shapes = {"ragged": [[3, 0, 5], [1, 2, 70]], "one": [[1]], "none": [[0, 0]]}
    shapes["many"] = [[(7 * m + 5 * g) % 11 for g in range(20)] for m in range(5)]
    for name, sizes in shapes.items():

        def case(dtype: torch.dtype, sizes=sizes) -> Call:
            return Call((torch.tensor(sizes, device=DEVICE), 112, 32), [])

        yield name, case


def table_cases() -> Iterator[tuple[str, Case]]:
    for name, sizes, models, rows in (
        ("ragged", [5, 0, 1, 7], 1, 13),
        ("two models", [3, 4, 5, 0], 2, 7),
        ("spare rows", [2, 2, 0, 1], 2, 6),
        ("equal", [4, 4], 1, 8),
        ("empty graphs", [0, 0], 1, 0),
        ("no graphs", [], 1, 0),
    ):

        def case(dtype: torch.dtype, sizes=sizes, models=models, rows=rows) -> Call:
            return Call((torch.tensor(sizes, dtype=torch.int64), models, rows), [])

        yield name, case


def selection_cases() -> Iterator[tuple[str, Case]]:
    for kind in KINDS:
        for name, chosen, models in (
            ("some graphs", [3, 0, 7], 1),
            ("a graph twice", [4, 4, 1], 1),
            ("two models", [0, 2, 5, 1], 2),
            ("empty graphs", [1, 6], 1),
            ("no graphs", [], 1),
        ):

            def case(dtype: torch.dtype, kind=kind, chosen=chosen, models=models) -> Call:
                graphs = sample(SHAPES["ragged"], density=0.4, **KINDS[kind]).sparse
                index = torch.tensor(chosen, dtype=torch.int64)
                layout = Layout.from_sizes(graphs.layout.sizes[index], models=models)
                return Call((graphs.adj, graphs.layout.starts[index], layout), [])

            yield f"{kind}, {name}", case


CASES: dict[str, Callable[[], Iterator[tuple[str, Case]]]] = {
    "equations.pool": pool_cases,
    "nn.encoder.encode": encode_cases,
    "nn.encoder.encode_level": level_cases,
    "nn.norm.apply_steps": steps_cases,
    "nn.norm.standardize": standardize_cases,
    "segment.block_product": product_cases,
    "segment.sum_rows": sum_cases,
    "segment.max_rows": max_cases,
    "graphs.propagate_mean": mean_cases,
    "graphs.select_rows": selection_cases,
    "layout.row_tables": table_cases,
    "baselines.ecc.edge_conditioned.filtered": filtered_cases,
    "training.optimizer.adam_step": adam_step_cases,
    "training.optimizer.adam_update": adam_cases,
    "backends.triton.drawn.layout_tables": layout_cases,
}
# Only accepted inside a captured step, which needs a GPU.
CAPTURED = {("nn.encoder.encode_level", "triton")}
# They compute with integers, or copy numbers of any type.
TABLES = {"backends.triton.drawn.layout_tables", "graphs.select_rows", "layout.row_tables"}

TABLE = [
    pytest.param(
        operation,
        backend,
        case,
        id=f"{operation}, {backend}: {name}",
        marks=[pytest.mark.triton] if backend == "triton" else [],
    )
    for operation, backend in sorted(KERNELS)
    if backend in enabled_backends()
    for name, case in CASES[operation]()
]


# --- the tests -------------------------------------------------------------------------------------------------------


def tensors(result: Any) -> list[Tensor]:
    """All tensors in a result, in order."""
    if isinstance(result, Tensor):
        return [result]
    if isinstance(result, DenseGraphs):
        return [result.adj, result.degree, result.inverse_degree]
    if is_dataclass(result):
        result = [getattr(result, f.name) for f in fields(result)]
    return [] if result is None else [t for part in result for t in tensors(part)]


def outcome(function: Callable[..., Any], call: Call) -> list[Tensor]:
    """Values, gradients of a random linear combination of them, and tensors changed in place."""
    outs = tensors(function(*call.args))
    masks = call.masks or [None] * len(outs)
    loss: Any = 0.0
    values = []
    for number, (out, mask) in enumerate(zip(outs, masks, strict=True)):
        if mask is not None:
            out = torch.where(
                mask[:, : out.shape[1]], out[:, : mask.shape[1]] if mask.shape[1] > 1 else out, 0
            )
        values.append(out.detach())
        if out.requires_grad:
            weights = randn(*out.shape, seed=number).to(out)
            loss = loss + (out * weights).sum()
    found: tuple[Any, ...] = ()
    if call.inputs:
        found = torch.autograd.grad(loss, call.inputs, allow_unused=True, materialize_grads=True)
    return [*values, *found, *(call.buffers or [])]


def close(a: Tensor, b: Tensor) -> None:
    """Equal to single precision, relative to the largest entry."""
    a, b = a.double(), b.double()
    scale = max(1.0, float(b.abs().max())) if b.numel() else 1.0
    torch.testing.assert_close(a, b, rtol=0, atol=2e-4 * scale)


@pytest.mark.parametrize(("operation", "backend", "case"), TABLE)
def test_a_kernel_agrees_with_its_reference(
    operation: str, backend: str, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "DEVICE", DEVICES[backend])
    kernel, call = KERNELS[operation, backend], case(torch.float32)
    if (operation, backend) in CAPTURED:
        if not torch.cuda.is_available():
            pytest.skip("there is no CUDA device")
    else:
        assert kernel.accepts(*call.args) == call.served_by(backend)
    if not call.served_by(backend):
        return
    ours = outcome(kernel.run, call)
    with use_backend("reference"):
        theirs = outcome(OPERATIONS[operation].reference, case(torch.float64))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        close(a, b)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("operation", "backend", "case"),
    # Triton's interpreter takes too long for all of these
    [p for p in TABLE if p.values[1] == "cpu" or torch.cuda.is_available()],
)
def test_a_kernel_shows_nan_and_infinity_where_its_reference_does(
    operation: str,
    backend: str,
    case: Case,
    value: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "DEVICE", DEVICES[backend])
    if not case(torch.float32).served_by(backend):
        pytest.skip("the reference runs this case")
    # an infinite weight gives inf − inf, which depends on the order of a sum
    weights = math.isnan(value)
    for index in range(len(floats_of(case(torch.float32), weights))):
        ours, theirs = case(torch.float32), case(torch.float32)
        for call in (ours, theirs):
            with torch.no_grad():
                floats_of(call, weights)[index].flatten()[0] = value
        if (operation, backend) not in CAPTURED:
            assert KERNELS[operation, backend].accepts(*ours.args)
        found = outcome(KERNELS[operation, backend].run, ours)
        with use_backend("reference"):
            expected = outcome(OPERATIONS[operation].reference, theirs)
            healthy = outcome(OPERATIONS[operation].reference, case(torch.float32))
        values = len(expected) - len(ours.inputs) - len(ours.buffers or [])
        for number in range(values):
            a, b, zero = found[number], expected[number], healthy[number] == 0
            # columns that a graph does not have are zero, whatever happens
            assert torch.equal(a.isfinite() | zero, b.isfinite() | zero), (index, number)


def floats_of(call: Call, weights: bool) -> list[Tensor]:
    """The contiguous matrices among the arguments and, if asked for, the parameters of modules."""
    given = [t for arg in call.args for t in ([arg] if isinstance(arg, Tensor) else [])]
    for arg in call.args:
        given += list(arg.parameters()) if weights and isinstance(arg, torch.nn.Module) else []
    return [t for t in given if t.is_floating_point() and t.numel() > 0 and t.is_contiguous()]


@pytest.mark.parametrize(("operation", "backend"), sorted(KERNELS))
def test_a_kernel_leaves_double_precision_to_the_reference(
    operation: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if operation in TABLES:
        pytest.skip("it does not compute with floating-point numbers")
    monkeypatch.setattr(sys.modules[__name__], "DEVICE", DEVICES[backend])
    for _, case in CASES[operation]():
        assert not KERNELS[operation, backend].accepts(*case(torch.float64).args)


def test_every_kernel_belongs_to_an_operation() -> None:
    assert {operation for operation, _ in KERNELS} <= OPERATIONS.keys()
    assert OPERATIONS.keys() - {"backends.triton.drawn.layout_tables"} <= CASES.keys()
    for (operation, _), kernel in KERNELS.items():  # arguments may be given by name
        names = list(inspect.signature(OPERATIONS[operation].reference).parameters)
        assert list(inspect.signature(kernel.run).parameters)[: len(names)] == names


def test_the_switch_chooses_the_backend() -> None:
    graphs, _, x = batch((4, 3), "sparse", torch.float32)
    encoder, features = make_encoder(torch.float32), place(x, torch.float32, False)
    choose = OPERATIONS["nn.encoder.encode"].choose
    with use_backend("reference"):
        assert enabled_backends() == ()
        assert choose(graphs, features, encoder, None) is None
    for backend in enabled_backends():
        with use_backend(backend):
            assert enabled_backends() == (backend,)
    if "cpu" in enabled_backends():
        with use_backend("cpu"):
            assert choose(graphs, features, encoder, None) is KERNELS["nn.encoder.encode", "cpu"]


@pytest.mark.skipif("triton" in enabled_backends(), reason="every backend works here")
def test_a_backend_that_does_not_work_here_is_refused() -> None:
    with (
        pytest.raises(SettingError, match="the backend 'triton' does not work on this machine"),
        use_backend("triton"),
    ):
        pass


def test_an_unknown_backend_is_rejected() -> None:
    with (
        pytest.raises(SettingError, match="one of auto, triton, cpu, reference, got 'gpu'"),
        use_backend("gpu"),
    ):
        pass
