"""Callbacks: functions that are called after every epoch, to log, show or stop training."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from diffpool.data import Fold, GraphDataset
    from diffpool.training.cohort import Epoch
    from diffpool.training.predict import TrainedModel

Callback = Callable[["Epoch"], object]  # what it returns is ignored


@runtime_checkable
class Observer(Protocol):
    """A callback of `diffpool.experiments.fit` that also sees the model, to look at it after an epoch."""

    def begin(self, model: Callable[[], TrainedModel], dataset: GraphDataset, fold: Fold) -> object:
        """Called before the first epoch. `model` returns a copy of the model at the time of the call."""

    def __call__(self, row: Epoch) -> object:
        """Called after every epoch."""


class StopTraining(Exception):
    """Raised by a callback to end training after this epoch. The model has the parameters of its best epoch."""


def call_all(callbacks: Iterable[Callback], row: Epoch) -> bool:
    """Call every callback with the metrics of an epoch. Returns whether one of them raised `StopTraining`."""
    stop = False
    for callback in callbacks:
        try:
            callback(row)
        except StopTraining:
            stop = True
    return stop
