"""The progress of a run, for displays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from diffpool.experiments.records import Record


@dataclass(frozen=True)
class Leader:
    """One of the best settings that a search has tried so far."""

    trial: int
    accuracy: float | None  # on the validation graphs, 0 to 1; None for regression
    loss: float
    settings: Mapping[str, str]  # those that the search varies, as text


@dataclass(frozen=True)
class Search:
    """The progress of a search for settings."""

    tried: int
    trials: int  # to try in total
    leaders: tuple[Leader, ...]  # the best one first


@dataclass(frozen=True)
class Status:
    """The progress of an evaluation of a neural network after an epoch."""

    models: int  # to train in total
    finished: int  # models
    folds: int  # to record in total
    records: tuple[Record, ...]  # so far
    tasks: tuple[str, ...]  # names of the models in training
    active: int  # models among them that continue
    epoch: int  # the mean over these models
    max_epochs: int
    accuracies: list[float]  # mean validation accuracy after every epoch
    graphs: int  # training graphs seen by these models so far
    seconds: float  # training time of these models so far
    seconds_left: float  # at most: models may stop early
    search: Search | None = None  # of `diffpool tune`
    search_seconds: float | None = None  # left for trying settings; None without a limit
    cohorts: int = 1  # that are trained at the same time, on several devices


@dataclass(frozen=True)
class KernelStatus:
    """The progress of an evaluation of a graph kernel with an SVM."""

    gram: float  # share of the Gram matrices computed
    fits: int  # SVMs to fit since the run was started or resumed
    fitted: int  # so far
    folds: int  # to record in total
    records: tuple[Record, ...]  # so far
    seconds_left: float | None  # None: unknown


Watch = Callable[[Status], None]
KernelWatch = Callable[[KernelStatus], None]
Notify = Callable[[str], None]  # called with a message for the user
