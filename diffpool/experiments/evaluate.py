"""A method evaluated on a data set by a protocol; killed at any moment, the same call goes on where it was."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from diffpool.baselines.prepare import Watch as Preparing
from diffpool.data import Fold, GraphDataset, RawGraphs, read_folds, stratified_folds
from diffpool.errors import DataError, SettingError
from diffpool.experiments.checkpoint import checkpoint_path, only_process, remove_leftovers
from diffpool.experiments.evaluation import Evaluation
from diffpool.experiments.kernel_status import KernelWatch, MakeGrams
from diffpool.experiments.methods import KernelMethod, Method, kernel_method, settings_for
from diffpool.experiments.prepared import check_grid, prepared
from diffpool.experiments.protocols import (
    FOLDS,
    InnerCV,
    Protocol,
    choose_kernel_protocol,
    choose_protocol,
)
from diffpool.experiments.recorded import RunRecords
from diffpool.experiments.records import append_records
from diffpool.experiments.resumable import Notify, ResumableRun, Watch
from diffpool.experiments.tasks import STAGES, Plan, derived_seed
from diffpool.experiments.threads import cores

GivenFolds = str | Path | Sequence[Fold] | None


def evaluate(
    method: Method | str,
    dataset: GraphDataset,
    protocol: Protocol | str = "tenfold",
    *,
    out: str | Path,
    repeats: int = 1,
    seed: int = 0,
    folds: GivenFolds = None,
    cohort: int | None = None,
    watch: Watch = lambda status: None,
    notify: Notify = warnings.warn,
    checkpoint_seconds: float = 5.0,
    preparing: Preparing = lambda share: None,
) -> Evaluation:
    """The accuracy of a neural method on every fold, each recorded in the file `out` when it is finished.

    `folds`: a file of published folds, or folds; else they are made from the seed, others for each repeat. `cohort`: at
    most so many models side by side, by default as many as suit the device. What is recorded is not trained again.
    `watch` gets the status after every epoch, `notify` a line for people if memory does not suffice for a cohort,
    `preparing` the share of what is computed before any training, for methods that want something of the graphs.
    """
    method = settings_for(method, dataset.name) if isinstance(method, str) else method
    protocol = choose_protocol(protocol) if isinstance(protocol, str) else protocol
    _check(repeats=repeats, cohort=cohort, seed=seed)
    method, dataset = prepared(method, dataset, preparing)
    check_grid(method, dataset, protocol)
    plan = make_plan(method, dataset, repeats, seed, folds)
    run = ResumableRun(plan, protocol, dataset, Path(out), watch, notify, checkpoint_seconds)
    append_records(out, [])  # find out now, not after the training, if nothing can be written there
    if run.records.complete:
        remove_leftovers(run.path)
    else:
        with only_process(run.path):
            run.train(cohort)
    return _evaluation(run.records)


def evaluate_kernel(
    method: KernelMethod | str,
    raw: RawGraphs,
    protocol: InnerCV | str = "inner-cv",
    *,
    out: str | Path,
    repeats: int = 1,
    seed: int = 0,
    folds: GivenFolds = None,
    jobs: int | None = None,
    watch: KernelWatch = lambda status: None,
    make_grams: MakeGrams | None = None,
) -> Evaluation:
    """The accuracy of a kernel with an SVM on every fold, recorded as by `evaluate`.

    `jobs`: fits at a time, by default as many as there are cores; the records do not depend on it. Each has its own
    block of a Gram matrix in memory. `make_grams` computes the Gram matrices, by default `gram_matrices`.
    """
    from diffpool.experiments.kernel_run import KernelRun  # with scikit-learn, which takes a second

    method = kernel_method(method) if isinstance(method, str) else method
    protocol = choose_kernel_protocol(protocol) if isinstance(protocol, str) else protocol
    _check(repeats=repeats, jobs=jobs, seed=seed)
    if raw.classes is None:
        _refuse_targets(raw.name, raw.targets is not None)
        raise DataError(f"expected a class for every graph of {raw.name}, got none: add them")
    made = make_folds(raw.classes.codes[:, 0], repeats, seed, folds)
    run = KernelRun(method, protocol, raw.undirected(), made, seed, Path(out), watch)
    append_records(out, [])
    path = checkpoint_path(out, run.records.heading.key)
    if run.records.complete:
        remove_leftovers(path)
    else:
        with only_process(path):
            run.run(jobs or cores(), make_grams)
    return _evaluation(run.records)


def make_plan(
    method: Method,
    dataset: GraphDataset,
    repeats: int = 1,
    seed: int = 0,
    folds: GivenFolds = None,
) -> Plan:
    """What is evaluated: the method, and the folds of every repeat."""
    _refuse_targets(dataset.name, dataset.regression)
    y = dataset.y.cpu().numpy()
    return Plan(method, seed, y, make_folds(y, repeats, seed, folds))


def make_folds(
    y: np.ndarray, repeats: int, seed: int, folds: GivenFolds
) -> tuple[tuple[Fold, ...], ...]:
    """The folds of every repeat: those given, or stratified ones from the seed."""
    if isinstance(folds, str | Path):
        folds = read_folds(folds, len(y), FOLDS)
    if folds is not None:
        return (tuple(folds),) * repeats
    seeds = [derived_seed(seed, STAGES.index("folds"), repeat) for repeat in range(repeats)]
    return tuple(tuple(stratified_folds(y, own, FOLDS)) for own in seeds)


def _refuse_targets(name: str, regression: bool) -> None:
    if regression:
        raise SettingError(
            f"expected classes for a protocol of accuracies, got targets in {name}: "
            "`diffpool train` reports the error of a regression"
        )


def _check(seed: int, **counts: int | None) -> None:
    for name, value, least in (*((n, v, 1) for n, v in counts.items()), ("seed", seed, 0)):
        if value is not None and value < least:
            raise SettingError(f"expected {name} of at least {least}, got {value}")


def _evaluation(records: RunRecords) -> Evaluation:
    return Evaluation.from_records(records.heading, records.places, records.found)
