"""Cohorts on a GPU: dropout in captured steps, models that stop early, insufficient memory."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from diffpool.architecture import PAPER
from diffpool.backends.capture import CapturedSteps
from diffpool.builder import build
from diffpool.data import GraphDataset, embedded, single_split
from diffpool.errors import TrainingError
from diffpool.experiments import evaluate, settings_for
from diffpool.training import Cohort, EagerSteps, Optimizer, Training

pytestmark = pytest.mark.gpu

RATES = (0.5, 0.0, 0.3, 0.7)


def cohort(dataset: GraphDataset, epochs: tuple[int, ...] = (3, 3, 3, 3)) -> Cohort:
    torch.manual_seed(0)
    architecture = replace(PAPER, hidden=8, head=(5,))
    model = build(architecture, dataset.num_features, 2, dataset.largest, models=4)
    configs = [
        Training(epochs=e, seed=m, batch_size=7 + m, dropout=rate)
        for m, (e, rate) in enumerate(zip(epochs, RATES, strict=True))
    ]
    folds = [single_split(dataset.y.cpu(), seed) for seed in range(4)]
    return Cohort(model.to(dataset.x.device, dataset.x.dtype), dataset, folds, configs)


def losses(made: Cohort) -> list[float]:
    found = []
    while not made.finished:
        found += [row.train_loss for row in made.train_epoch() if row is not None]
    return found


def test_dropout_on_the_gpu_equals_dropout_on_the_cpu_in_double_precision() -> None:
    dataset = embedded(40, seed=3, rungs=4)
    dataset = replace(dataset, graphs=dataset.graphs.to(dtype=torch.float64), x=dataset.x.double())
    here, there = (losses(cohort(dataset.to(device))) for device in ("cpu", "cuda"))
    assert here == pytest.approx(there, rel=1e-7)


def test_captured_steps_draw_the_same_new_masks_as_uncaptured_steps() -> None:
    dataset = embedded(60, seed=3, rungs=4).to("cuda")
    found = []
    for capture in (True, False):
        made = cohort(dataset)
        assert isinstance(made.stepper, CapturedSteps)
        if not capture:
            made.stepper = EagerSteps(made.batches, made.step)
        found.append(losses(made))
    assert found[0] == pytest.approx(found[1], rel=2e-3)


def test_captured_steps_of_stopped_models_are_freed() -> None:
    """The losses of the other models equal those on the CPU, up to rounding."""
    dataset = embedded(60, seed=3, rungs=4)
    made = cohort(dataset.to("cuda"), epochs=(1, 4, 1, 2))
    before = weakref.ref(made.stepper)
    rows = made.train_epoch()
    found = [row.train_loss for row in rows]
    assert before() is not None
    found += losses(made)
    assert before() is None
    assert made.members == [1]
    assert isinstance(made.stepper, CapturedSteps)
    assert found == pytest.approx(losses(cohort(dataset, epochs=(1, 4, 1, 2))), rel=2e-2)


# --- memory --------------------------------------------------------------------------------------------------------


@pytest.fixture
def limited() -> Iterator[Any]:
    """A function that limits the GPU memory of PyTorch to a number of bytes."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    yield lambda size: torch.cuda.set_per_process_memory_fraction(size / total)
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.empty_cache()


def reserved(dataset: GraphDataset, method: Any, path: Path, models: int) -> tuple[int, int]:
    """The bytes that always stay reserved, and the peak with this number of models side by side."""
    torch.cuda.reset_peak_memory_stats()
    evaluate(method, dataset, out=path, cohort=models)
    peak = torch.cuda.max_memory_reserved()
    gc.collect()
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved(), peak


@pytest.mark.parametrize("share", [0.3, 0.6])
def test_a_cohort_that_does_not_fit_is_trained_in_parts(
    share: float, tmp_path: Path, limited: Any, monkeypatch: Any
) -> None:
    """Memory may run out in a step that is not captured yet, or during capture."""
    dataset = embedded(100, seed=0).to("cuda")
    method = settings_for("diffpool", "embedded", epochs=2, batch_size=40)
    always, needed = reserved(dataset, method, tmp_path / "all.jsonl", 10)
    sizes: list[int] = []
    begin = Optimizer.__init__

    def counted(optimizer: Optimizer, model: Any, configs: list[Training]) -> None:
        sizes.append(len(configs))
        begin(optimizer, model, configs)

    monkeypatch.setattr(Optimizer, "__init__", counted)
    notices: list[str] = []
    limited(always + share * (needed - always))
    result = evaluate(
        method, dataset, out=tmp_path / "parts.jsonl", cohort=10, notify=notices.append
    )
    assert len(result.records) == 10
    assert sizes[:2] == [10, 5]
    assert notices[0] == "not enough memory for 10 models side by side: restarting with 5 at a time"


def test_a_cohort_made_by_hand_says_that_memory_ran_out_during_capture(limited: Any) -> None:
    """The first step of a capacity is not captured; memory that others take before the second step is missing then."""
    dataset = embedded(60, seed=3, rungs=4).to("cuda")
    made = cohort(dataset)
    assert isinstance(made.stepper, CapturedSteps)
    draw = made.stepper.drawing.draw

    def with_little_memory(*arguments: Any) -> Any:
        if torch.cuda.is_current_stream_capturing():
            limited(torch.cuda.memory_reserved())
        return draw(*arguments)

    made.stepper.drawing.draw = with_little_memory  # type: ignore[method-assign]
    with pytest.raises(TrainingError, match="not enough memory to train 4 models side by side"):
        made.train_epoch()
    del made
    gc.collect()
    limited(2**33)
    assert all(math.isfinite(loss) for loss in losses(cohort(dataset)))  # CUDA still works
