"""Cohorts of tasks: which models to train side by side, their initial parameters, and their results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from diffpool.architecture import Architecture
from diffpool.builder import build
from diffpool.data import Fold, GraphDataset
from diffpool.experiments.plan import HeldOut, Results, Task, Trained
from diffpool.nn import GraphClassifier
from diffpool.training import (
    Cohort,
    fit_inputs,
    outputs_of,
    regression_metrics,
    score_cohort,
    target_scale,
)

# Rows (nodes) of a batch that keep the device busy. More do not train faster on a CPU, where they exceed the caches; on
# a GPU each takes about 20 kB.
ROWS = {"cpu": 16_000, "cuda": 400_000}
MAX_MODELS = 500


def default_size(architecture: Architecture, dataset: GraphDataset, batch_size: int) -> int:
    """The number of models to train side by side: as many as keep the device busy, fewer if they are wide."""
    rows = batch_size * dataset.graphs.num_nodes / max(len(dataset), 1)
    width = max(architecture.hidden / 64, 1 / 4)
    budget = ROWS.get(dataset.x.device.type, ROWS["cuda"])
    return min(max(int(budget / max(rows * width, 1)), 1), MAX_MODELS)


def next_tasks(
    tasks: Sequence[Task],
    done: Results,
    size: int | None,
    dataset: GraphDataset,
    max_models: int | None = None,
) -> list[Task]:
    """The first tasks that are not done, all of the same architecture. The choice depends on nothing else.

    `size` tasks, by default as many as suit the device, but at most `max_models`.
    """
    open_tasks = [task for task in tasks if task.name not in done]
    if not open_tasks:
        return []
    first = open_tasks[0].method
    if size is None:
        size = default_size(first.architecture, dataset, first.training.batch_size)
    alike = [t for t in open_tasks if t.method.architecture == first.architecture]
    return alike[: size if max_models is None else min(size, max_models)]


def make_cohort(tasks: Sequence[Task], dataset: GraphDataset) -> Cohort:
    """The cohort of these tasks, before its first epoch."""
    folds = [task.split for task in tasks]
    configs = [task.method.training for task in tasks]
    seeds = [config.seed for config in configs]
    model = initial_models(tasks[0].method.architecture, seeds, dataset, folds)
    may_fail = all(task.may_fail for task in tasks)
    scale = not tasks[0].standardized
    return Cohort(model, dataset, folds, configs, scale_targets=scale, may_fail=may_fail)


def initial_models(
    architecture: Architecture, seeds: Sequence[int], dataset: GraphDataset, folds: Sequence[Fold]
) -> GraphClassifier:
    """Untrained models side by side, each with the parameters of its seed and inputs scaled to its training graphs."""
    channels = 0 if dataset.feature_map is None else dataset.feature_map.num_edge_features

    def make(models: int) -> GraphClassifier:
        shape = (dataset.num_features, dataset.num_outputs, dataset.largest, models)
        return build(architecture, *shape, edge_features=channels)

    states = []
    with torch.random.fork_rng(devices=[]):
        for seed in seeds:
            torch.default_generator.manual_seed(seed)
            states.append(make(1).state_dict())
    with torch.device("meta"):
        model = make(len(seeds))
    model.load_state_dict(
        {name: torch.cat([s[name] for s in states]) for name in states[0]}, assign=True
    )
    model = model.to(device=dataset.x.device, dtype=dataset.x.dtype)
    for index, fold in enumerate(folds):
        fit_inputs(model, dataset, fold.train, index)
    return model


def results(tasks: Sequence[Task], cohort: Cohort) -> dict[str, Trained]:
    """The results of each model of a finished cohort. Models with test graphs are tested with their best parameters."""
    cohort.restore_best()
    scores = score_cohort(cohort.model, cohort.batches, [task.split.test for task in tasks])
    held_out = _held_out_outputs(tasks, cohort)
    parameters = sum(p[0].numel() for p in cohort.model.parameters())
    seen = graphs_seen(cohort)
    trained = {}
    for m, (task, curve) in enumerate(zip(tasks, cohort.curves, strict=True)):
        failed = m in cohort.failed
        epoch = int(cohort.best_epoch[m])
        loss, accuracy = curve[epoch - 1] if not failed else (math.inf, 0.0)
        trained[task.name] = Trained(
            epoch=epoch,
            validation_loss=loss,
            validation_accuracy=accuracy,
            curve=tuple(a for _, a in curve),
            test_accuracy=scores[m].accuracy if len(task.split.test) else None,
            parameters=parameters,
            graphs=seen[m],
            seconds=cohort.seconds * seen[m] / max(sum(seen), 1),
            test_metrics=_metrics(held_out[m], cohort.dataset) if len(task.split.test) else None,
            failed=failed,
            held_out=held_out[m] if task.keep_outputs and not failed else None,
            state=_state(cohort, m) if task.keep_model else None,
        )
    return trained


def _state(cohort: Cohort, m: int) -> dict[str, np.ndarray]:
    """The parameters and statistics of one model, without the axis of the models."""
    return {name: t[m].cpu().numpy() for name, t in cohort.model.state_dict().items()}


def _metrics(held_out: HeldOut | None, dataset: GraphDataset) -> dict[str, Any] | None:
    """Regression: the metrics on the test graphs, in the units of the targets."""
    if held_out is None or not dataset.regression:
        return None
    return regression_metrics(held_out.y, held_out.outputs)


def _held_out_outputs(tasks: Sequence[Task], cohort: Cohort) -> list[HeldOut | None]:
    """The outputs of each model for its test graphs or, if it has none, for its validation graphs.

    None where they are not needed: if the task does not keep them, except for regression with test graphs.
    """
    dataset = cohort.dataset
    parts = [t.split.test if len(t.split.test) else t.split.validation for t in tasks]
    needed = [t.keep_outputs or (dataset.regression and len(t.split.test) > 0) for t in tasks]
    if not any(needed):
        return [None] * len(tasks)
    found: list[HeldOut | None] = []
    outputs_of_tasks = outputs_of(cohort.model, cohort.batches, parts)
    for task, part, outputs, wanted in zip(tasks, parts, outputs_of_tasks, needed, strict=True):
        if not wanted:
            found.append(None)
            continue
        y = dataset.y[torch.as_tensor(part, device=dataset.y.device)].cpu().numpy()
        if dataset.regression and task.standardized:
            found.append(HeldOut(y, outputs))
        elif dataset.regression:
            mean, sd = (part.cpu().numpy() for part in target_scale(dataset, task.split))
            found.append(HeldOut(y, outputs * sd + mean))
        else:
            found.append(HeldOut(y, torch.from_numpy(outputs).softmax(-1).numpy()))
    return found


def graphs_seen(cohort: Cohort) -> list[int]:
    """The number of training graphs that each model has seen, summed over epochs."""
    return [len(f.train) * len(c) for f, c in zip(cohort.folds, cohort.curves, strict=True)]
