"""Tuning: try settings on validation graphs, and average the models of a greedy selection."""

from __future__ import annotations

import csv
import io
import math
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from diffpool.data import GraphDataset, single_split
from diffpool.errors import SettingError
from diffpool.experiments.checkpoint import checkpoint_path, only_process
from diffpool.experiments.executors import Executor, Local
from diffpool.experiments.grid import Grid
from diffpool.experiments.methods import METHOD_SETTINGS, Method, settings_for, with_settings
from diffpool.experiments.network_run import NetworkRun
from diffpool.experiments.plan import Plan, Results, Task, Trained, check_points, prepared
from diffpool.experiments.protocols import Nested
from diffpool.experiments.selection import MAX_POINTS, TRIALS, Point, rank, space_for
from diffpool.experiments.status import Notify, Watch
from diffpool.files import atomic_write, write_json
from diffpool.nn import GraphClassifier
from diffpool.training import (
    CohortBatches,
    ModelCard,
    TrainedModel,
    check_outputs,
    classification_metrics,
    outputs_of,
    regression_metrics,
    reserve_directory,
    target_scale,
)
from diffpool.training.ensemble import mean_outputs
from diffpool.training.model_directory import Model, Part

MEMBERS = 10
MAX_TRIALS = 1000  # if only the time limits them
MAX_MEMBERS = 1000
RECORDS = "record.jsonl"  # in the model directory: what `diffpool evaluate` would record


@dataclass(frozen=True)
class Trial:
    """One of the settings that were tried."""

    number: int
    settings: Point
    validation_loss: float | None  # None: the loss became infinite or NaN
    validation_accuracy: float | None  # 0 to 1; None for regression
    epochs: int
    seconds: float
    members: int  # of the ensemble that have these settings
    stopped: bool = False  # early, because it was in the worse half or the time was over


@dataclass(frozen=True, eq=False)
class Tuned:
    """The result of tuning: an ensemble, and the trials, the best one first."""

    model: TrainedModel
    trials: tuple[Trial, ...]
    test: dict[str, Any]  # metrics of the ensemble on the test graphs
    seconds: float
    refit: str = "train"  # with "all", `test` is for the models of the trials, not for `model`

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
    trials: int | None = None,
    points: str = "spread",
    ensemble: int = MEMBERS,
    inner_folds: int = 1,
    refit: str = "train",
    max_seconds: float | None = None,
    seed: int = 0,
    cohort: int | None = None,
    overwrite: bool = False,
    watch: Watch = lambda status: None,
    notify: Notify = warnings.warn,
    checkpoint_seconds: float = 5.0,
    executor: Executor | None = None,
) -> Tuned:
    """Choose settings for a data set, train an ensemble with them, and write its model directory to `out`.

    A tenth of the graphs is kept as a test set. `trials` points of the search space are trained on the rest, with a
    part of the graphs for validation; among points of the same architecture, the worse half is stopped several times
    (successive halving). A greedy selection with replacement (Caruana et al., 2004) on the validation graphs chooses
    the settings of each member. Every member is trained with its own seed and its own validation graphs. After an
    interruption, the same call continues where it stopped.

    - `space`: names of settings and the values to try (`make_grid`), by default `space_for(method)`.
    - `trials`: number of points, by default 24, or as many as `max_seconds` allows.
    - `points`: how points are drawn from the space: "spread" (evenly), "random", or "grid", which tries all of them.
    - `inner_folds`: validate by cross-validation with this many folds; 1 for a single validation part.
    - `refit`: what the members are trained on: "train" (all graphs except the test graphs), "all" (all graphs; the test
      scores are then those of the models of the trials), or "none" (the models of the trials are the members).
    - `max_seconds`: stop trying settings after this time; training the members takes additional time. The result then
      depends on the speed of the machine.
    - `cohort`: maximum number of models trained side by side; by default as many as suit the device.
    - `executor`: trains the cohorts, by default one after the other; see `evaluate`.
    """
    start = time.monotonic()
    method = settings_for(method, dataset.name) if isinstance(method, str) else method
    check_counts(ensemble, cohort)
    method = with_settings(method, {"ensemble": ensemble, "seed": seed})
    protocol = search_protocol(method, space, trials, points, inner_folds, refit, max_seconds, seed)
    out = Path(out)
    method, dataset = prepared(method, dataset)
    check_points(method, dataset, protocol.points)
    y = dataset.y.cpu().numpy()
    fold = single_split(y, seed)
    if inner_folds > (rest := len(dataset) - len(fold.test)):
        raise SettingError(
            f"expected at most {rest} inner folds, one for each graph outside the test part, got {inner_folds}"
        )
    labels = np.zeros(len(dataset), np.int64) if dataset.regression else y
    plan = Plan(method, seed, labels, ((fold,),), keep_models=True, same_targets=True)
    executor, path = executor or Local(dataset.device), out / RECORDS
    run = NetworkRun(plan, protocol, dataset, path, executor, watch, notify, checkpoint_seconds)
    run.search_seconds = max_seconds
    # a process that was killed after it had saved the model has left its checkpoint
    with reserve_directory(out, overwrite or run.path.exists()) as save, only_process(run.path):
        run.train(cohort, again=True)
        done = run.checkpoint.done
        selected = protocol.chosen_trials(plan, done, 0, 0)
        members = [(task, 1.0) for task in protocol.final_tasks(plan, done, 0, 0)] or selected
        model, card = _ensemble(members, done, dataset, plan)
        tested = (model, card)
        if refit == "all":
            tested = _ensemble(selected, done, dataset, plan)
        test = _test_metrics(*tested, dataset, fold.test)
        found = _trials(protocol, plan, done)
        seconds = time.monotonic() - start
        tuned = Tuned(TrainedModel(model, card), found, test, seconds, refit)
        write_trials(out, tuned)
        save(model, card)
        run.finish()
    return tuned


def search_protocol(
    method: Method,
    space: Grid | None = None,
    trials: int | None = None,
    points: str = "spread",
    inner_folds: int = 1,
    refit: str = "train",
    max_seconds: float | None = None,
    seed: int = 0,
) -> Nested:
    """The search of `tune` with these arguments, after checking them."""
    if max_seconds is not None and not (_is_number(max_seconds) and max_seconds > 0):
        raise SettingError(
            f"expected the time for trying settings to be a number of seconds above 0, got {max_seconds!r}"
        )
    if points == "grid" and trials is not None:
        raise SettingError(
            f"expected all points of the grid or {trials} trials, got both: leave out trials, or draw the points "
            "spread or at random"
        )
    if trials is None and points != "grid":
        trials = TRIALS if max_seconds is None else MAX_TRIALS
    return Nested(
        grid=space_for(method) if space is None else space,
        trials=trials,
        inner_folds=inner_folds,
        halving=True,
        sampler=points,
        sampler_seed=seed if points == "random" else 0,
        refit=refit,
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def interrupted(out: Path) -> bool:
    """Whether a search in this folder can be continued."""
    return any(checkpoint_path(out / RECORDS, "*").parent.glob("*.safetensors"))


def check_counts(ensemble: int, cohort: int | None = None) -> None:
    """Raise an error if a number is out of range."""
    for name, value, low, high in (
        ("ensemble", ensemble, 1, MAX_MEMBERS),
        ("cohort", cohort, 1, MAX_POINTS),
    ):
        if value is not None and not (type(value) is int and low <= value <= high):
            raise SettingError(
                f"expected {name} to be an integer from {low} to {high}, got {value!r}"
            )


def _ensemble(
    members: Sequence[tuple[Task, float]], done: Results, dataset: GraphDataset, plan: Plan
) -> tuple[Model, ModelCard]:
    """The weighted ensemble of these models, with models of the same architecture side by side, and its card."""
    groups: dict[Any, list[int]] = {}
    for number, (task, _) in enumerate(members):
        groups.setdefault(task.method.architecture, []).append(number)
    parts = tuple(
        Part(
            architecture,
            members[numbers[0]][0].method.training,
            tuple(members[number][1] for number in numbers),
        )
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
    for part, numbers in zip(_parts(model), groups.values(), strict=True):
        states = [done[members[number][0].name].state or {} for number in numbers]
        part.load_state_dict(
            {
                name: torch.stack([torch.from_numpy(state[name]) for state in states])
                for name in states[0]
            }
        )
    return model.to(dataset.device, dataset.dtype), card


def _parts(model: Model) -> list[GraphClassifier]:
    return (
        [cast(GraphClassifier, m) for m in model] if isinstance(model, nn.ModuleList) else [model]
    )


def _test_metrics(
    model: Model, card: ModelCard, dataset: GraphDataset, graphs: np.ndarray
) -> dict[str, Any]:
    """The metrics of an ensemble on these graphs."""
    weights = [weight for part in card.parts for weight in part.weights]
    outputs: list[np.ndarray] = []
    for part, about in zip(_parts(model), card.parts, strict=True):
        batches = CohortBatches(dataset, part.clusters)
        outputs += outputs_of(part, batches, [graphs] * len(about.weights))
    for member_outputs in outputs:
        check_outputs(member_outputs, graphs, dataset.name)
    y = dataset.y[torch.as_tensor(graphs, device=dataset.y.device)].cpu().numpy()
    if card.regression:
        scaled = mean_outputs(np.stack(outputs), weights)
        return regression_metrics(y, scaled * np.array(card.target_sd) + np.array(card.target_mean))
    probabilities = torch.from_numpy(np.stack(outputs)).softmax(-1).numpy()
    classes = {"classes": list(card.class_names)}
    return classes | classification_metrics(y, mean_outputs(probabilities, weights))


def _trials(protocol: Nested, plan: Plan, done: dict[str, Trained]) -> tuple[Trial, ...]:
    """The trials that were trained, the best one first."""
    tried = protocol.trial_results(plan, done, 0, 0)
    chosen = Counter(protocol.chosen(plan, done, 0, 0))
    started = [
        n for n, results in enumerate(tried) if not any(result.skipped for result in results)
    ]
    order = sorted(started, key=lambda number: rank(tried[number]))
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
        stopped=any(result.stopped for result in results),
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
        "refit": tuned.refit,
        "test": tuned.test,
        "seconds": round(tuned.seconds, 3),
        "best_settings": tuned.best_settings,
    }
    with atomic_write(out / "trials.csv") as temporary:
        temporary.write_text(text.getvalue(), encoding="utf-8", newline="")
    write_json(out / "tuning.json", facts)
