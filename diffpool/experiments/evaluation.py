"""Evaluate a method on a data set with a protocol. After an interruption, the same call continues where it stopped."""

from __future__ import annotations

import statistics
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffpool.baselines.prepare import Watch as WatchPreparation
from diffpool.data import GraphDataset, RawGraphs
from diffpool.errors import DataError, SettingError, TrainingError
from diffpool.experiments.checkpoint import checkpoint_path, only_process, remove_leftovers
from diffpool.experiments.executors import Executor, Local
from diffpool.experiments.methods import (
    METHOD_SETTINGS,
    KernelMethod,
    Method,
    kernel_method,
    settings_for,
)
from diffpool.experiments.network_run import NetworkRun
from diffpool.experiments.plan import (
    GivenFolds,
    check_points,
    make_folds,
    make_plan,
    prepared,
)
from diffpool.experiments.protocols import (
    InnerCV,
    Nested,
    Paper,
    Protocol,
    choose_kernel_protocol,
    choose_protocol,
)
from diffpool.experiments.records import (
    CLASS_SCORES,
    REGRESSION_METRICS,
    Record,
    RunRecords,
    append_records,
)
from diffpool.experiments.status import KernelWatch, Notify, Watch

if TYPE_CHECKING:
    from diffpool.experiments.svm_run import MakeGrams

MAX_COUNT = 10_000  # of repeats, models side by side, or jobs


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
    preparing: WatchPreparation = lambda share: None,
    executor: Executor | None = None,
) -> Evaluation:
    """Measure the accuracy of a neural network on every fold. Folds recorded in the file `out` are not trained again.

    - `repeats`: repeat the cross-validation this many times with new folds.
    - `folds`: a file with published folds, or the folds themselves; by default they are generated from the seed.
    - `cohort`: maximum number of models trained side by side; by default as many as suit the device.
    - `watch`: called with the status after every epoch.
    - `notify`: called with a message if there is not enough memory for a cohort.
    - `checkpoint_seconds`: minimum time between two checkpoints.
    - `preparing`: called with the share of precomputed structures that is finished, for methods that need them.
    - `executor`: trains the cohorts, by default one after the other. With `ProcessPerDevice` or `RayCluster`, the
      data set stays on the CPU.
    """
    method = settings_for(method, dataset.name) if isinstance(method, str) else method
    protocol = choose_protocol(protocol) if isinstance(protocol, str) else protocol
    _check(repeats=repeats, cohort=cohort, seed=seed)
    method, dataset = prepared(method, dataset, preparing)
    if isinstance(protocol, Nested):
        check_points(method, dataset, protocol.points)
        if protocol.refit != "train":
            raise SettingError(
                f"expected refit to be train, because the protocol nested tests the models, got {protocol.refit!r}"
            )
    if method.training.ensemble > 1 and isinstance(protocol, Paper):
        raise SettingError(
            "the protocol paper evaluates single models: use the protocol tenfold or nested for an ensemble"
        )
    if dataset.regression and isinstance(protocol, Paper):
        raise SettingError(
            f"the protocol paper needs classes, but {dataset.name} has targets: use the protocol tenfold or nested"
        )
    plan = make_plan(method, dataset, repeats, seed, folds)
    executor = executor or Local(dataset.device)
    run = NetworkRun(
        plan, protocol, dataset, Path(out), executor, watch, notify, checkpoint_seconds
    )
    append_records(out, [])  # fail now, not after the training, if the file cannot be written
    if run.records.complete:
        remove_leftovers(run.path)
    else:
        with only_process(run.path):
            run.train(cohort)
            run.finish()
    return Evaluation.from_records(run.records)


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
    """Measure the accuracy of a graph kernel with an SVM on every fold, recorded as by `evaluate`.

    - `jobs`: number of fits at a time, by default the number of cores. The records do not depend on it. Each fit copies
      its block of a Gram matrix.
    - `watch`: called with the status during the run.
    - `make_grams`: computes the Gram matrices, by default `gram_matrices`.
    """
    from diffpool.experiments.svm_run import SvmRun  # imports scikit-learn, which is slow

    method = kernel_method(method) if isinstance(method, str) else method
    protocol = choose_kernel_protocol(protocol) if isinstance(protocol, str) else protocol
    _check(repeats=repeats, jobs=jobs, seed=seed)
    if raw.classes is None:
        if raw.targets is not None:
            raise SettingError(
                f"kernels need classes, but {raw.name} has targets: use a neural network, such as diffpool"
            )
        raise DataError(f"{raw.name} has no classes: the evaluation needs the class of every graph")
    outer_folds = make_folds(raw.classes.codes[:, 0], repeats, seed, folds)
    run = SvmRun(method, protocol, raw.undirected(), outer_folds, seed, Path(out), watch)
    append_records(out, [])
    path = checkpoint_path(out, run.heading.key)  # no such file is written: it names the lock
    if run.records.complete:
        remove_leftovers(path)
    else:
        with only_process(path):
            run.run(jobs, make_grams)
    return Evaluation.from_records(run.records)


def _check(seed: int, **counts: int | None) -> None:
    METHOD_SETTINGS["seed"].check(seed)
    for name, value in counts.items():
        if value is not None and not 1 <= value <= MAX_COUNT:
            raise SettingError(f"expected {name} from 1 to {MAX_COUNT}, got {value}")


@dataclass(frozen=True)
class Evaluation:
    """The records of all folds of all repeats. Accuracies are in percent; means are over all folds.

    For regression there are no accuracies: `metrics` has the mean and sd of MAE, RMSE and R².
    """

    key: str
    method: str
    dataset: str
    protocol: str
    records: tuple[Record, ...]

    @classmethod
    def from_records(cls, run: RunRecords) -> Evaluation:
        """The result of a run; raises an error unless there is exactly one valid accuracy for every fold."""
        heading, folds = run.heading, run.folds
        found = sorted(run.found, key=lambda r: (r.repeat, r.fold))
        present = [(r.repeat, r.fold) for r in found]
        if present != folds:
            missing = sorted(set(folds) - set(present))
            got = f"none of {missing[:3]} (repeat, fold)" if missing else "some more than once"
            raise TrainingError(
                f"expected one record for each of {len(folds)} folds, got {got}: run the command again"
            )
        wrong = [r.fold for r in found if r.accuracy is not None and not 0 <= r.accuracy <= 100]
        if wrong:
            raise TrainingError(
                f"expected accuracies from 0 to 100 %, got other values in folds {wrong}: the file is damaged"
            )
        return cls(heading.key, heading.method, heading.dataset, heading.protocol, tuple(found))

    @property
    def accuracies(self) -> list[float]:
        """The accuracy of every fold, repeat by repeat."""
        return [record.accuracy for record in self.records if record.accuracy is not None]

    @property
    def regression(self) -> bool:
        return not self.accuracies

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """For regression: MAE, RMSE and R², each with its mean, sd and values per fold. R² may be undefined (None)."""
        names = REGRESSION_METRICS if self.regression else ()
        return {
            name: _summary([record.details["metrics"][name] for record in self.records])
            for name in names
        }

    @property
    def scores(self) -> dict[str, dict[str, Any]]:
        """Balanced accuracy, macro F1 and ROC AUC like `metrics`; empty if the records do not have them.

        Records of tenfold and nested have them, but not those of earlier versions. ROC AUC may be undefined (None).
        """
        if self.regression or not all("scores" in record.details for record in self.records):
            return {}
        return {
            name: _summary([record.details["scores"][name] for record in self.records])
            for name in CLASS_SCORES
        }

    @property
    def mean(self) -> float:
        return statistics.fmean(self.accuracies)

    @property
    def sd(self) -> float:
        """The standard deviation over the folds of all repeats, with n − 1."""
        return statistics.stdev(self.accuracies) if len(self.records) > 1 else 0.0

    @property
    def repeat_means(self) -> list[float]:
        """The mean accuracy of each repeat."""
        repeats = range(self.records[-1].repeat + 1)
        return [
            statistics.fmean(r.accuracy for r in records if r.accuracy is not None)
            for n in repeats
            if (records := [r for r in self.records if r.repeat == n and r.accuracy is not None])
        ]

    @property
    def sd_of_repeats(self) -> float | None:
        """The standard deviation of the means of the repeats, with n − 1; None for a single repeat."""
        means = self.repeat_means
        return statistics.stdev(means) if len(means) > 1 else None

    def to_json(self) -> dict[str, Any]:
        result: dict[str, Any] = {}
        if self.regression:
            result |= self.metrics
        else:
            result |= {"mean": self.mean, "sd": self.sd, "folds": self.accuracies}
            result["sd_of_repeats"] = self.sd_of_repeats
            result |= {"scores": self.scores} if self.scores else {}
        return {
            "method": self.method,
            "dataset": self.dataset,
            "protocol": self.protocol,
            **result,
            "repeats": self.records[-1].repeat + 1,
            "seed": self.records[0].seed,
            "seconds": sum(record.seconds for record in self.records),
            "key": self.key,
        }

    def __str__(self) -> str:
        title = f"{self.method} on {self.dataset}, protocol {self.protocol}: "
        if self.regression:
            names = {"mae": "MAE", "rmse": "RMSE", "r2": "R²"}
            shown = [
                f"{names[name]} {metric['mean']:.4g} ± {metric['sd']:.2g}"
                for name, metric in self.metrics.items()
                if metric["mean"] is not None
            ]
            return f"{title}{', '.join(shown)} (mean ± sd over {len(self.records)} folds)"
        spread = self.sd_of_repeats
        means = "" if spread is None else f"; ± {spread:.1f} over {len(self.repeat_means)} repeats"
        return f"{title}{self.mean:.1f} ± {self.sd:.1f} % (mean ± sd over {len(self.records)} folds{means})"

    @property
    def scores_text(self) -> str:
        """The scores on one line; empty without them."""
        names = {
            "balanced_accuracy": "balanced accuracy",
            "macro_f1": "macro F1",
            "roc_auc": "ROC AUC",
        }
        shown = []
        for name, metric in self.scores.items():
            if metric["mean"] is None:
                continue
            digits, unit = (1, " %") if name == "balanced_accuracy" else (3, "")
            shown.append(
                f"{names[name]} {metric['mean']:.{digits}f} ± {metric['sd']:.{digits}f}{unit}"
            )
        return ", ".join(shown)


def _summary(values: list[float | None]) -> dict[str, Any]:
    """Mean and sd over the folds where the value is defined, and the values of all folds."""
    known = [value for value in values if value is not None]
    return {
        "mean": statistics.fmean(known) if known else None,
        "sd": statistics.stdev(known) if len(known) > 1 else 0.0,
        "folds": values,
    }
