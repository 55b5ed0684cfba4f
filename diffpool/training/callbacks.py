"""Callbacks: functions that are called after every epoch, to log, show or stop training."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diffpool.training.cohort import Epoch

Callback = Callable[["Epoch"], object]  # what it returns is ignored


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
