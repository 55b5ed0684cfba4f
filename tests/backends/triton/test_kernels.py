"""A GPU gives the same results as the CPU. Skipped without a GPU."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from samples import gradients, sample

from diffpool.architecture import PAPER, RELEASED
from diffpool.backends.capture import CapturedSteps
from diffpool.builder import build
from diffpool.data import Categories, GraphDataset, RawGraphs, embedded, single_split
from diffpool.experiments import settings_for, train_once
from diffpool.training import Cohort, EagerSteps, Training

pytestmark = pytest.mark.gpu

ARCHITECTURES = {
    "paper": PAPER,
    "two poolings": replace(PAPER, poolings=2),
    "one number of clusters": replace(PAPER, clusters="dataset"),
    "maximum": replace(PAPER, readout="max"),
    "gcn": replace(PAPER, conv="gcn"),
    "gin": replace(PAPER, conv="gin"),
    "released": RELEASED,
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_logits_losses_and_gradients_equal_those_on_the_cpu(name: str, training: bool) -> None:
    batch = sample((13, 1, 21, 0, 8), density=0.3, weighted=True)
    model = build(ARCHITECTURES[name], batch.x.shape[1], 3, largest=21).double().train(training)
    results = []
    for device in ("cpu", "cuda"):
        here = copy.deepcopy(model).to(device)
        prediction = here(batch.sparse.to(device), batch.x.to(device))
        loss = prediction.logits.square().sum() + sum(v.sum() for v in prediction.losses.values())
        found = gradients(loss, *here.parameters())
        results.append([t.cpu() for t in (prediction.logits, loss, *found)])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_single_precision_kernels_agree_with_the_cpu_in_double_precision(name: str) -> None:
    batch = sample((13, 1, 70, 0, 8, 41), density=0.3, weighted=True)
    model = build(ARCHITECTURES[name], batch.x.shape[1], 3, largest=70).double().train()
    results = []
    for device, dtype in (("cpu", torch.float64), ("cuda", torch.float32)):
        here = copy.deepcopy(model).to(device, dtype)
        prediction = here(batch.sparse.to(device, dtype), batch.x.to(device, dtype))
        loss = prediction.logits.square().sum() + sum(v.sum() for v in prediction.losses.values())
        found = gradients(loss, *here.parameters())
        results.append([t.cpu().double() for t in (prediction.logits, loss, *found)])
    for a, b in zip(*results, strict=True):
        scale = max(1.0, float(a.detach().abs().max()))
        torch.testing.assert_close(a, b, rtol=0, atol=2e-3 * scale)


def test_a_cohort_trains_the_same_on_the_gpu_and_on_the_cpu() -> None:
    """In double precision, over several epochs."""
    dataset = embedded(40, seed=3, rungs=4)
    dataset = replace(dataset, graphs=dataset.graphs.to(dtype=torch.float64), x=dataset.x.double())
    folds = [single_split(dataset.y, seed) for seed in range(3)]
    configs = [Training(epochs=3, seed=seed, batch_size=7 + seed) for seed in range(3)]
    torch.manual_seed(0)
    model = build(replace(PAPER, hidden=8, poolings=2), 6, 2, dataset.largest, models=3).double()
    losses = []
    for device in ("cpu", "cuda"):
        cohort = Cohort(copy.deepcopy(model).to(device), dataset.to(device), folds, configs)
        rows = [cohort.train_epoch() for _ in range(3)]
        losses.append([row.train_loss for epoch in rows for row in epoch])
    assert losses[0] == pytest.approx(losses[1], rel=1e-7)


@pytest.mark.parametrize("name", ["paper", "two poolings", "one number of clusters", "gin"])
def test_captured_and_uncaptured_steps_agree(name: str) -> None:
    """In single precision: losses over several epochs, with several capacities."""
    dataset = uneven(60).to("cuda")
    torch.full((2**26,), torch.nan, device="cuda")  # detects reads of unwritten memory
    folds = [single_split(dataset.y.cpu(), seed) for seed in range(3)]
    configs = [Training(epochs=3, seed=seed, batch_size=7 + seed) for seed in range(3)]
    torch.manual_seed(0)
    architecture = replace(ARCHITECTURES[name], hidden=8)
    model = build(architecture, 6, 2, dataset.largest, models=3).cuda()
    losses = []
    for capture in (True, False):
        cohort = Cohort(copy.deepcopy(model), dataset, folds, configs)
        assert isinstance(cohort.stepper, CapturedSteps)
        if not capture:
            cohort.stepper = EagerSteps(cohort.batches, cohort.step)
        rows = [cohort.train_epoch() for _ in range(3)]
        losses.append([row.train_loss for epoch in rows for row in epoch])
    assert losses[0] == pytest.approx(losses[1], rel=2e-3)


def uneven(count: int, edges: bool = False) -> GraphDataset:
    """Generated paths of very different lengths, with two features for each edge if `edges`."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 90, count)
    starts = np.cumsum(sizes) - sizes
    source = np.concatenate([s + np.arange(n - 1) for s, n in zip(starts, sizes, strict=True)])
    x = rng.normal(size=(int(sizes.sum()), 6))
    raw = RawGraphs.from_edges(
        "uneven",
        sizes,
        source,
        source + 1,
        one_way=True,
        node_attributes=x,
        classes=Categories.from_values(np.arange(count) % 2),
        edge_attributes=rng.normal(size=(len(source), 2)) if edges else None,
    )
    return GraphDataset.from_raw(raw, edges=edges)


def test_a_model_trains_on_the_gpu(tmp_path) -> None:
    dataset = embedded(60).to("cuda")
    outcome = train_once(settings_for("diffpool", "embedded", epochs=2), dataset, tmp_path / "m")
    assert len(outcome.epochs) == 2
    assert 0 <= outcome.test.accuracy <= 1
