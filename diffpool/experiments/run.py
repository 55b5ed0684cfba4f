"""One method trained on one split of one data set."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from diffpool.data import Fold, GraphDataset, single_split
from diffpool.experiments.methods import Method
from diffpool.experiments.prepared import prepared
from diffpool.nn import GraphClassifier
from diffpool.training import (
    Epoch,
    ModelCard,
    Scores,
    TrainedModel,
    evaluate,
    fit_inputs,
    one_model_fits,
    save_model,
    train,
)


@dataclass(frozen=True, eq=False)
class Outcome:
    """A trained model and how well it did."""

    model: GraphClassifier
    card: ModelCard
    dataset: GraphDataset  # as the model takes it
    fold: Fold
    test: Scores  # for regression in units of the training targets' sd
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
    """`fit` on a split of 80 % for training, 10 % for validation and 10 % for the test."""
    fold = single_split(dataset.y.cpu(), method.training.seed)
    return fit(method, dataset, fold, out, watch)


def fit(
    method: Method,
    dataset: GraphDataset,
    fold: Fold,
    out: str | Path | None = None,
    watch: Callable[[Epoch], None] = _ignore,
) -> Outcome:
    """Build, train, test; with `out` also write a model directory there, metrics.jsonl as it goes."""
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
        model = _initial(card, dataset, fold)
        for row in train(model, dataset, fold, config):
            rows.append(row)
            if metrics is not None:
                with metrics.open("a") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
            watch(row)
        test = evaluate(model, dataset, fold.test)
    if out is not None:
        save_model(out, model, card)
    return Outcome(model, card, dataset, fold, test, tuple(rows), time.perf_counter() - start)


def _initial(card: ModelCard, dataset: GraphDataset, fold: Fold) -> GraphClassifier:
    """The untrained model, with the parameters of its seed and the inputs of its training graphs."""
    with torch.random.fork_rng():
        torch.manual_seed(card.training.seed)
        model = card.build().to(dataset.x.device)
    fit_inputs(model, dataset, fold.train)
    return model


def _standardized(
    dataset: GraphDataset, fold: Fold
) -> tuple[GraphDataset, tuple[float, ...], tuple[float, ...]]:
    """The data set with targets of mean 0 and sd 1 on the training graphs, and what that took."""
    given = dataset.y[torch.as_tensor(fold.train, device=dataset.y.device)].double()
    mean, sd = given.mean(0), given.std(0, correction=0)
    sd = torch.where(sd > 1e-9, sd, 1.0)
    y = ((dataset.y - mean) / sd).to(dataset.y.dtype)
    return replace(dataset, y=y), tuple(mean.tolist()), tuple(sd.tolist())
