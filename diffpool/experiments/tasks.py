"""What a protocol is about: a plan, the models to train for it, and what is kept of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from diffpool.data import Fold
from diffpool.experiments.methods import Method, with_settings

# The first number of every derived seed.
STAGES = ("folds", "fold", "point", "final", "hold-out", "inner")


def derived_seed(seed: int, *path: int) -> int:
    """A seed of its own for each place in a run: it depends on nothing else."""
    return int(np.random.SeedSequence(seed, spawn_key=path).generate_state(1)[0])


def places(folds: Sequence[Sequence[Fold]]) -> list[tuple[int, int]]:
    """(repeat, fold) in the order of the records."""
    return [(r, f) for r, own in enumerate(folds) for f in range(len(own))]


@dataclass(frozen=True, eq=False)
class Plan:
    """What is evaluated: the folds of each repeat, and the method before any choice of settings."""

    method: Method
    seed: int
    y: np.ndarray = field(repr=False)
    folds: tuple[tuple[Fold, ...], ...]  # for each repeat

    def places(self) -> list[tuple[int, int]]:
        return places(self.folds)


@dataclass(frozen=True, eq=False)
class Task:
    """One model to be trained. It has a test part only where its accuracy there is reported."""

    name: str  # its place in the run, and the name of its result in a checkpoint
    method: Method
    split: Fold


@dataclass(frozen=True)
class Trained:
    """What is kept of a trained model."""

    epoch: int  # with the lowest validation loss
    validation_loss: float  # there
    validation_accuracy: float  # there
    curve: tuple[float, ...]  # validation accuracy of every epoch
    test_accuracy: float | None
    parameters: int
    graphs: int  # training graphs seen, counted in every epoch
    seconds: float  # its share of the time of all models trained side by side


Results = Mapping[str, Trained]


@dataclass(frozen=True, eq=False)
class FoldScore:
    """The accuracy of a fold (0 to 1), and which models it comes from."""

    repeat: int
    fold: int
    accuracy: float
    epoch: int
    task: Task  # whose settings are recorded
    results: tuple[Trained, ...]  # of all models that were trained for it
    details: dict[str, Any]


def make_task(
    plan: Plan,
    repeat: int,
    fold: int,
    stage: str,
    number: int,
    split: Fold,
    changes: Mapping[str, Any] | None = None,
) -> Task:
    """The model at this place, with a seed of its own."""
    seed = derived_seed(plan.seed, STAGES.index(stage), repeat, fold, number)
    method = with_settings(plan.method, {**(changes or {}), "seed": seed})
    name = f"repeat {repeat}, fold {fold}" + ("" if stage == "fold" else f", {stage} {number}")
    return Task(name, method, split)
