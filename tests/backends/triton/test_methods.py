"""Every neural method on a GPU has the same losses as on the CPU, with and without capture. Skipped without a GPU."""

from __future__ import annotations

import copy
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch

from diffpool.backends.capture import CapturedSteps
from diffpool.builder import build
from diffpool.data import GraphDataset, single_split
from diffpool.experiments import METHODS, Method, prepared
from diffpool.nn import GraphClassifier
from diffpool.training import Cohort, EagerSteps, Training
from tests.backends.triton.test_kernels import uneven

pytestmark = pytest.mark.gpu

CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in METHODS},
    "straight-through": ("diffpool", {"assignment": "straight-through", "poolings": 2}),
    "gumbel": ("diffpool", {"assignment": "gumbel"}),
    "two levels of random clusters": ("random-assignment", {"poolings": 2}),
    "edge features": ("diffpool", {"conv": "edge-sage", "poolings": 2}),
    "ecc with edge features": ("ecc", {}),
    "receptive fields with edge features": ("patchy-san", {}),
}
MODELS = 3


def case(name: str) -> tuple[Method, GraphDataset, GraphClassifier]:
    method_name, changes = CHANGES[name]
    if method_name == "patchy-san" and find_spec("igraph") is None:
        pytest.skip("igraph is not installed")
    method = METHODS[method_name]
    architecture = replace(method.architecture, hidden=8, field_count=9, field_size=4, **changes)
    dataset = uneven(60, edges="edge features" in name)
    method, dataset = prepared(replace(method, architecture=architecture), dataset)
    torch.manual_seed(0)
    assert dataset.feature_map is not None
    shape = (dataset.num_features, 2, dataset.largest, MODELS)
    channels = dataset.feature_map.num_edge_features
    model = build(method.architecture, *shape, edge_features=channels)
    return method, dataset, model


def losses_of(
    model: GraphClassifier,
    dataset: GraphDataset,
    method: Method,
    capture: bool = True,
    epochs: int = 3,
) -> list[float]:
    folds = [single_split(dataset.y.cpu(), seed) for seed in range(MODELS)]
    usual = Training(epochs=3, dropout=method.training.dropout)
    configs = [replace(usual, seed=seed, batch_size=7 + seed) for seed in range(MODELS)]
    cohort = Cohort(copy.deepcopy(model).to(dataset.x.device), dataset, folds, configs)
    if dataset.x.is_cuda and dataset.x.dtype == torch.float32:
        assert isinstance(cohort.stepper, CapturedSteps)
    if not capture:
        cohort.stepper = EagerSteps(cohort.batches, cohort.step)
    rows = [cohort.train_epoch() for _ in range(epochs)]
    return [value for epoch in rows for r in epoch for value in (r.train_loss, r.validation_loss)]


@pytest.mark.parametrize("name", CHANGES)
def test_a_cohort_trains_the_same_on_the_gpu_and_on_the_cpu(name: str) -> None:
    """In double precision, over several epochs."""
    method, dataset, model = case(name)
    double = replace(dataset, graphs=dataset.graphs.to(dtype=torch.float64), x=dataset.x.double())
    here, there = (losses_of(model.double(), double.to(d), method) for d in ("cpu", "cuda"))
    assert np.isfinite(here).all()
    assert there == pytest.approx(here, rel=1e-6)


@pytest.mark.parametrize("name", CHANGES)
def test_captured_and_uncaptured_steps_agree(name: str) -> None:
    """In single precision, with several capacities; unwritten memory must not be read.

    Only one epoch if assignments are hard: rounding can move a node to another cluster, and then the runs diverge.
    """
    method, dataset, model = case(name)
    dataset = dataset.to("cuda")
    torch.full((2**26,), torch.nan, device="cuda")
    epochs = 1 if name in ("straight-through", "gumbel") else 3
    captured, eager = (
        losses_of(model, dataset, method, capture, epochs) for capture in (True, False)
    )
    assert captured == pytest.approx(eager, rel=5e-3)
