"""Cohorts of tasks: which models to train side by side, their initial parameters, and their results."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from typing import Any

import numpy as np
import torch

from diffpool.architecture import Architecture
from diffpool.builder import build
from diffpool.data import Fold, GraphDataset
from diffpool.errors import TrainingError
from diffpool.experiments.plan import HeldOut, Task, Trained
from diffpool.nn import GraphClassifier
from diffpool.training import (
    Cohort,
    check_outputs,
    fit_inputs,
    outputs_of,
    regression_metrics,
    target_scale,
)
from diffpool.training.metrics import class_scores

# Rows (nodes) of a batch that keep the device busy. More do not train faster on a CPU, where they exceed the caches; on
# a GPU each takes about 20 kB.
ROWS = {"cpu": 16_000, "cuda": 400_000}
MAX_MODELS = 500


def default_size(
    architecture: Architecture, dataset: GraphDataset, batch_size: int, device: str
) -> int:
    """The number of models to train side by side: as many as keep the device busy, fewer if they are wide."""
    rows = batch_size * dataset.num_nodes / max(len(dataset), 1)
    width = max(architecture.hidden / 64, 1 / 4)
    budget = ROWS.get(device, ROWS["cuda"])
    return min(max(int(budget / max(rows * width, 1)), 1), MAX_MODELS)


def next_tasks(
    tasks: Sequence[Task],
    done: Container[str],
    size: int | None,
    dataset: GraphDataset,
    max_models: int | None = None,
    device: str = "cpu",
    parts: int = 1,
) -> list[Task]:
    """The first tasks that are not done, all of the same architecture. The choice depends on nothing else.

    `size` tasks, by default as many as suit this type of device, but fewer if they would not make `parts` cohorts; at
    most `max_models`.
    """
    open_tasks = [task for task in tasks if task.name not in done]
    if not open_tasks:
        return []
    first = open_tasks[0].method
    if size is None:
        size = default_size(first.architecture, dataset, first.training.batch_size, device)
        size = min(size, -(-len(open_tasks) // parts))
    alike = [t for t in open_tasks if t.method.architecture == first.architecture]
    return alike[: size if max_models is None else min(size, max_models)]


def make_cohort(tasks: Sequence[Task], dataset: GraphDataset) -> Cohort:
    """The cohort of these tasks, before its first epoch."""
    folds = [task.split for task in tasks]
    configs = [task.method.training for task in tasks]
    seeds = [config.seed for config in configs]
    model = initial_models(tasks[0].method.architecture, seeds, dataset, folds)
    may_fail = all(task.may_fail for task in tasks)
    targets = [task.target_fold or task.split for task in tasks]
    return Cohort(model, dataset, folds, configs, target_folds=targets, may_fail=may_fail)


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
    model = model.to(device=dataset.device, dtype=dataset.dtype)
    for index, fold in enumerate(folds):
        fit_inputs(model, dataset, fold.train, index)
    return model


def results(tasks: Sequence[Task], cohort: Cohort) -> dict[str, Trained]:
    """The results of each model of a finished cohort. Models with test graphs are tested with their best parameters.

    An output that is not finite is a TrainingError; if the task may fail, it has failed.
    """
    cohort.restore_best()
    parts = [_held_out_graphs(task) for task in tasks]
    outputs = outputs_of(cohort.model, cohort.batches, parts)
    held_out = [_held_out(m, task, outputs[m], cohort) for m, task in enumerate(tasks)]
    regression = cohort.dataset.regression
    parameters = sum(p[0].numel() for p in cohort.model.parameters())
    seen = graphs_seen(cohort)
    trained = {}
    for m, (task, curve) in enumerate(zip(tasks, cohort.curves, strict=True)):
        test = held_out[m] if len(task.split.test) else None
        failed = m in cohort.failed
        epoch = int(cohort.best_epoch[m])
        loss, accuracy = curve[epoch - 1] if not failed else (math.inf, 0.0)
        trained[task.name] = Trained(
            epoch=epoch,
            validation_loss=loss,
            validation_accuracy=accuracy,
            curve=tuple(a for _, a in curve),
            test_accuracy=_accuracy(test.y, outputs[m]) if test and not regression else None,
            parameters=parameters,
            graphs=seen[m],
            seconds=cohort.seconds * seen[m] / max(sum(seen), 1),
            test_metrics=_metrics(test, cohort.dataset),
            failed=failed,
            stopped=m in cohort.stopped,
            held_out=held_out[m] if task.keep_outputs else None,
            state=_state(cohort, m) if task.keep_model else None,
        )
    return trained


def _state(cohort: Cohort, m: int) -> dict[str, np.ndarray]:
    """The parameters and statistics of one model, without the axis of the models."""
    return {name: t[m].cpu().numpy() for name, t in cohort.model.state_dict().items()}


def _metrics(test: HeldOut | None, dataset: GraphDataset) -> dict[str, Any] | None:
    """The metrics on the test graphs: for regression in the units of the targets."""
    if test is None:
        return None
    if dataset.regression:
        return regression_metrics(test.y, test.outputs)
    # equal graphs tie for ROC AUC: in double precision, rounding must not decide between them
    return class_scores(test.y, test.outputs.astype(np.float32))


def _held_out_graphs(task: Task) -> np.ndarray:
    """The graphs whose outputs are kept or scored: test graphs or, if there are none, validation graphs."""
    if len(task.split.test):
        return task.split.test
    return task.split.validation if task.keep_outputs else task.split.test


def _held_out(model: int, task: Task, outputs: np.ndarray, cohort: Cohort) -> HeldOut | None:
    """The outputs of a model for these graphs; None without graphs, or if it has failed."""
    dataset, graphs = cohort.dataset, _held_out_graphs(task)
    if model in cohort.failed or not len(graphs):
        return None
    try:
        check_outputs(outputs, graphs, dataset.name)
    except TrainingError as error:
        if not task.may_fail:
            raise TrainingError(f"{task.name}: {error}", model) from error
        cohort.failed.add(model)
        return None
    y = dataset.y[torch.as_tensor(graphs, device=dataset.y.device)].cpu().numpy()
    if dataset.regression:
        fold = task.target_fold or task.split
        mean, sd = (part.cpu().numpy() for part in target_scale(dataset, fold))
        return HeldOut(y, outputs * sd + mean)
    return HeldOut(y, torch.from_numpy(outputs).softmax(-1).numpy())


def _accuracy(y: np.ndarray, outputs: np.ndarray) -> float:
    return float((outputs.argmax(1) == y).mean())


def graphs_seen(cohort: Cohort) -> list[int]:
    """The number of training graphs that each model has seen, summed over epochs."""
    return [len(f.train) * len(c) for f, c in zip(cohort.folds, cohort.curves, strict=True)]
