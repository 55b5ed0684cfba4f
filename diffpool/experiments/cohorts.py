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
from diffpool.experiments.plan import Results, Task, Tested, Trained
from diffpool.nn import GraphClassifier
from diffpool.training import (
    Cohort,
    fit_inputs,
    outputs_of,
    regression_metrics,
    score_cohort,
    target_scale,
)
from diffpool.training.metrics import class_scores

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
    """The first tasks that are not done, all of the same architecture. Their choice depends on nothing else.

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
    return Cohort(model, dataset, folds, configs, scale_targets=True, may_fail=may_fail)


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
    """What is kept of each model of a finished cohort. Models with test graphs are tested in their best epoch."""
    cohort.restore_best()
    scores = score_cohort(cohort.model, cohort.batches, [task.split.test for task in tasks])
    tested = _test_outputs(tasks, cohort)
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
            test_metrics=_metrics(tested[m], cohort.dataset),
            failed=failed,
            tested=tested[m] if task.keep_outputs else None,
        )
    return trained


def _metrics(tested: Tested | None, dataset: GraphDataset) -> dict[str, Any] | None:
    """The metrics on the test graphs: for regression in the units of the targets."""
    if tested is None:
        return None
    if dataset.regression:
        return regression_metrics(tested.y, tested.outputs)
    # equal graphs tie for ROC AUC: in double precision, rounding must not decide between them
    return class_scores(tested.y, tested.outputs.astype(np.float32))


def _test_outputs(tasks: Sequence[Task], cohort: Cohort) -> list[Tested | None]:
    """The outputs of each model for its test graphs; None without test graphs."""
    dataset, parts = cohort.dataset, [task.split.test for task in tasks]
    if not any(map(len, parts)):
        return [None] * len(tasks)
    found: list[Tested | None] = []
    outputs_of_tasks = outputs_of(cohort.model, cohort.batches, parts)
    for task, outputs in zip(tasks, outputs_of_tasks, strict=True):
        if not len(task.split.test):
            found.append(None)
            continue
        graphs = torch.as_tensor(task.split.test, device=dataset.y.device)
        y = dataset.y[graphs].cpu().numpy()
        if dataset.regression:
            mean, sd = (part.cpu().numpy() for part in target_scale(dataset, task.split))
            found.append(Tested(y, outputs * sd + mean))
        else:
            found.append(Tested(y, torch.from_numpy(outputs).softmax(-1).numpy()))
    return found


def graphs_seen(cohort: Cohort) -> list[int]:
    """The number of training graphs that each model has seen, summed over epochs."""
    return [len(f.train) * len(c) for f, c in zip(cohort.folds, cohort.curves, strict=True)]
