"""One battery of laws over every convolution, readout, pooler and whole classifier."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace

import pytest
import reference
import torch
from samples import Sample, gradients, pooled, randn, sample
from torch import Tensor, nn

from diffpool.architecture import PAPER, RELEASED, Architecture, flat
from diffpool.builder import build
from diffpool.errors import DiffPoolError
from diffpool.graphs import SparseGraphs
from diffpool.layout import Layout
from diffpool.nn import (
    Clusters,
    DiffPool,
    Encoder,
    Gcn,
    Gin,
    GraphClassifier,
    Prediction,
    Sage,
    SumConv,
)

SMALL = replace(PAPER, hidden=6)
TWICE = replace(SMALL, poolings=2)

ARCHITECTURES = {
    "paper": SMALL,
    "two poolings": TWICE,
    "clusters of the data set": replace(SMALL, clusters="dataset"),
    "twice clusters of the data set": replace(TWICE, clusters="dataset"),
    "given clusters": replace(TWICE, clusters=(5, 2)),
    "flat": flat(SMALL),
    "concatenated": replace(SMALL, concat=True, every_level=True),
    "linear assignment": replace(SMALL, assignment_linear=True, ratio=0.25, head=(5,)),
    "normalized assignment": replace(SMALL, assignment_order=("l2", "relu", "batch"), ratio=0.25),
    "gcn": replace(SMALL, conv="gcn", readout="mean"),
    "gin": replace(TWICE, conv="gin"),
    "maximum": replace(TWICE, conv="sum", readout="max", every_level=True),
}
QUIRKY = {
    "released": replace(RELEASED, hidden=6),
    "released, two poolings": replace(RELEASED, hidden=6, poolings=2),
}
EVERY = ARCHITECTURES | QUIRKY

CONVOLUTIONS = {"sage": Sage, "gcn": Gcn, "gin": Gin, "sum": SumConv}
SIZES = (23, 1, 31, 0, 12, 5, 17, 2)
EDGELESS = (5,)
CLASSES = 3

each_architecture = pytest.mark.parametrize("name", ARCHITECTURES)
each_with_quirks = pytest.mark.parametrize("name", EVERY)
each_mode = pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])


def exact(a: Tensor, b: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def batch_of(seed: int = 0, sizes: tuple[int, ...] = SIZES) -> Sample:
    return sample(sizes, seed, edgeless=EDGELESS, density=0.2, weighted=True)


def classifier(name: str, training: bool = False) -> GraphClassifier:
    return perturbed(EVERY[name]).train(training)


def perturbed(architecture: Architecture) -> GraphClassifier:
    """A classifier in float64, with random running statistics and affine parameters instead of the initial ones."""
    model = build(architecture, num_features=3, num_classes=CLASSES, largest=max(SIZES)).double()
    with torch.no_grad():
        for number, (key, value) in enumerate(model.state_dict().items()):
            noise = randn(*value.shape, seed=number)
            if key.endswith("running_var"):
                value.mul_((0.3 * noise).exp())
            elif "steps" in key or key.endswith("epsilon"):
                value.add_(0.3 * noise)
    return model


def loss_of(prediction: Prediction | reference.Result) -> Tensor:
    """A scalar that depends on all outputs of a classifier."""
    parts = [prediction.logits, *prediction.losses.values()]
    return sum((part * randn(*part.shape, seed=i).to(part)).sum() for i, part in enumerate(parts))


def parameter_gradients(model: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, gradients(loss, *parameters), strict=True))


def same(a: dict[str, Tensor], b: dict[str, Tensor], tolerance: float = 1e-9) -> None:
    assert a.keys() == b.keys()
    for name in a:
        exact(a[name], b[name], tolerance)


def running_statistics(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.named_buffers()}


# --- the paper, graph by graph -----------------------------------------------------------------------------------


@each_mode
@each_with_quirks
def test_the_classifier_equals_that_of_the_paper_for_each_graph(name: str, training: bool) -> None:
    batch = batch_of()
    model = classifier(name, training)
    slow = reference.classify(model, batch.adjs, batch.xs)
    expected = parameter_gradients(model, loss_of(slow))
    fast = model(batch.sparse, batch.x)
    exact(fast.logits, slow.logits)
    same(fast.losses, slow.losses)
    for level, (mine, theirs) in enumerate(zip(fast.assignments, slow.assignments, strict=True)):
        for graph, s in enumerate(theirs):
            exact(mine.of_graph(graph), s)
            exact(fast.graphs[level + 1].block(graph), slow.adjacencies[level][graph])
    same(parameter_gradients(model, loss_of(fast)), expected)
    for norm, (mean, var) in slow.running.items():
        exact(norm.running_mean[0], mean)
        exact(norm.running_var[0], var)


# --- Proposition 1 -----------------------------------------------------------------------------------------------


@each_mode
@each_architecture
def test_the_order_of_the_nodes_does_not_matter(name: str, training: bool) -> None:
    batch = batch_of()
    model = classifier(name, training)
    twin = copy.deepcopy(model)
    before = model(batch.sparse, batch.x)
    relabeled = batch.relabeled(seed=1)
    after = twin(relabeled.sparse, relabeled.x)
    exact(after.logits, before.logits)
    same(after.losses, before.losses)
    same(
        parameter_gradients(twin, loss_of(after)),
        parameter_gradients(model, loss_of(before)),
        tolerance=1e-8,
    )
    same(running_statistics(twin), running_statistics(model))


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_is_permutation_equivariant(name: str) -> None:
    batch = sample([6], edgeless=(), weighted=True, directed=True, loops=True)
    conv = CONVOLUTIONS[name](3, 4).double()
    order = torch.tensor([3, 5, 0, 1, 4, 2])
    turned = Sample([batch.adjs[0][order][:, order]], [batch.xs[0][order]])
    exact(conv(turned.sparse, turned.x), conv(batch.sparse, batch.x)[order])


@pytest.mark.parametrize("how", ["sum", "mean", "max"])
@pytest.mark.parametrize("storage", ["sparse", "dense"])
def test_a_readout_is_permutation_invariant(storage: str, how: str) -> None:
    batch = batch_of()
    turned = batch.relabeled(seed=1)
    exact(
        getattr(turned, storage).readout(turned.x, how),
        getattr(batch, storage).readout(batch.x, how),
    )


@pytest.mark.parametrize("storage", ["sparse", "dense"])
def test_a_pooler_is_permutation_equivariant(storage: str) -> None:
    torch.manual_seed(1)
    pooler = DiffPool(Encoder(Sage, [3, 5, 4])).double()
    batch = sample([7], edgeless=(), weighted=True)
    order = torch.tensor([3, 5, 0, 1, 6, 4, 2])
    turned = Sample([batch.adjs[0][order][:, order]], [batch.xs[0][order]])
    a = pooled(pooler, getattr(batch, storage), batch.x, Layout.from_sizes([4]))
    b = pooled(pooler, getattr(turned, storage), turned.x, Layout.from_sizes([4]))
    exact(b.assignment.s, a.assignment.s[order])
    exact(b.graphs.adj, a.graphs.adj)
    exact(b.x, a.x)
    same(b.losses, a.losses)


@each_mode
def test_the_released_preset_depends_on_the_order_of_nodes_even_in_other_graphs(
    training: bool,
) -> None:
    """Row 22 of the comparison of paper and code; the same change has no effect on the preset `paper`."""
    batch = sample((23, 19, 31, 12), 0, edgeless=(), density=0.2)
    turned = batch.relabeled(seed=1, only=0)
    moved = {}
    for name in ("released", "paper"):
        model = classifier(name, training)
        moved[name] = model(turned.sparse, turned.x).logits - model(batch.sparse, batch.x).logits
    assert moved["released"][0].abs().max() > 1e-4
    assert moved["released"][1:].abs().max() > 1e-4
    assert moved["paper"].abs().max() < 1e-9


# --- batches -----------------------------------------------------------------------------------------------------


@each_architecture
def test_a_graph_has_the_same_outputs_alone_and_in_a_batch(name: str) -> None:
    batch = batch_of()
    model = classifier(name)
    together = model(batch.sparse, batch.x)
    for graph in range(len(SIZES)):
        single = batch.of([graph])
        alone = model(single.sparse, single.x)
        exact(alone.logits[0], together.logits[graph])
        for key, loss in alone.losses.items():
            exact(loss[0], together.losses[key][graph])
        for mine, all_of_them in zip(alone.assignments, together.assignments, strict=True):
            exact(mine.of_graph(0), all_of_them.of_graph(graph))


@each_architecture
def test_the_gradient_of_a_batch_is_the_sum_of_those_of_its_graphs(name: str) -> None:
    batch = batch_of()
    model = classifier(name)
    weights = randn(CLASSES, seed=0)

    def gradient_of(part: Sample) -> dict[str, Tensor]:
        prediction = model(part.sparse, part.x)
        loss = (prediction.logits @ weights).sum()
        return parameter_gradients(model, loss + sum(v.sum() for v in prediction.losses.values()))

    alone = [gradient_of(batch.of([graph])) for graph in range(len(SIZES))]
    summed = {key: sum(part[key] for part in alone) for key in alone[0]}
    same(gradient_of(batch), summed)


@each_architecture
def test_the_order_of_the_graphs_in_a_batch_does_not_matter(name: str) -> None:
    batch = batch_of()
    order = [4, 0, 7, 2, 3, 6, 1, 5]
    model = classifier(name, training=True)
    turned = batch.of(order)
    exact(
        model(turned.sparse, turned.x).logits,
        model(batch.sparse, batch.x).logits[order],
    )


@each_with_quirks
def test_passing_the_plan_of_the_model_changes_nothing(name: str) -> None:
    batch = batch_of()
    model = classifier(name)
    plan = model.plan(batch.sparse)
    assert torch.equal(
        model(batch.sparse, batch.x, plan=plan).logits, model(batch.sparse, batch.x).logits
    )


# --- gradients ---------------------------------------------------------------------------------------------------


def cancelled_biases(model: GraphClassifier) -> Iterator[str]:
    """The biases that the batch normalization after them cancels."""
    for key, module in model.named_modules():
        if isinstance(module, Encoder):
            for i, steps in enumerate(module.steps):
                if len(steps.steps) and type(steps.steps[0]).__name__ == "BatchNorm":
                    last = "out" if isinstance(module.convs[i], Gin) else "linear"
                    yield f"{key}.convs.{i}.{last}.bias"


@each_mode
@each_with_quirks
def test_every_parameter_gets_a_gradient(name: str, training: bool) -> None:
    batch = batch_of()
    model = classifier(name, training)
    loss_of(model(batch.sparse, batch.x)).backward()
    cancelled = set(cancelled_biases(model)) if training else set()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert torch.isfinite(parameter.grad).all(), key
        assert (parameter.grad.abs().max() < 1e-9) == (key in cancelled), key


def test_every_cluster_that_a_graph_uses_gets_a_gradient() -> None:
    """The largest graph uses all clusters, and so all columns of the assignment networks."""
    batch = batch_of()
    for name in ("paper", "two poolings", "released"):
        model = classifier(name, training=True)
        loss_of(model(batch.sparse, batch.x)).backward()
        for pooler in model.poolers:
            weight = pooler.gnn.convs[-1].linear.weight
            assert (weight.grad[0].abs().amax(0) > 1e-9).all()


# --- precision ---------------------------------------------------------------------------------------------------


@each_mode
@each_with_quirks
def test_single_and_double_precision_agree(name: str, training: bool) -> None:
    """To 1e-4 of the largest entry of each tensor, and to 1e-3 for gradients."""
    batch = batch_of()
    double = classifier(name, training)
    single = copy.deepcopy(double).float()
    a = double(batch.sparse, batch.x)
    b = single(batch.sparse.to(dtype=torch.float32), batch.x.float())
    assert b.logits.dtype == torch.float32
    pairs = [(b.logits, a.logits, 1e-4), *((b.losses[k], a.losses[k], 1e-4) for k in a.losses)]
    expected = parameter_gradients(double, loss_of(a))
    found = parameter_gradients(single, loss_of(b))
    pairs += [(found[key], expected[key], 1e-3) for key in expected]
    for ours, theirs, tolerance in pairs:
        scale = max(1.0, float(theirs.detach().abs().max()))
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=tolerance * scale)


# --- extremes ----------------------------------------------------------------------------------------------------

EXTREMES = {
    "empty graphs only": (0, 0),
    "one empty graph": (0,),
    "one single node": (1,),
    "two single nodes": (1, 1),
    "a single node and an empty graph": (0, 1),
    "more nodes than the model was built for": (60, 2),
}


@each_mode
@each_with_quirks
@pytest.mark.parametrize("case", EXTREMES)
def test_extreme_batches_have_finite_outputs_and_gradients(
    case: str, name: str, training: bool
) -> None:
    batch = sample(EXTREMES[case], edgeless=(), density=0.1)
    model = classifier(name, training)
    prediction = model(batch.sparse, batch.x)
    assert prediction.logits.shape == (len(EXTREMES[case]), CLASSES)
    loss = loss_of(prediction)
    assert torch.isfinite(loss)
    loss.backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all(), key
    for key, value in model.named_buffers():
        assert torch.isfinite(value).all(), key


@each_mode
@pytest.mark.parametrize("name", ["paper", "two poolings", "given clusters", "flat"])
def test_a_batch_without_graphs_has_no_logits(name: str, training: bool) -> None:
    graphs = SparseGraphs.from_edges([], [], [], dtype=torch.float64)
    model = classifier(name, training)
    assert model(graphs, torch.zeros(0, 3, dtype=torch.float64)).logits.shape == (0, CLASSES)


@each_mode
@pytest.mark.parametrize("extra", [-1, 1])
@pytest.mark.parametrize("name", ["paper", "flat", "gcn", "gin", "released"])
def test_a_wrong_number_of_feature_rows_is_rejected(name: str, extra: int, training: bool) -> None:
    batch = batch_of()
    x = torch.cat([batch.x, batch.x])[: len(batch.x) + extra]
    model = classifier(name, training)
    with pytest.raises((DiffPoolError, RuntimeError, ValueError, IndexError)):
        model(batch.sparse, x)


# --- torch.compile -----------------------------------------------------------------------------------------------

# Tracing takes seconds per convolution, so there is one before and after each pooling. Two poolings are traced for
# AOTAutograd only with --soak.
COMPILED = [
    ("paper", True, torch.float32, "aot_eager"),
    ("two poolings", True, torch.float64, "eager"),
    ("flat", False, torch.float64, "aot_eager"),
    ("released", False, torch.float64, "aot_eager"),
]
BATCHES = ((23, 1, 29, 0, 12, 5, 17, 2), (8, 1, 0, 27, 30, 11, 4), (21, 30, 3))


@pytest.mark.parametrize(("name", "training", "dtype", "backend"), COMPILED)
def test_a_compiled_classifier_agrees_on_batches_of_several_sizes(
    name: str, training: bool, dtype: torch.dtype, backend: str, soak: bool
) -> None:
    """The model is compiled as a single graph: `fullgraph` raises at a graph break."""
    torch.compiler.reset()
    model = perturbed(replace(EVERY[name], layers_before=1, layers_after=1)).to(dtype)
    model.train(training)
    twin = copy.deepcopy(model)
    backend = "aot_eager" if soak else backend
    compiled = torch.compile(twin, fullgraph=True, backend=backend, dynamic=True)
    tolerance = 1e-9 if dtype == torch.float64 else 1e-4
    for seed, sizes in enumerate(BATCHES):
        batch = batch_of(seed, sizes).to(dtype)
        graphs = batch.sparse
        eager = model(graphs, batch.x)
        fast = compiled(graphs, batch.x, plan=twin.plan(graphs))
        exact(fast.logits, eager.logits, tolerance)
        same(fast.losses, eager.losses, tolerance)
        for m, prediction in ((model, eager), (twin, fast)):
            m.zero_grad()
            loss_of(prediction).backward()
        same(
            {key: p.grad for key, p in twin.named_parameters()},
            {key: p.grad for key, p in model.named_parameters()},
            tolerance,
        )
        same(running_statistics(twin), running_statistics(model), tolerance)


# --- architectures -----------------------------------------------------------------------------------------------


def test_the_flat_network_is_as_deep_as_the_hierarchical_one() -> None:
    hierarchical = Architecture(poolings=2, layers_before=2, layers_after=3)
    assert flat(hierarchical).layers_before == 8
    assert flat(hierarchical).poolings == 0
    assert flat(hierarchical).readout == "mean"


@pytest.mark.parametrize(
    ("architecture", "counts"),
    [
        (Architecture(), [(3, 1, 4, 0, 2, 1, 2, 1)]),
        (Architecture(poolings=2), [(6, 1, 8, 0, 3, 2, 5, 1), (2, 1, 2, 0, 1, 1, 2, 1)]),
        (Architecture(min_clusters=3), [(3, 1, 4, 0, 3, 3, 3, 2)]),
        (
            Architecture(poolings=2, min_clusters=2),
            [(6, 1, 8, 0, 3, 2, 5, 2), (2, 1, 2, 0, 2, 2, 2, 2)],
        ),
        (Architecture(clusters="dataset"), [(4,) * 8]),
        (Architecture(poolings=2, clusters="dataset"), [(8,) * 8, (2,) * 8]),
        (Architecture(poolings=2, clusters=(9, 2)), [(9,) * 8, (2,) * 8]),
    ],
)
def test_the_clusters_of_each_pooling_in_a_hand_computed_case(
    architecture: Architecture, counts: list[tuple[int, ...]]
) -> None:
    """Graphs with 23, 1, 31, 0, 12, 5, 17 and 2 nodes: 10 % with one pooling, 25 % with two, rounded up."""
    plan = build(architecture, 3, CLASSES, largest=31).plan(batch_of().sparse)
    assert [tuple(layout.sizes.tolist()) for layout in plan] == counts


@pytest.mark.parametrize("ratio", [0.05, 0.07, 0.1, 0.25, 0.29, 1.0])
def test_a_share_of_the_nodes_is_rounded_up_in_exact_decimals(ratio: float) -> None:
    """As floats, 0.07 · 100 is a little more than 7, and 0.29 · 100 a little less than 29."""
    sizes = range(1500)
    layout = Clusters(max_count=1000, ratio=ratio).layout(Layout.from_sizes(sizes))
    assert layout.sizes.tolist() == [reference.cluster_count(1000, ratio, n) for n in sizes]


def test_a_graph_with_nodes_has_a_cluster_however_small_the_ratio() -> None:
    layout = Clusters(max_count=1000, ratio=1e-12).layout(Layout.from_sizes([0, 1, 7, 1000]))
    assert layout.sizes.tolist() == [0, 1, 1, 1]
