"""A method evaluated on a data set by a protocol; killed at any moment, the same call goes on where it was."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from diffpool.data import Fold, GraphDataset, read_folds, stratified_folds
from diffpool.errors import SettingError
from diffpool.experiments.checkpoint import only_process
from diffpool.experiments.evaluation import Evaluation
from diffpool.experiments.methods import Method, settings_for
from diffpool.experiments.protocols import FOLDS, Protocol, choose_protocol
from diffpool.experiments.records import append_records
from diffpool.experiments.resumable import Notify, ResumableRun, Watch
from diffpool.experiments.tasks import STAGES, Plan, derived_seed


def evaluate(
    method: Method | str,
    dataset: GraphDataset,
    protocol: Protocol | str = "tenfold",
    *,
    out: str | Path,
    repeats: int = 1,
    seed: int = 0,
    folds: str | Path | Sequence[Fold] | None = None,
    cohort: int | None = None,
    watch: Watch = lambda status: None,
    notify: Notify = warnings.warn,
    checkpoint_seconds: float = 5.0,
) -> Evaluation:
    """The accuracy of a method on every fold, each recorded in the file `out` when it is finished.

    `folds`: a file of published folds, or folds; else they are made from the seed, others for each repeat. `cohort`: at
    most so many models side by side, by default as many as suit the device. What is recorded is not trained again.
    `watch` gets the status after every epoch, `notify` a line for people if memory does not suffice for a cohort.
    """
    method = settings_for(method, dataset.name) if isinstance(method, str) else method
    protocol = choose_protocol(protocol) if isinstance(protocol, str) else protocol
    for name, value, least in (("repeats", repeats, 1), ("cohort", cohort, 1), ("seed", seed, 0)):
        if value is not None and value < least:
            raise SettingError(f"expected {name} of at least {least}, got {value}")
    plan = make_plan(method, dataset, repeats, seed, folds)
    run = ResumableRun(plan, protocol, dataset, Path(out), watch, notify, checkpoint_seconds)
    append_records(out, [])  # find out now, not after the training, if nothing can be written there
    if not run.complete:
        with only_process(run.path):
            run.train(cohort)
    return Evaluation.of(run.key, plan, protocol, dataset, run.records)


def make_plan(
    method: Method,
    dataset: GraphDataset,
    repeats: int = 1,
    seed: int = 0,
    folds: str | Path | Sequence[Fold] | None = None,
) -> Plan:
    """The folds of every repeat: those given, or stratified ones from the seed."""
    if dataset.regression:
        raise SettingError(
            f"expected classes for a protocol of accuracies, got targets in {dataset.name}: "
            "`diffpool train` reports the error of a regression"
        )
    y = dataset.y.cpu().numpy()
    if isinstance(folds, str | Path):
        folds = read_folds(folds, len(dataset), FOLDS)
    if folds is None:
        made = [
            stratified_folds(y, derived_seed(seed, STAGES.index("folds"), r), FOLDS)
            for r in range(repeats)
        ]
    else:
        made = [list(folds)] * repeats
    return Plan(method, seed, y, tuple(tuple(own) for own in made))
