"""Tuning: try settings on a validation part, and average the models of a greedy selection."""

from __future__ import annotations

import csv
import io
import json
import math
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import nn

from diffpool.data import GraphDataset, single_split
from diffpool.errors import SettingError
from diffpool.experiments.checkpoint import only_process
from diffpool.experiments.grid import Grid
from diffpool.experiments.methods import METHOD_SETTINGS, Method, settings_for, with_settings
from diffpool.experiments.network_run import NetworkRun
from diffpool.experiments.plan import Plan, Task, Trained, prepared
from diffpool.experiments.protocols import Nested
from diffpool.experiments.selection import Point, rank, space_for
from diffpool.experiments.status import Notify, Watch
from diffpool.files import atomic_write
from diffpool.nn import GraphClassifier
from diffpool.training import (
    ModelCard,
    TrainedModel,
    classification_metrics,
    regression_metrics,
    reserve_directory,
    target_scale,
)
from diffpool.training.ensemble import mean_outputs
from diffpool.training.model_directory import Model, Part

TRIALS, MEMBERS = 24, 10
RECORDS = "record.jsonl"  # in the model directory: what `diffpool evaluate` would record


@dataclass(frozen=True)
class Trial:
    """One of the settings that were tried."""

    number: int
    settings: Point
    validation_loss: float | None  # None: it failed, or there was no time for it
    validation_accuracy: float | None  # 0 to 1; None for regression
    epochs: int
    seconds: float
    members: int  # of the ensemble that have these settings


@dataclass(frozen=True, eq=False)
class Tuned:
    """The result of tuning: an ensemble, and the trials, the best one first."""

    model: TrainedModel
    trials: tuple[Trial, ...]
    test: dict[str, Any]  # metrics of the ensemble on the test graphs
    seconds: float

    @property
    def best_settings(self) -> Point:
        """The settings of the best trial."""
        return self.trials[0].settings


def tune(
    method: Method | str,
    dataset: GraphDataset,
    *,
    out: str | Path,
    space: Grid | None = None,
    trials: int = TRIALS,
    ensemble: int = MEMBERS,
    inner_folds: int = 1,
    max_seconds: float | None = None,
    seed: int = 0,
    cohort: int | None = None,
    overwrite: bool = False,
    watch: Watch = lambda status: None,
    notify: Notify = warnings.warn,
    checkpoint_seconds: float = 5.0,
) -> Tuned:
    """Choose settings for a data set, train an ensemble with them, and write its model directory to `out`.

    A tenth of the graphs is kept for the test. `trials` points of the search space are trained on the rest, where a
    part of the graphs validates; among points of the same architecture, the worse half stops early, again and again. A
    greedy selection with replacement (Caruana et al., 2004) on the validation graphs gives the settings of each member.
    Every member is trained with its own seed and its own validation graphs. After an interruption, the same call
    continues where it stopped.

    - `space`: names of settings and the values to try (`make_grid`), by default `space_for(method)`.
    - `inner_folds`: validate by cross-validation with this many folds; 1 for a single validation part.
    - `max_seconds`: start no new trials after this time.
    - `cohort`: maximum number of models trained side by side; by default as many as suit the device.
    """
    start = time.monotonic()
    method = settings_for(method, dataset.name) if isinstance(method, str) else method
    method = with_settings(method, {"ensemble": _checked("ensemble", ensemble, 2), "seed": seed})
    space = space_for(method) if space is None else space
    protocol = Nested(
        grid=space,
        trials=_checked("trials", trials, 1),
        inner_folds=_checked("inner_folds", inner_folds, 1),
        halving=True,
    )
    out = Path(out)
    method, dataset = prepared(method, dataset)
    y = dataset.y.cpu().numpy()
    fold = single_split(y, seed)
    labels = np.zeros(len(dataset), np.int64) if dataset.regression else y
    plan = Plan(method, seed, labels, ((fold,),), keep_models=True, same_targets=True)
    with reserve_directory(out, overwrite) as save:
        run = NetworkRun(plan, protocol, dataset, out / RECORDS, watch, notify, checkpoint_seconds)
        run.deadline = None if max_seconds is None else start + max_seconds
        with only_process(run.path):
            run.train(cohort, again=True)
            done = run.checkpoint.done
            final = protocol.final_tasks(plan, done, 0, 0)
            results = [done[task.name] for task in final]
            model, card = _ensemble(final, results, dataset, plan)
            found = _trials(protocol, plan, done)
            test = _test_metrics(results, card)
            save(model, card)
            tuned = Tuned(TrainedModel(model, card), found, test, time.monotonic() - start)
            write_trials(out, tuned)
            run.finish()
    return tuned


def _checked(name: str, value: int, low: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= 10_000:
        raise SettingError(f"expected {name} to be an integer from {low} to 10000, got {value!r}")
    return value


def _ensemble(
    tasks: Sequence[Task], results: Sequence[Trained], dataset: GraphDataset, plan: Plan
) -> tuple[Model, ModelCard]:
    """The members with the same architecture side by side, and their card."""
    groups: dict[Any, list[int]] = {}
    for number, task in enumerate(tasks):
        groups.setdefault(task.method.architecture, []).append(number)
    parts = tuple(
        Part(architecture, tasks[numbers[0]].method.training, (1.0,) * len(numbers))
        for architecture, numbers in groups.items()
    )
    mean: tuple[float, ...] = ()
    sd: tuple[float, ...] = ()
    if dataset.regression:
        mean, sd = (tuple(v.tolist()) for v in target_scale(dataset, plan.folds[0][0]))
    card = ModelCard(
        parts=parts,
        num_features=dataset.num_features,
        largest=dataset.largest,
        class_names=dataset.class_names,
        dataset=dataset.name,
        method=plan.method.name,
        feature_map=dataset.feature_map,
        directed=dataset.directed,
        target_mean=mean,
        target_sd=sd,
    )
    model = card.build()
    whole: list[Any] = list(model) if isinstance(model, nn.ModuleList) else [model]
    for part, numbers in zip(whole, groups.values(), strict=True):
        assert isinstance(part, GraphClassifier)
        states = [results[number].state or {} for number in numbers]
        part.load_state_dict(
            {
                name: torch.stack([torch.from_numpy(state[name]) for state in states])
                for name in states[0]
            }
        )
    return model.to(dataset.x.device, dataset.x.dtype), card


def _test_metrics(results: Sequence[Trained], card: ModelCard) -> dict[str, Any]:
    held_out = [result.held_out for result in results if result.held_out is not None]
    outputs = mean_outputs(np.stack([own.outputs for own in held_out]))
    if card.regression:
        return regression_metrics(held_out[0].y, outputs)
    classes = {"classes": list(card.class_names)}
    return classes | classification_metrics(held_out[0].y, outputs)


def _trials(protocol: Nested, plan: Plan, done: dict[str, Trained]) -> tuple[Trial, ...]:
    """The trials, the best one first."""
    tried = protocol.trial_results(plan, done, 0, 0)
    chosen = Counter(protocol.chosen(plan, done, 0, 0))
    order = sorted(range(len(tried)), key=lambda number: rank(tried[number]))
    return tuple(
        _trial(number, protocol.points[number], tried[number], chosen[number]) for number in order
    )


def _trial(number: int, point: Point, results: Sequence[Trained], members: int) -> Trial:
    failed = any(result.failed for result in results)
    accuracy = fmean(result.validation_accuracy for result in results)
    return Trial(
        number=number,
        settings=point,
        validation_loss=None if failed else fmean(r.validation_loss for r in results),
        validation_accuracy=None if failed or math.isnan(accuracy) else accuracy,
        epochs=max(len(result.curve) for result in results),
        seconds=sum(result.seconds for result in results),
        members=members,
    )


def write_trials(out: Path, tuned: Tuned) -> None:
    """Write trials.csv (a line for each trial, the best one first) and tuning.json (the test metrics)."""
    names = list(tuned.trials[0].settings)
    text = io.StringIO()
    writer = csv.writer(text)
    columns = ("members", "validation_loss", "validation_accuracy", "epochs", "seconds")
    writer.writerow(["trial", *columns, *names])
    for trial in tuned.trials:
        values = [getattr(trial, name) for name in columns]
        shown = [f"{v:.6g}" if isinstance(v, float) else v for v in values]
        settings = [METHOD_SETTINGS[name].show(trial.settings[name]) for name in names]
        writer.writerow([trial.number, *shown, *settings])
    facts = {
        "members": tuned.model.card.members,
        "trials": len(tuned.trials),
        "test": tuned.test,
        "seconds": round(tuned.seconds, 3),
        "best_settings": tuned.best_settings,
    }
    contents = {"trials.csv": text.getvalue(), "tuning.json": json.dumps(facts, indent=2) + "\n"}
    for name, content in contents.items():
        with atomic_write(out / name) as temporary:
            temporary.write_text(content, encoding="utf-8", newline="")
