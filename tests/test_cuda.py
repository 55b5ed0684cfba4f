"""The same numbers on a GPU as on the CPU. Skipped where there is none."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from samples import gradients, sample

from diffpool.data import embedded
from diffpool.experiments import settings_for, train_once
from diffpool.nn import PAPER, RELEASED, build

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

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
def test_logits_losses_and_gradients_are_those_of_the_cpu(name: str, training: bool) -> None:
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


def test_a_model_trains_on_the_gpu(tmp_path) -> None:
    dataset = embedded(60).to("cuda")
    outcome = train_once(settings_for("diffpool", "embedded", epochs=2), dataset, tmp_path / "m")
    assert len(outcome.epochs) == 2
    assert 0 <= outcome.test.accuracy <= 1
