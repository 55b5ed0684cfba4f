"""Train one model of a method on one split of a data set."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError

from diffpool.data import Fold, GraphDataset, single_split
from diffpool.errors import TrainingError
from diffpool.experiments.cohorts import initial_models
from diffpool.experiments.methods import Method
from diffpool.experiments.plan import prepared
from diffpool.nn import GraphClassifier
from diffpool.training import (
    Epoch,
    ModelCard,
    Scores,
    TrainedModel,
    one_model_fits,
    save_model,
    score,
    train,
)


@dataclass(frozen=True, eq=False)
class Outcome:
    """A trained model, and its metrics."""

    model: GraphClassifier
    card: ModelCard
    dataset: GraphDataset  # prepared for the model
    fold: Fold
    test: Scores  # for regression in units of the standard deviation of the training targets
    epochs: tuple[Epoch, ...]
    seconds: float

    @property
    def best_epoch(self) -> Epoch:
        return [row for row in self.epochs if row.best][-1]

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
) -> Outcome:
    """`fit` on a split into 80 % training, 10 % validation and 10 % test graphs."""
    fold = single_split(dataset.y.cpu(), method.training.seed)
    return fit(method, dataset, fold, out, watch)


def fit(
    method: Method,
    dataset: GraphDataset,
    fold: Fold,
    out: str | Path | None = None,
    watch: Callable[[Epoch], None] = _ignore,
) -> Outcome:
    """Build, train and test a model. With `out`, write a model directory, and metrics.jsonl after every epoch."""
    start = time.perf_counter()
    method, dataset = prepared(method, dataset)
    config = method.training
    mean: tuple[float, ...] = ()
    sd: tuple[float, ...] = ()
    if dataset.regression:
        dataset, mean, sd = _standardized(dataset, fold)
    card = ModelCard(
        architecture=method.architecture,
        training=config,
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
    metrics = None
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)
        metrics = Path(out) / "metrics.jsonl"
        metrics.write_text("")
    rows = []
    with one_model_fits():
        model = initial_models(method.architecture, [config.seed], dataset, [fold])
        for row in train(model, dataset, fold, config):
            rows.append(row)
            if metrics is not None:
                # a full disk must not end the training: `_save` reports it
                with contextlib.suppress(OSError), metrics.open("a") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
            watch(row)
        test = score(model, dataset, fold.test)
    if out is not None:
        _save(Path(out), model, card)
    return Outcome(model, card, dataset, fold, test, tuple(rows), time.perf_counter() - start)


def _save(out: Path, model: GraphClassifier, card: ModelCard) -> None:
    """Write the model directory; if that fails, keep the trained model in a temporary folder and say where it is."""
    try:
        save_model(out, model, card)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        try:
            folder = Path(tempfile.mkdtemp(prefix="diffpool-"))
            save_model(folder, model, card)
        except (OSError, SafetensorError) as second:
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
    targets = dataset.y[torch.as_tensor(fold.train, device=dataset.y.device)].double()
    mean, sd = targets.mean(0), targets.std(0, correction=0)
    varies = sd > 1e-13 * targets.abs().amax(0)  # rounding gives constant targets a tiny sd
    sd = torch.where(varies, sd, 1.0)
    y = ((dataset.y - mean) / sd).to(dataset.x.dtype)
    return replace(dataset, y=y), tuple(mean.tolist()), tuple(sd.tolist())
