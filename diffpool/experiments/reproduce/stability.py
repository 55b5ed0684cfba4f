"""The paper's claim about stability: does the link loss reduce the spread over seeds?

"It is observed that adding the link prediction objective makes training more stable, and reduces the standard deviation
of accuracy across different runs" (the paper, on training); "training with the side objective takes longer to
converge, but nevertheless achieves better performance". Ten models with different seeds are trained on each of
three folds, with and without the link loss, and with and without pre-training on the link loss alone. Each model trains
to the last epoch and is tested with the parameters of the epoch with the lowest validation loss.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import sqrt
from pathlib import Path
from statistics import fmean, variance
from typing import TYPE_CHECKING, Any

from diffpool.experiments.methods import Method, settings_for
from diffpool.experiments.reproduce.found import WORK
from diffpool.experiments.reproduce.measurements import (
    ORIGIN,
    Report,
    append_line,
    origin,
    read_lines,
    where,
)
from diffpool.experiments.reproduce.render import PlainTable
from diffpool.experiments.reproduce.tables import changed_text

if TYPE_CHECKING:
    from diffpool.data import Fold, GraphDataset

SEEDS = 10
FOLDS = 3  # of the ten stratified folds with seed 0
SHARE = 0.95  # of the final training accuracy
LAST = 5  # epochs that make up the final training accuracy and loss
SIGNIFICANT = 0.05
EPOCHS = {"ENZYMES": (200, 20), "DD": (60, 10), "embedded": (40, 10)}  # and of pre-training
SHOWN = ("ENZYMES", "DD")
FIXED = ("link_weight", "patience")  # settings that the arms and the comparison fix
FIELDS = ("dataset", "arm", "fold", "accuracies", "losses", "epochs_to_share", *ORIGIN)


@dataclass(frozen=True)
class Arm:
    """A way to train."""

    name: str
    title: str
    link_weight: float
    pretrained: bool


ARMS = {
    arm.name: arm
    for arm in (
        Arm("plain", "without link loss", 0.0, False),
        Arm("link", "with link loss", 1.0, False),
        Arm("pretrained", "pre-trained, then without link loss", 0.0, True),
        Arm("pretrained-link", "pre-trained, then with link loss", 1.0, True),
    )
}


def stability_file(records: Path) -> Path:
    """Where the measurements are recorded."""
    return records / WORK / "stability.jsonl"


def declared(dataset: str, arm: Arm, changes: Mapping[str, Any] | None = None) -> Method:
    """DiffPool with the settings of this arm. `changes` to settings in FIXED have no effect."""
    epochs, _ = EPOCHS[dataset]
    values = {"epochs": epochs, **(changes or {}), "link_weight": arm.link_weight}
    return settings_for("diffpool", dataset, **{**values, "patience": values["epochs"]})


def _setup(dataset: str, arm: Arm, changes: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings that a measurement must have."""
    method = declared(dataset, arm, changes)
    settings = {**asdict(method.architecture), **asdict(method.training)}
    settings = {k: list(v) if isinstance(v, tuple) else v for k, v in settings.items()}
    pretraining = min(EPOCHS[dataset][1], settings["epochs"]) if arm.pretrained else 0
    return {"settings": settings, "pretraining": pretraining, "seeds": SEEDS}


def measure_stability(
    records: Path,
    datasets: Sequence[str],
    load: Callable[[str], GraphDataset],
    device: str,
    changes: Mapping[str, Any] | None = None,
    deadline: float | None = None,
    report: Report = lambda line: None,
) -> None:
    """Measure what is missing, one fold of one arm after the other, until the deadline (of `time.monotonic`).

    A fold that is not finished at the deadline is not recorded.
    """
    from diffpool.data import stratified_folds

    path = stability_file(records)
    for name in datasets:
        dataset, folds = None, []
        for fold in range(FOLDS):
            for arm in ARMS.values():
                setup = _setup(name, arm, changes)
                if any(row["fold"] == fold for row in _found(path, name, arm, setup)):
                    continue
                if deadline is not None and time.monotonic() >= deadline:
                    return
                if dataset is None:
                    dataset = load(name).to(device)
                    folds = stratified_folds(dataset.y.cpu().numpy(), 0)
                method = declared(name, arm, changes)
                start = time.monotonic()
                values = _train(method, dataset, folds[fold], setup["pretraining"], deadline)
                if values is None:
                    return
                values["seconds"] = round(time.monotonic() - start, 1)
                about = {"dataset": name, "arm": arm.name, "fold": fold, **setup}
                append_line(path, {**about, **values, **origin(dataset.device)})
                mean = fmean(values["accuracies"])
                report(
                    f"stability, {name}, fold {fold}, {arm.title}: {mean:.1f} % ({values['seconds']:.0f} s)"
                )


def _train(
    method: Method,
    dataset: GraphDataset,
    fold: Fold,
    pretraining: int,
    deadline: float | None,
) -> dict[str, Any] | None:
    """Train a model for every seed, side by side; None if the deadline comes first."""
    from diffpool.experiments.cohorts import initial_models
    from diffpool.training import Cohort
    from diffpool.training.link_only import pretrain
    from diffpool.training.scores import score_cohort

    seeds = list(range(SEEDS))
    configs = [replace(method.training, seed=seed) for seed in seeds]
    model = initial_models(method.architecture, seeds, dataset, [fold] * SEEDS)
    if pretraining:
        trained = pretrain(model, dataset, fold, configs, pretraining)
        model = initial_models(method.architecture, seeds, dataset, [fold] * SEEDS)
        model.load_state_dict(trained)
    cohort = Cohort(model, dataset, [fold] * SEEDS, configs)
    curves: list[list[tuple[float, float]]] = [[] for _ in seeds]
    while not cohort.finished:
        if deadline is not None and time.monotonic() >= deadline:
            return None
        for curve, row in zip(curves, cohort.train_epoch(), strict=True):
            if row is not None and row.train_accuracy is not None:
                curve.append((row.train_accuracy, row.train_class_loss))
    cohort.restore_best()
    scores = score_cohort(cohort.model, cohort.batches, [fold.test] * SEEDS)
    return {
        "accuracies": [100 * (s.accuracy or 0.0) for s in scores],
        "losses": [fmean(loss for _, loss in curve[-LAST:]) for curve in curves],
        "train_accuracies": [100 * fmean(a for a, _ in curve[-LAST:]) for curve in curves],
        "epochs_to_share": [epochs_to_share([a for a, _ in curve]) for curve in curves],
        "best_epochs": cohort.best_epoch.tolist(),
    }


def epochs_to_share(accuracies: Sequence[float], share: float = SHARE, last: int = LAST) -> int:
    """The first epoch, from 1, that reaches this share of the final training accuracy (mean of the last epochs)."""
    goal = share * fmean(accuracies[-last:])
    return next((n for n, a in enumerate(accuracies, 1) if a >= goal), len(accuracies))


def _found(path: Path, dataset: str, arm: Arm, setup: dict[str, Any]) -> list[dict[str, Any]]:
    """The measurements of this arm with these settings, the last one of each fold."""
    rows = {
        row["fold"]: row
        for row in read_lines(path, FIELDS)
        if (row.get("dataset"), row.get("arm")) == (dataset, arm.name)
        and all(row.get(key) == value for key, value in setup.items())
    }
    return [rows[fold] for fold in sorted(rows)]


@dataclass(frozen=True)
class Spread:
    """An arm on a data set: means over folds and seeds, and the pooled spread over the seeds of a fold."""

    accuracy: float
    accuracy_error: float  # standard error of the mean over seeds
    accuracy_sd: float
    loss: float
    loss_sd: float
    epochs: float
    epochs_error: float
    models: int
    freedom: int  # degrees of freedom of the standard deviations

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> Spread:
        accuracies = [row["accuracies"] for row in rows]
        epochs = [row["epochs_to_share"] for row in rows]
        models = sum(map(len, accuracies))
        accuracy_sd = pooled_sd(accuracies)
        return cls(
            accuracy=_mean(accuracies),
            accuracy_error=accuracy_sd / sqrt(models),
            accuracy_sd=accuracy_sd,
            loss=_mean([row["losses"] for row in rows]),
            loss_sd=pooled_sd([row["losses"] for row in rows]),
            epochs=_mean(epochs),
            epochs_error=pooled_sd(epochs) / sqrt(models),
            models=models,
            freedom=models - len(rows),
        )


def pooled_sd(groups: Sequence[Sequence[float]]) -> float:
    """The standard deviation within groups, with n − 1 for each group: differences between groups do not count."""
    squares = sum(variance(group) * (len(group) - 1) for group in groups)
    return sqrt(squares / sum(len(group) - 1 for group in groups))


def _mean(groups: Sequence[Sequence[float]]) -> float:
    return fmean(value for group in groups for value in group)


def stability_table(
    records: Path, datasets: Sequence[str], changes: Mapping[str, Any] | None = None
) -> PlainTable:
    """The spread over seeds of every arm, and whether the paper's claims hold."""
    path = stability_file(records)
    lines, facts, notes, used = [], [], [], []
    for name in datasets:
        spreads: dict[str, Spread] = {}
        for arm in ARMS.values():
            rows = _found(path, name, arm, _setup(name, arm, changes))
            if len(rows) < FOLDS:
                lines.append([name, arm.title, *["not run"] * 5])
                notes.append(
                    f"Missing: {name}, {arm.title}: {len(rows)} of {FOLDS} folds are recorded: use --run."
                )
                continue
            used += rows
            spread = spreads[arm.name] = Spread.of(rows)
            lines.append(
                [
                    *(name, arm.title, f"{spread.accuracy:.1f}", f"{spread.accuracy_sd:.2f}"),
                    f"{spread.loss:.3f}",
                    f"{spread.loss_sd:.4f}",
                    f"{spread.epochs:.1f} ± {spread.epochs_error:.1f}",
                ]
            )
            facts.append(
                {"table": "stability", "dataset": name, "method": arm.title, **asdict(spread)}
            )
        notes += statements(name, spreads)
    notes += [where(used)] if used else []
    caption = (
        f"Stability: DiffPool, {SEEDS} seeds on each of {FOLDS} folds; test accuracy in % at the epoch with the lowest "
        f"validation loss; sd over the seeds of a fold (pooled over folds); final training loss without the auxiliary "
        f"losses; epochs until {100 * SHARE:.0f} % of the final training accuracy (mean ± standard error). "
        "Pre-training: on the link loss alone."
    )
    if free_changes := {k: v for k, v in (changes or {}).items() if k not in FIXED}:
        caption += f" {changed_text(free_changes)}."
    header = ["data set", "training", "accuracy", "sd over seeds", "final loss", "sd over seeds"]
    header.append("epochs to 95 %")
    return PlainTable("stability", caption, header, lines, facts, tuple(notes))


def statements(dataset: str, spreads: Mapping[str, Spread]) -> list[str]:
    """Whether each claim of the paper holds on this data set."""
    if not {"plain", "link"} <= spreads.keys():
        return []
    plain, link = spreads["plain"], spreads["link"]
    found = [
        _ratio(dataset, "the link loss reduces the sd of the accuracy over seeds", plain, link),
        _difference(
            dataset,
            "training takes longer to converge with the link loss",
            (plain.epochs, plain.epochs_error),
            (link.epochs, link.epochs_error),
            "epochs",
        ),
        _difference(
            dataset,
            "the link loss gives a higher accuracy",
            (plain.accuracy, plain.accuracy_error),
            (link.accuracy, link.accuracy_error),
            "%",
        ),
    ]
    if "pretrained" in spreads:
        claim = "pre-training on the link loss alone reduces the sd of the accuracy over seeds"
        found.append(_ratio(dataset, claim, plain, spreads["pretrained"]))
    return found


def _ratio(dataset: str, claim: str, before: Spread, after: Spread) -> str:
    """A claim about two standard deviations, judged by an F-test."""
    from scipy.stats import f

    if before.accuracy_sd == 0:
        return f"{dataset}: {claim}: cannot be judged (no spread)."
    ratio = (after.accuracy_sd / before.accuracy_sd) ** 2
    one_sided = float(f.cdf(ratio, after.freedom, before.freedom))
    p = 2 * min(one_sided, 1 - one_sided)
    numbers = f"{before.accuracy_sd:.2f} → {after.accuracy_sd:.2f} points, {_p(p)}"
    return f"{dataset}: {claim}: {_verdict(ratio < 1, p)} ({numbers})."


def _difference(
    dataset: str, claim: str, before: tuple[float, float], after: tuple[float, float], unit: str
) -> str:
    """A claim that a mean increases, judged by the standard errors."""
    from scipy.stats import norm

    error = sqrt(before[1] ** 2 + after[1] ** 2)
    z = (after[0] - before[0]) / max(error, 1e-12)
    p = 2 * float(norm.sf(abs(z)))
    numbers = f"{before[0]:.1f} → {after[0]:.1f} {unit}, {_p(p)}"
    return f"{dataset}: {claim}: {_verdict(z > 0, p)} ({numbers})."


def _p(p: float) -> str:
    return f"p = {p:.2f}" if p >= 0.01 else "p < 0.01"


def _verdict(agrees: bool, p: float) -> str:
    if p < SIGNIFICANT:
        return "holds" if agrees else "does not hold; the opposite is true"
    return "does not hold; no difference beyond noise"
