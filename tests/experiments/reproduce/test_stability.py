"""The spread over seeds: hand-computed cases, pre-training, and the statements about the paper's claims."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from pathlib import Path

import numpy as np
import pytest

from diffpool.data import Fold, embedded
from diffpool.experiments import settings_for
from diffpool.experiments.cohorts import initial_models
from diffpool.experiments.reproduce import stability
from diffpool.experiments.reproduce.stability import (
    Spread,
    epochs_to_share,
    measure_stability,
    pooled_sd,
    stability_table,
    statements,
)
from diffpool.training.link_only import LinkOnly


def test_the_pooled_sd_ignores_differences_between_folds() -> None:
    assert pooled_sd([[1, 3], [101, 103]]) == pytest.approx(sqrt(2))
    assert pooled_sd([[1, 2, 3], [5, 5]]) == pytest.approx(sqrt(2 / 3))


def test_the_first_epoch_with_95_percent_of_the_final_training_accuracy() -> None:
    assert epochs_to_share([0.5, 0.7, 0.94, 0.96, 0.9, 1.0], last=1) == 4
    assert epochs_to_share([1.0, 0.5, 0.5, 0.5], last=2) == 1


def spread(accuracy: float, sd: float, epochs: float, models: int = 30) -> Spread:
    return Spread.of(
        [
            {
                "accuracies": [accuracy - sd, accuracy + sd] * (models // 2),
                "losses": [0.1, 0.2] * (models // 2),
                "epochs_to_share": [epochs - 1, epochs + 1] * (models // 2),
            }
        ]
    )


def test_a_claim_holds_only_beyond_noise() -> None:
    plain = spread(60, 4, 50)
    holds = statements("X", {"plain": plain, "link": spread(65, 1, 90)})
    assert [": holds" in s for s in holds] == [True, True, True]
    same = statements("X", {"plain": plain, "link": spread(60.1, 3.9, 50.1)})
    assert all("no difference beyond noise" in s for s in same)
    opposite = statements("X", {"plain": plain, "link": spread(50, 12, 20)})
    assert all("the opposite is true" in s for s in opposite)
    assert statements("X", {"plain": plain}) == []


def test_pretraining_lowers_the_link_loss_of_every_model_and_leaves_the_head() -> None:
    dataset = embedded(30, rungs=3)
    everything, nothing = np.arange(30), np.empty(0, np.int64)
    fold = Fold(everything, nothing, nothing)
    method = settings_for("diffpool", "embedded", hidden=4)
    configs = [replace(method.training, seed=seed) for seed in (0, 1)]
    model = initial_models(method.architecture, [0, 1], dataset, [fold] * 2)
    head = {n: t.clone() for n, t in model.state_dict().items() if n.startswith("head")}
    cohort = LinkOnly(model, dataset, [fold] * 2, configs)
    first = cohort.pretrain_epoch()
    for _ in range(15):
        last = cohort.pretrain_epoch()
    assert all(b < a for a, b in zip(first, last, strict=True))
    assert head
    for name, before in head.items():
        assert (cohort.in_training.state_dict()[name] == before).all()


def test_finished_folds_are_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stability, "SEEDS", 2)
    monkeypatch.setattr(stability, "FOLDS", 1)
    loads, changes = [], {"epochs": 1, "hidden": 2, "patience": 5, "link_weight": 0.5}

    def load(name: str) -> object:
        loads.append(name)
        return embedded(40, rungs=3)

    for _ in range(2):
        measure_stability(tmp_path, ["embedded"], load, "cpu", changes)  # type: ignore[arg-type]
    assert loads == ["embedded"]
    table = stability_table(tmp_path, ["embedded"], changes)
    assert [len(table.lines), len(table.facts)] == [4, 4]
    assert "OTHER SETTINGS THAN THE DECLARED ONES: epochs=1, hidden=2." in table.caption
    declared = stability_table(tmp_path, ["embedded"])
    assert all(line[2] == "not run" for line in declared.lines)
