"""One method trained on one split of one data set."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from diffpool.data import Fold, GraphDataset, single_split
from diffpool.experiments.methods import Method
from diffpool.nn import GraphClassifier, build
from diffpool.training import Epoch, ModelCard, Scores, evaluate, save_model, train


@dataclass(frozen=True, eq=False)
class Outcome:
    """A trained model and how well it did."""

    model: GraphClassifier
    card: ModelCard
    fold: Fold
    test: Scores
    epochs: tuple[Epoch, ...]
    seconds: float

    @property
    def best_epoch(self) -> Epoch:
        return [row for row in self.epochs if row.best][-1]


def train_once(
    method: Method,
    dataset: GraphDataset,
    out: str | Path | None = None,
    watch: Callable[[Epoch], None] = lambda row: None,
) -> Outcome:
    """Split, build, train, test; with `out` also write a model directory there, metrics.jsonl as it goes."""
    start = time.perf_counter()
    config = method.training
    fold = single_split(dataset.y.cpu(), config.seed)
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        model = build(
            method.architecture, dataset.num_features, dataset.num_classes, dataset.largest
        ).to(dataset.x.device)
    card = ModelCard(
        architecture=method.architecture,
        training=config,
        num_features=dataset.num_features,
        largest=dataset.largest,
        class_names=dataset.class_names,
        dataset=dataset.name,
        features=dataset.features,
        method=method.name,
    )
    metrics = None
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)
        metrics = Path(out) / "metrics.jsonl"
        metrics.write_text("")
    rows = []
    for row in train(model, dataset, fold, config):
        rows.append(row)
        if metrics is not None:
            with metrics.open("a") as file:
                file.write(json.dumps(asdict(row)) + "\n")
        watch(row)
    test = evaluate(model, dataset, fold.test)
    if out is not None:
        save_model(out, model, card)
    return Outcome(model, card, fold, test, tuple(rows), time.perf_counter() - start)
