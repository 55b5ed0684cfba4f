"""Whole models with the Triton kernels against the modules in double precision.

New memory is filled with NaN, to detect reads of memory that was never written.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from diffpool.architecture import PAPER, RELEASED, Architecture
from diffpool.backends.capture import capacities
from diffpool.baselines.prepare import prepare
from diffpool.builder import build
from diffpool.data import Categories, GraphDataset, RawGraphs
from diffpool.experiments import METHODS
from diffpool.nn import Assignment, GraphClassifier
from diffpool.training import CohortBatches

blocks = pytest.importorskip("diffpool.backends.triton.blocks")
drawn_graphs = pytest.importorskip("diffpool.backends.triton.drawn")

pytestmark = [pytest.mark.triton, pytest.mark.usefixtures("_poisoned_memory")]

ONE = replace(PAPER, ratio=0.4, layers_before=2, layers_after=1)
CONCATENATED = replace(
    ONE,
    concat=True,
    assignment_linear=True,
    assignment_order=("l2", "relu", "batch"),
    readout="mean",
    head=(5,),
)
ARCHITECTURES = {
    "two poolings": replace(ONE, poolings=2),
    "at least three clusters": replace(ONE, ratio=0.1, min_clusters=3),
    "concatenated layers": replace(CONCATENATED, poolings=2),
    "clusters of the data set": replace(ONE, clusters="dataset", readout="max"),
    "gin": replace(ONE, conv="gin"),
    "released": RELEASED,
    "straight-through": replace(ONE, assignment="straight-through"),
    "random": replace(ONE, pooler="random"),
    "uniform": replace(ONE, pooler="uniform"),
    "s2v": replace(PAPER, conv="s2v", layers_before=1, layers_after=1, last_order=("batch",)),
    "set2set": replace(ONE, poolings=0, readout="set2set"),
    "sort": replace(
        PAPER,
        conv="dgcnn",
        poolings=0,
        layers_before=1,
        order=("tanh",),
        last_order=("tanh",),
        concat=True,
        readout="sort",
        sorted_nodes=12,
    ),
    "fields": replace(PAPER, poolings=0, readout="fields", field_count=9, field_size=4),
}
SIZES = np.array([13, 1, 41, 8, 0, 20])
# Whether the model is training, and whether the batch is drawn on the device.
MODES = ((True, True), (False, False), (True, False), (False, True))
CHOSEN = np.array([[0, 2, 1, 4], [5, 3, -1, -1]])  # the graphs of two models; -1: none


def uneven(undirected: bool, edges: bool = False) -> GraphDataset:
    rng = np.random.default_rng(0)
    starts = np.cumsum(SIZES) - SIZES
    source, target = (
        np.concatenate(
            [s + rng.integers(0, max(n, 1), 3 * n) for s, n in zip(starts, SIZES, strict=True)]
        )
        for _ in range(2)
    )
    raw = RawGraphs.from_edges(
        "uneven",
        SIZES,
        source,
        target,
        one_way=undirected,
        node_attributes=rng.normal(size=(SIZES.sum(), 4)),
        classes=Categories.from_values(np.arange(6) % 2),
        edge_attributes=rng.normal(size=(len(source), 2)) if edges else None,
    )
    return GraphDataset.from_raw(raw, edges=edges)


def of_graph(assignment: Assignment, graph: int) -> Tensor:
    """S of one graph; only the device knows its size."""
    rows, clusters = assignment.rows, assignment.clusters
    start, size = rows.device_starts[graph], rows.device_sizes[graph]
    return assignment.s[start : start + size, : clusters.device_sizes[graph]]


def result(model: GraphClassifier, dataset: GraphDataset, drawn: bool) -> list[Tensor]:
    """Logits, loss, gradients, assignments and running statistics of one batch."""
    batches = CohortBatches(dataset, model.clusters)
    if drawn:
        numbers = torch.from_numpy(np.where(CHOSEN >= 0, CHOSEN, len(SIZES)))
        (capacity,) = capacities(batches, CHOSEN[None])
        graphs, plan, x, _, real = drawn_graphs.Drawing(batches).draw(
            numbers.to(dataset.x.device), capacity
        )
    else:
        graphs, plan, x, _, real = batches.batch(CHOSEN).parts
    found = model(graphs, x, plan)
    mask = real.view(-1)
    weights = torch.linspace(-1, 2, int(2 * mask.sum())).view(-1, 2).to(found.logits)
    loss = (found.logits[mask] * weights).sum()
    for number, (_, value) in enumerate(sorted(found.losses.items())):
        loss = loss + (1 + number) * value[mask].sum()
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    soft = [a for a in found.assignments if isinstance(a, Assignment)]
    assignments = [of_graph(a, g) for a in soft for g in range(CHOSEN.size)]
    tensors = [found.logits[mask], loss, *gradients, *assignments, *model.buffers()]
    return [t.detach().cpu().double() for t in tensors]


def compare(
    architecture: Architecture,
    dataset: GraphDataset,
    device: str,
    modes: Sequence[tuple[bool, bool]] = MODES[:2],
) -> None:
    """Compare in each mode: whether it is training, and whether the batch is drawn on the device."""
    architecture = replace(architecture, hidden=8)
    dataset = replace(
        dataset, graphs=prepare(architecture, dataset.graphs, int(SIZES.max()), keep=False)
    )
    assert dataset.feature_map is not None
    shape = (dataset.num_features, 2, int(SIZES.max()), 2, dataset.feature_map.num_edge_features)
    double = build(architecture, *shape).double()
    with torch.no_grad():
        for value in double.state_dict().values():
            value.add_(0.3 * torch.rand(value.shape, dtype=value.dtype))
    in_double = replace(
        dataset, graphs=dataset.graphs.to(dtype=torch.float64), x=dataset.x.double()
    )
    for training, drawn in modes:
        expected = result(copy.deepcopy(double).train(training), in_double, drawn=False)
        model = copy.deepcopy(double).float().to(device).train(training)
        found = result(model, dataset.to(device), drawn)
        for a, b in zip(expected, found, strict=True):
            scale = max(1.0, float(a.abs().max()) if a.numel() else 1.0)
            torch.testing.assert_close(
                b,
                a,
                rtol=0,
                atol=1e-3 * scale,
                msg=lambda text, t=training, d=drawn: f"training {t}, drawn {d}: {text}",
            )


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_model_with_the_kernels_equals_the_modules(name: str, device: str, soak: bool) -> None:
    """Each architecture in two of the four modes, in turn; with --soak in all of them."""
    turn = 2 * (list(ARCHITECTURES).index(name) % 2)
    modes = MODES if soak else MODES[turn : turn + 2]
    compare(ARCHITECTURES[name], uneven(undirected=True), device, modes)


def test_directed_edges_and_rows_of_several_sizes(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels handle short and long rows separately; here with a small limit for short ones."""
    monkeypatch.setattr(blocks, "FIRST", 8)
    compare(CONCATENATED, uneven(undirected=False), device)


def test_directed_edges_with_different_features_in_both_directions(device: str) -> None:
    compare(replace(ONE, conv="edge-sage"), uneven(False, edges=True), device, MODES[:1])


def test_ecc_with_precomputed_coarser_graphs(device: str) -> None:
    architecture = replace(METHODS["ecc"].architecture, layers_before=1, layers_after=1, head=(5,))
    compare(architecture, uneven(True, edges=True), device, MODES[:1])


def test_receptive_fields_with_edge_features(device: str) -> None:
    compare(ARCHITECTURES["fields"], uneven(True, edges=True), device, MODES[:1])
