"""Scores of predictions for graphs whose class or target is known."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from diffpool.data import RawGraphs
from diffpool.training.metrics import classification_metrics, regression_metrics
from diffpool.training.model_directory import ModelCard


class PredictionScores:
    """Collects the true classes or targets of labeled graphs, with the predictions."""

    def __init__(self, card: ModelCard):
        self.card = card
        self.codes = {str(name): code for code, name in enumerate(card.class_names)}
        self.y: list[np.ndarray] = []
        self.values: list[np.ndarray] = []
        self.unknown: Counter[str] = Counter()  # classes unknown to the model
        self.other: Counter[str] = Counter()  # kinds of `y` that the model does not predict

    def add(self, raw: RawGraphs, values: np.ndarray) -> None:
        kind = None if raw.targets is None else _targets(raw.targets.shape[1])
        if raw.classes is not None and (kind is None or not self.card.regression):
            kind = "classes"
        if kind is None:
            return
        if kind != self._predicted:
            self.other[kind] += len(raw)
        elif self.card.regression:
            assert raw.targets is not None
            self.y.append(raw.targets)
            self.values.append(values)
        else:
            assert raw.classes is not None
            words = raw.classes.words()
            codes = np.array([self.codes.get(word, -1) for word in words], np.int64)
            self.unknown.update(word for word in words if word not in self.codes)
            self.y.append(codes[codes >= 0])
            self.values.append(values[codes >= 0])

    @property
    def _predicted(self) -> str:
        return _targets(self.card.num_outputs) if self.card.regression else "classes"

    def not_scored(self) -> tuple[str, ...]:
        """Messages about graphs with another kind of `y` than the model predicts."""
        return tuple(
            f"not scored: {count} graphs have {kind}, but the model predicts {self._predicted}"
            for kind, count in self.other.items()
        )

    def metrics(self) -> dict[str, Any] | None:
        """The metrics; graphs of classes unknown to the model are counted, but not scored."""
        if not sum(map(len, self.y)):
            return None
        y, values = np.concatenate(self.y), np.concatenate(self.values)
        if self.card.regression:
            return regression_metrics(y, values)
        metrics = {"classes": list(self.card.class_names)} | classification_metrics(y, values)
        return metrics | ({"unknown_classes": dict(self.unknown)} if self.unknown else {})


def _targets(count: int) -> str:
    return "1 target" if count == 1 else f"{count} targets"
