"""Train one model of a method, or an ensemble of models, on one split of a data set."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from diffpool.data import Fold, GraphDataset, single_split
from diffpool.errors import DiffPoolError, ModelError, SettingError, TrainingError
from diffpool.experiments.checkpoint import (
    Checkpoint,
    load_checkpoint,
    remove_checkpoint,
    save_checkpoint,
)
from diffpool.experiments.cohorts import initial_models
from diffpool.experiments.methods import Method
from diffpool.experiments.plan import derived_seed, prepared
from diffpool.experiments.provenance import training_key
from diffpool.experiments.report import write_report
from diffpool.files import atomic_write
from diffpool.nn import GraphClassifier
from diffpool.training import (
    Cohort,
    CohortBatches,
    Epoch,
    ModelCard,
    Save,
    Scores,
    TrainedModel,
    classification_metrics,
    models_fit,
    outputs_of,
    regression_metrics,
    reserve_directory,
    save_model,
    score_cohort,
    target_scale,
)
from diffpool.training.ensemble import member_fold
from diffpool.training.model_directory import Part
from diffpool.training.settings import Training
from diffpool.training.step import task_loss

CHECKPOINT = "checkpoint.safetensors"  # in the model directory, until the training is finished
CHECKPOINT_SECONDS = 30.0


@dataclass(frozen=True, eq=False)
class Outcome:
    """A trained model or ensemble, and its metrics."""

    model: GraphClassifier  # all members side by side
    card: ModelCard
    dataset: GraphDataset  # prepared for the model
    fold: Fold
    folds: tuple[Fold, ...]  # of each member; the test graphs are the same
    test: Scores  # for regression in units of the standard deviation of the training targets
    epochs: tuple[Epoch, ...]
    seconds: float  # also those before an interruption
    best_epochs: tuple[int, ...]  # of each member: the epoch with its lowest validation loss
    interrupted: bool = False  # stopped by Ctrl-C: the best model so far

    @property
    def best_epoch(self) -> Epoch:
        """The best epoch of a single model; the last one that was the best of any member of an ensemble."""
        return [row for row in self.epochs if row.best][-1]

    @property
    def stopped_early(self) -> bool:
        """Whether the training ended before the last epoch, because the validation loss did not decrease any more."""
        return not self.interrupted and len(self.epochs) < self.card.training.epochs

    def metrics(self, part: str) -> dict[str, Any] | None:
        """Metrics on the validation or test graphs, in the units of the targets; None if there are no such graphs.

        For an ensemble, those of the mean of its members. The members have different validation graphs: each graph
        counts once, with the mean over the members that did not train on it.
        """
        parts = [getattr(fold, part) for fold in self.folds]
        if not any(map(len, parts)):
            return None
        batches = CohortBatches(self.dataset, self.model.clusters)
        sums: dict[int, np.ndarray] = {}
        counts: Counter[int] = Counter()
        for graphs, logits in zip(parts, outputs_of(self.model, batches, parts), strict=True):
            own = logits.astype(np.float64)
            if not self.dataset.regression:
                own = torch.from_numpy(own).softmax(-1).numpy()
            for graph, row in zip(graphs.tolist(), own, strict=True):
                sums[graph] = sums.get(graph, 0) + row
                counts[graph] += 1
        numbers = sorted(sums)
        outputs = np.array([sums[graph] / counts[graph] for graph in numbers])
        y = self.dataset.y[torch.as_tensor(numbers, device=self.dataset.y.device)].cpu().numpy()
        if self.dataset.regression:
            mean, sd = np.array(self.card.target_mean), np.array(self.card.target_sd)
            return regression_metrics(y * sd + mean, outputs * sd + mean)
        names = {"classes": list(self.card.class_names)}
        return names | classification_metrics(y, outputs)

    @property
    def trained(self) -> TrainedModel:
        return TrainedModel(self.model, self.card)


def _ignore(row: Epoch) -> None:
    pass


def train_once(
    method: Method,
    dataset: GraphDataset,
    out: str | Path | None = None,
    watch: Callable[[Epoch], None] = _ignore,
    overwrite: bool = False,
    resume: bool = False,
) -> Outcome:
    """`fit` on a split into 80 % training, 10 % validation and 10 % test graphs."""
    fold = single_split(dataset.y.cpu(), method.training.seed)
    return fit(method, dataset, fold, out, watch, overwrite, resume)


def fit(
    method: Method,
    dataset: GraphDataset,
    fold: Fold,
    out: str | Path | None = None,
    watch: Callable[[Epoch], None] = _ignore,
    overwrite: bool = False,
    resume: bool = False,
) -> Outcome:
    """Build, train and test a model, or an ensemble of models side by side.

    Every member of an ensemble has its own seed, and its own part of the training and validation graphs validates.
    With `out`, write a model directory, and metrics.jsonl after every epoch. The directory is locked meanwhile. One
    that holds a model already is an error, unless `overwrite` or `resume` is set. Ctrl-C ends the training: the best
    model so far is saved and tested like a finished one. Without `out`, or before the end of the first epoch, it
    raises KeyboardInterrupt. `resume` continues a training that was interrupted or killed: the result is the same as
    without the interruption.
    """
    with contextlib.ExitStack() as stack:
        save = None
        if out is not None:
            save = stack.enter_context(reserve_directory(out, overwrite or resume))
        return _fit(method, dataset, fold, out, watch, save, resume)


def _fit(
    method: Method,
    dataset: GraphDataset,
    fold: Fold,
    out: str | Path | None,
    watch: Callable[[Epoch], None],
    save: Save | None,
    resume: bool,
) -> Outcome:
    start = time.perf_counter()
    method, dataset = prepared(method, dataset)
    config = method.training
    folds, configs = _members(fold, dataset, config)
    mean: tuple[float, ...] = ()
    sd: tuple[float, ...] = ()
    if dataset.regression:
        dataset, mean, sd = _standardized(dataset, fold)
    card = ModelCard(
        parts=(Part(method.architecture, config, (1.0,) * len(folds)),),
        num_features=dataset.num_features,
        largest=dataset.largest,
        class_names=dataset.class_names,
        dataset=dataset.name,
        method=method.name,
        feature_map=dataset.feature_map,
        directed=dataset.directed,
        target_mean=mean,
        target_sd=sd,
    )
    progress = None if out is None else _Progress(Path(out), training_key(method, dataset, fold))
    rows: list[Epoch] = []
    state: dict[str, Tensor] = {}  # after the last complete epoch
    interrupted = False
    with models_fit(len(folds)):
        seeds = [own.seed for own in configs]
        model = initial_models(method.architecture, seeds, dataset, folds)
        cohort = Cohort(model, dataset, folds, configs)
        if progress is not None:
            rows, state = progress.resume() if resume else progress.start()
        if state:
            cohort.load_state(state)
        earlier = sum(row.seconds for row in rows)  # before the interruption
        try:
            while not cohort.finished:
                row = _mean_row(cohort.train_epoch())
                rows.append(row)
                if progress is not None:
                    state = {name: tensor.clone() for name, tensor in cohort.state().items()}
                    progress.add(row, state)
                watch(row)
        except KeyboardInterrupt:
            if progress is None or not state:
                raise
            interrupted = True
            cohort.load_state(state)  # the interruption may have left it in the middle of an epoch
            rows = rows[: cohort.epoch]
            progress.write_metrics(rows)
            progress.save(state)
        cohort.restore_best()
        if save is not None:
            assert out is not None
            _save(Path(out), model, card, save)
        test = _test(model, replace(dataset, weights=None), folds)
    if progress is not None and not interrupted:
        progress.finish()
    seconds = earlier + time.perf_counter() - start
    outcome = Outcome(
        model=model,
        card=card,
        dataset=dataset,
        fold=fold,
        folds=tuple(folds),
        test=test,
        epochs=tuple(rows),
        seconds=seconds,
        best_epochs=tuple(cohort.best_epoch.tolist()),
        interrupted=interrupted,
    )
    if out is not None:
        with contextlib.suppress(OSError):  # a full disk: the model is what matters
            write_report(out, outcome)
    return outcome


def _members(
    fold: Fold, dataset: GraphDataset, config: Training
) -> tuple[list[Fold], list[Training]]:
    """The fold and the settings of each member; a single model has those that are given."""
    if config.ensemble == 1:
        return [fold], [config]
    y = np.zeros(len(dataset), np.int64) if dataset.regression else dataset.y.cpu().numpy()
    folds, configs = [], []
    for number in range(config.ensemble):
        folds.append(member_fold(fold, y, derived_seed(config.seed, "hold-out", number)))
        configs.append(replace(config, seed=derived_seed(config.seed, "member", number)))
    return folds, configs


def _mean_row(rows: Sequence[Epoch | None]) -> Epoch:
    """The row of a single model; for an ensemble, the means over the members in training."""
    found = [row for row in rows if row is not None]
    if len(rows) == 1:
        return found[0]

    def mean(name: str) -> Any:
        values = [getattr(row, name) for row in found]
        return None if None in values else fmean(values)

    names = ("train_loss", "train_class_loss", "train_accuracy")
    means = {name: mean(name) for name in (*names, "validation_loss", "validation_accuracy")}
    best = any(row.best for row in found)
    return Epoch(epoch=found[0].epoch, **means, best=best, seconds=found[0].seconds)


def _test(model: GraphClassifier, dataset: GraphDataset, folds: Sequence[Fold]) -> Scores:
    """Loss and accuracy on the test graphs, of the mean of all members."""
    graphs = folds[0].test
    if len(folds) == 1 or not len(graphs):
        return score_cohort(model, CohortBatches(dataset, model.clusters), [f.test for f in folds])[
            0
        ]
    batches = CohortBatches(dataset, model.clusters)
    found = np.stack(outputs_of(model, batches, [graphs] * len(folds)))
    outputs = torch.from_numpy(found).double()  # [M, B, K]
    y = dataset.y[torch.as_tensor(graphs, device=dataset.y.device)].cpu()
    if dataset.regression:
        return Scores(float(task_loss(outputs.mean(0), y.double()).mean()), None)
    mean = outputs.softmax(-1).mean(0)
    return Scores(
        float(task_loss(mean.log(), y).mean()), float((mean.argmax(-1) == y).double().mean())
    )


class _Progress:
    """What a training leaves in its directory: a line of metrics.jsonl for each epoch, and a checkpoint."""

    def __init__(self, directory: Path, key: str):
        self.metrics, self.checkpoint = directory / "metrics.jsonl", directory / CHECKPOINT
        self.key = key
        directory.mkdir(parents=True, exist_ok=True)
        self.saved = time.monotonic()

    def start(self) -> tuple[list[Epoch], dict[str, Tensor]]:
        """Begin with no epochs."""
        self.metrics.write_text("")
        remove_checkpoint(self.checkpoint)
        return [], {}

    def resume(self) -> tuple[list[Epoch], dict[str, Tensor]]:
        """The epochs of the checkpoint and the state after them; an error if it is not of the same training."""
        found = load_checkpoint(self.checkpoint)
        if not found.cohort:
            raise SettingError(
                f"expected an interrupted training in {self.checkpoint.parent}, got none: leave out --resume"
            )
        if found.tasks != (self.key,):
            raise SettingError(
                f"expected the settings and data of the interrupted training in {self.checkpoint.parent}, got others: "
                "repeat its command and add --resume (only epochs and patience may change), or leave out --resume"
            )
        epochs = int(found.cohort["run.epoch"])
        rows = self._read()[:epochs]
        if [row.epoch for row in rows] != list(range(1, epochs + 1)):
            raise SettingError(
                f"expected epochs 1 to {epochs} in {self.metrics}, got others: the file was changed. Leave out --resume"
            )
        self.write_metrics(rows)
        return rows, dict(found.cohort)

    def write_metrics(self, rows: list[Epoch]) -> None:
        """Replace metrics.jsonl: its last line may be missing or incomplete after an interruption."""
        with atomic_write(self.metrics) as temporary:
            temporary.write_text("".join(_line(row) for row in rows))

    def _read(self) -> list[Epoch]:
        """The complete lines of metrics.jsonl."""
        try:
            lines = self.metrics.read_text().splitlines(keepends=True)
            return [Epoch(**json.loads(line)) for line in lines if line.endswith("\n")]
        except (OSError, ValueError, TypeError):
            return []

    def add(self, row: Epoch, state: dict[str, Tensor]) -> None:
        # a full disk must not end the training: `_save` reports it
        with contextlib.suppress(OSError), self.metrics.open("a") as file:
            file.write(_line(row))
        if time.monotonic() - self.saved >= CHECKPOINT_SECONDS:
            self.save(state)

    def save(self, state: dict[str, Tensor]) -> None:
        with contextlib.suppress(OSError):
            save_checkpoint(self.checkpoint, Checkpoint(tasks=(self.key,), cohort=state))
        self.saved = time.monotonic()

    def finish(self) -> None:
        remove_checkpoint(self.checkpoint)


def _line(row: Epoch) -> str:
    return json.dumps(asdict(row)) + "\n"


def _save(out: Path, model: GraphClassifier, card: ModelCard, save: Save) -> None:
    """Write the model directory; if that fails, keep the trained model in a temporary folder and say where it is."""
    try:
        save(model, card)
    except ModelError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        reason = error.__cause__.strerror or error
        try:
            folder = Path(tempfile.mkdtemp(prefix="diffpool-"))
            save_model(folder, model, card)
        except (OSError, DiffPoolError) as second:
            raise TrainingError(
                f"the model is trained, but neither {out} ({reason}) nor the folder for temporary files "
                f"({second}) can be written: free some space and train again"
            ) from error
        raise TrainingError(
            f"the model is trained, but {out} cannot be written ({reason}): it is in {folder} instead"
        ) from error


def _standardized(
    dataset: GraphDataset, fold: Fold
) -> tuple[GraphDataset, tuple[float, ...], tuple[float, ...]]:
    """The data set with targets scaled to mean 0 and sd 1 on the training graphs; that mean and sd."""
    mean, sd = target_scale(dataset, fold)
    y = ((dataset.y - mean) / sd).to(dataset.x.dtype)
    return replace(dataset, y=y), tuple(mean.tolist()), tuple(sd.tolist())
