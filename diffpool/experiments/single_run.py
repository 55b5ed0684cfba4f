"""Train one model of a method, or an ensemble of models, on one split of a data set."""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from diffpool.checksums import DamagedFileError
from diffpool.data import Fold, GraphDataset, single_split
from diffpool.errors import DiffPoolError, ModelError, SettingError, TrainingError
from diffpool.experiments.advice import collapsed_pooling
from diffpool.experiments.checkpoint import (
    Checkpoint,
    InTraining,
    read_checkpoint,
    remove_checkpoint,
    save_checkpoint,
)
from diffpool.experiments.cohorts import initial_models
from diffpool.experiments.methods import Method
from diffpool.experiments.plan import derived_seed, prepared
from diffpool.experiments.provenance import training_key
from diffpool.experiments.report import remove_report, write_report
from diffpool.files import atomic_write
from diffpool.nn import GraphClassifier, take
from diffpool.training import (
    Callback,
    Cohort,
    CohortBatches,
    Epoch,
    ModelCard,
    Observer,
    Processes,
    Save,
    Scores,
    TrainedModel,
    check_outputs,
    classification_metrics,
    models_fit,
    outputs_of,
    regression_metrics,
    reserve_directory,
    save_model,
    target_scale,
)
from diffpool.training.callbacks import call_all
from diffpool.training.ensemble import member_fold
from diffpool.training.model_directory import CONFIG, Part
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
    stopped_by_callback: bool = False

    @property
    def best_epoch(self) -> Epoch:
        """The best epoch of a single model; the last one that was the best of any member of an ensemble."""
        return [row for row in self.epochs if row.best][-1]

    @property
    def stopped_early(self) -> bool:
        """Whether training ended before the last epoch, by `Training.patience` or by a callback."""
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
            check_outputs(logits, graphs, self.dataset.name)
            rows = logits.astype(np.float64)
            if not self.dataset.regression:
                rows = torch.from_numpy(rows).softmax(-1).numpy()
            for graph, row in zip(graphs.tolist(), rows, strict=True):
                sums[graph] = sums.get(graph, 0) + row
                counts[graph] += 1
        numbers = sorted(sums)
        outputs = np.array([sums[graph] / counts[graph] for graph in numbers])
        y = self.dataset.y[torch.as_tensor(numbers, device=self.dataset.y.device)].cpu().numpy()
        if self.dataset.regression:
            mean, sd = np.array(self.card.target_mean), np.array(self.card.target_sd)
            return regression_metrics(y, outputs * sd + mean)
        names = {"classes": list(self.card.class_names)}
        return names | classification_metrics(y, outputs)

    @property
    def trained(self) -> TrainedModel:
        return TrainedModel(self.model, self.card)


def train_once(
    method: Method,
    dataset: GraphDataset,
    out: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    overwrite: bool = False,
    resume: bool = False,
    processes: Processes | None = None,
) -> Outcome:
    """`fit` on a split into 80 % training, 10 % validation and 10 % test graphs."""
    fold = single_split(dataset.y.cpu(), method.training.seed)
    return fit(method, dataset, fold, out, callbacks, overwrite, resume, processes)


def fit(
    method: Method,
    dataset: GraphDataset,
    fold: Fold,
    out: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    overwrite: bool = False,
    resume: bool = False,
    processes: Processes | None = None,
) -> Outcome:
    """Build, train and test a model, or an ensemble of models side by side.

    Every member of an ensemble has its own seed, and its own part of the training and validation graphs validates.
    With `out`, write a model directory, and a line of metrics.jsonl after every epoch. The directory is locked during
    training. An existing model raises an error unless `overwrite` or `resume` is set. Ctrl-C stops training: the best
    model so far is saved and tested like a finished one. Without `out`, or before the end of the first epoch, Ctrl-C
    raises KeyboardInterrupt. `resume` continues training that was interrupted or killed; the result is the same as
    without the interruption.

    Each of `callbacks` is called with the row of every epoch and may raise `StopTraining`. After `resume`, they are
    first called with the rows before the interruption, so that a log or a rule for stopping has all of them. An
    `Observer` among them also gets a function that returns a copy of the model.

    With `processes`, they train the model together: all of them call `fit` with the same arguments and get the same
    outcome. Only the first one reads and writes `out` and calls the callbacks. Another number of processes may resume.
    """
    if processes is not None and not processes.leads:
        out, callbacks = None, ()
    with contextlib.ExitStack() as stack:
        save = None
        if out is not None:
            save = stack.enter_context(reserve_directory(out, overwrite or resume))
        return _fit(method, dataset, fold, out, callbacks, save, resume, processes)


def _fit(
    method: Method,
    dataset: GraphDataset,
    fold: Fold,
    out: str | Path | None,
    callbacks: Sequence[Callback],
    save: Save | None,
    resume: bool,
    processes: Processes | None,
) -> Outcome:
    start = time.perf_counter()
    method, dataset = prepared(method, dataset)
    config = method.training
    folds, configs = _members(fold, dataset, config)
    mean, sd = map(Tensor.tolist, target_scale(dataset, fold)) if dataset.regression else ((), ())
    card = ModelCard(
        parts=(Part(method.architecture, config, (1.0,) * len(folds)),),
        num_features=dataset.num_features,
        largest=dataset.largest,
        class_names=dataset.class_names,
        dataset=dataset.name,
        method=method.name,
        feature_map=dataset.feature_map,
        directed=dataset.directed,
        target_mean=tuple(mean),
        target_sd=tuple(sd),
    )
    progress = None if out is None else _Progress(Path(out), training_key(method, dataset, fold))
    rows: list[Epoch] = []
    state: dict[str, Tensor] = {}  # after the last complete epoch
    interrupted = stop = False
    with models_fit(len(folds)):
        seeds = [config.seed for config in configs]
        model = initial_models(method.architecture, seeds, dataset, folds)
        targets = [fold] * len(folds)
        cohort = Cohort(model, dataset, folds, configs, targets, processes=processes)
        if progress is not None and resume:
            rows, state = progress.resume()
        if processes is not None:
            rows, state = processes.from_leader((rows, state))
        if state:
            cohort.load_state(state)
        earlier = sum(row.seconds for row in rows)  # before the interruption
        try:
            # After an interruption, callbacks see the earlier epochs, too.
            for row in rows:
                stop = call_all(callbacks, row) or stop
            for callback in callbacks:
                if isinstance(callback, Observer):
                    callback.begin(lambda: _current(cohort, card), dataset, fold)
            while not _agreed(stop, processes) and not cohort.finished:
                rows.append(_mean_row(cohort.train_epoch()))
                if progress is not None:
                    state = {name: tensor.clone() for name, tensor in cohort.state().items()}
                    progress.add(rows, state)
                stop = call_all(callbacks, rows[-1])
        except KeyboardInterrupt:
            if progress is None or not state:
                raise
            interrupted = True
            cohort.load_state(state)  # the interruption may have left it in the middle of an epoch
            rows = rows[: cohort.epoch]
        cohort.restore_best()
        if save is not None:
            assert out is not None
            _save(Path(out), model, card, save)
            remove_report(out)  # of an older model
        if interrupted and progress is not None:  # after the model, which matters more
            progress.write_metrics(rows)
            progress.save(rows, state)
        try:
            test = _test(model, card, dataset, folds)
        except TrainingError as error:
            saved = "" if out is None else f". The model is in {out}, without a report"
            raise TrainingError(f"{error}{saved}", error.model) from error
        finally:
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
        stopped_by_callback=stop,
    )
    validation = [fold.validation for fold in folds]
    follows = processes is not None and not processes.leads
    if not follows and (
        message := collapsed_pooling(method.architecture, model, dataset, validation)
    ):
        warnings.warn(message, stacklevel=4)
    if out is not None:
        try:
            write_report(out, outcome)
        except OSError as error:  # a full disk: the model is what matters
            warnings.warn(f"no report in {out} ({error.strerror})", stacklevel=4)
    return outcome


def _current(cohort: Cohort, card: ModelCard) -> TrainedModel:
    """A copy of the model in training; of an ensemble, the first member in training."""
    part = replace(card.parts[0], weights=(1.0,))
    return TrainedModel(take(cohort.in_training, [0]), replace(card, parts=(part,)))


def _agreed(stop: bool, processes: Processes | None) -> bool:
    """Whether training stops: of several processes, the first one decides."""
    return stop if processes is None else bool(processes.from_leader(stop))


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

    names = ("train_loss", "train_class_loss", "train_accuracy", "learning_rate")
    means = {name: mean(name) for name in (*names, "validation_loss", "validation_accuracy")}
    best = any(row.best for row in found)
    return Epoch(epoch=found[0].epoch, **means, best=best, seconds=found[0].seconds)


def _test(
    model: GraphClassifier, card: ModelCard, dataset: GraphDataset, folds: Sequence[Fold]
) -> Scores:
    """Loss and accuracy on the test graphs, of the mean of all members; 0 without test graphs."""
    graphs = folds[0].test
    if not len(graphs):
        return Scores(0.0, None if dataset.regression else 0.0)
    found = outputs_of(model, CohortBatches(dataset, model.clusters), [graphs] * len(folds))
    for member_outputs in found:
        check_outputs(member_outputs, graphs, dataset.name)
    outputs = torch.from_numpy(np.stack(found)).double()  # [M, B, K]
    y = dataset.y[torch.as_tensor(graphs, device=dataset.y.device)].cpu()
    if dataset.regression:
        mean, sd = (
            y.new_tensor(v, dtype=torch.float64) for v in (card.target_mean, card.target_sd)
        )
        return Scores(float(task_loss(outputs.mean(0), (y - mean) / sd).mean()), None)
    # logarithms, so that the loss is finite where probabilities round to 0
    logs = outputs.log_softmax(-1).logsumexp(0) - math.log(len(folds))
    hits = logs.argmax(-1) == y
    return Scores(float(task_loss(logs, y).mean()), float(hits.double().mean()))


class _Progress:
    """What a training run writes to its directory: a line of metrics.jsonl for each epoch, and a checkpoint.

    The files of an earlier run stay until the end of the first epoch. A file that cannot be written does not end
    training: there is one warning, and the next epoch tries again. The checkpoint contains the metrics, too:
    metrics.jsonl is never read.
    """

    def __init__(self, directory: Path, key: str):
        self.metrics, self.checkpoint = directory / "metrics.jsonl", directory / CHECKPOINT
        self.key = key
        self.saved = time.monotonic()
        self.complete = False  # metrics.jsonl has a line for every earlier epoch
        self.warned: set[Path] = set()

    def resume(self) -> tuple[list[Epoch], dict[str, Tensor]]:
        """The epochs of the checkpoint and the state after them; an error if it is not of the same training."""
        folder = self.checkpoint.parent
        try:
            found = read_checkpoint(self.checkpoint)
            cohort = found.cohorts[0] if found.cohorts else None
        except DamagedFileError as error:
            raise SettingError(
                f"{error}, so training cannot be resumed: use --overwrite instead of --resume"
            ) from error
        if cohort is None:
            finished = (folder / CONFIG).exists()
            advice = "training is finished, use --overwrite" if finished else "remove --resume"
            raise SettingError(f"there is no interrupted training run in {folder}: {advice}")
        if cohort.tasks != (self.key,):
            raise SettingError(
                f"the settings or data differ from those of the interrupted training run in {folder}: "
                "repeat its command and add --resume (only epochs and patience may change), or remove --resume"
            )
        rows = list(found.epochs)
        self.write_metrics(rows)
        return rows, dict(cohort.state)

    def add(self, rows: list[Epoch], state: dict[str, Tensor]) -> None:
        """Add the last row; write a checkpoint every CHECKPOINT_SECONDS."""
        if self.complete:
            self.complete = False  # an error may leave a part of the line
            with self._warning(self.metrics), self.metrics.open("a") as file:
                file.write(_line(rows[-1]))
                self.complete = True
        else:
            self.write_metrics(rows)
        if len(rows) == 1:
            with self._warning(self.checkpoint):
                remove_checkpoint(self.checkpoint)  # of an earlier run
        if time.monotonic() - self.saved >= CHECKPOINT_SECONDS:
            self.save(rows, state)

    def write_metrics(self, rows: list[Epoch]) -> None:
        """Replace metrics.jsonl."""
        with self._warning(self.metrics):
            with atomic_write(self.metrics) as temporary:
                temporary.write_text("".join(map(_line, rows)))
            self.complete = True

    def save(self, rows: list[Epoch], state: dict[str, Tensor]) -> None:
        """Replace the checkpoint."""
        with self._warning(self.checkpoint):
            cohort = InTraining((self.key,), state)
            found = Checkpoint(cohorts=(cohort,), epochs=tuple(rows))
            save_checkpoint(self.checkpoint, found)
        self.saved = time.monotonic()

    def finish(self) -> None:
        with self._warning(self.checkpoint):
            remove_checkpoint(self.checkpoint)

    @contextlib.contextmanager
    def _warning(self, path: Path) -> Iterator[None]:
        """A warning instead of an error, once for each file."""
        try:
            yield
        except OSError as error:
            if path not in self.warned:
                self.warned.add(path)
                message = f"cannot write {path} ({error.strerror}): training continues"
                warnings.warn(message, stacklevel=5)


def _line(row: Epoch) -> str:
    return json.dumps(asdict(row), allow_nan=False) + "\n"


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
            f"the model is trained, but {out} cannot be written ({reason}): the model is in {folder} instead"
        ) from error
