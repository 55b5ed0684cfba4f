"""Jobs: cohorts to train, wherever that happens, and the messages that their training sends."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from diffpool.data import GraphDataset
from diffpool.errors import DiffPoolError, TrainingError
from diffpool.experiments.cohorts import graphs_seen, make_cohort, results
from diffpool.experiments.plan import Task, Trained
from diffpool.experiments.protocols import Protocol
from diffpool.experiments.provenance import peak_memory
from diffpool.training import Cohort, is_out_of_memory, release_memory
from diffpool.training.cohort import State

SAVING_SHARE = 0.05  # the largest share of the time that is spent on states and checkpoints
REPORT_SECONDS = 0.25  # between two messages of a worker
MAX_LOSSES = 3  # workers that a job may lose without completing an epoch in between


@dataclass(frozen=True, eq=False)
class Work:
    """What all jobs of a run have in common."""

    dataset: GraphDataset
    protocol: Protocol
    checkpoint_seconds: float  # minimum time between two states of a job
    precision: str = field(default_factory=torch.get_float32_matmul_precision)

    def on(self, device: str) -> Work:
        """The same work on a device, with its precision of matrix products set for this process."""
        torch.set_float32_matmul_precision(self.precision)
        return replace(self, dataset=self.dataset.to(device))


@dataclass(frozen=True, eq=False)
class Job:
    """A cohort to train."""

    number: int  # unique within the run
    tasks: tuple[Task, ...]
    state: State = field(default_factory=dict)  # to continue from; empty: from the beginning
    seconds: float | None = None  # until tasks that may fail are stopped; None: no limit

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(task.name for task in self.tasks)

    @property
    def max_epochs(self) -> int:
        return max(task.method.training.epochs for task in self.tasks)


@dataclass(frozen=True)
class Progress:
    """The progress of a cohort after an epoch."""

    epoch: int
    active: int  # models that continue
    accuracies: list[float]  # mean validation accuracy after every epoch
    graphs: int  # training graphs seen so far
    seconds: float
    peak_memory: int | None  # of the process or GPU


@dataclass(frozen=True)
class Finished:
    """The results of a cohort."""

    results: dict[str, Trained]
    peak_memory: int | None


@dataclass(frozen=True)
class OutOfMemory:
    """There is not enough memory for this many models."""


Message = Progress | Finished | OutOfMemory


@dataclass(frozen=True, eq=False)
class Update:
    """A message about a job, and its latest known state."""

    number: int
    message: Message
    state: Callable[[], State]


def train(job: Job, work: Work) -> Iterator[Update]:
    """Train the models of a job side by side: a message after every epoch, and a last one."""
    device = work.dataset.device
    end = None if job.seconds is None else time.monotonic() + job.seconds
    cohort: Cohort | None = None
    enough = True
    try:
        cohort = make_cohort(job.tasks, work.dataset)
        if job.state:
            cohort.load_state(dict(job.state))
        while not cohort.finished:
            _train_epoch(job, cohort)
            cohort.stop(work.protocol.losers(job.tasks, cohort))
            late = end is not None and time.monotonic() >= end
            if late and all(task.may_fail for task in job.tasks):
                cohort.stop(range(len(job.tasks)))
            yield Update(job.number, _progress(cohort), cohort.state)
        found = Finished(results(job.tasks, cohort), peak_memory(device))
        yield Update(job.number, found, dict)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        enough = False  # handled below, where no traceback keeps the memory in use
    if not enough:
        cohort = None
        release_memory(device)
        yield Update(job.number, OutOfMemory(), dict)


def _train_epoch(job: Job, cohort: Cohort) -> None:
    try:
        cohort.train_epoch()
    except TrainingError as error:
        if error.model is None:
            raise
        raise TrainingError(f"{job.tasks[error.model].name}: {error}", error.model) from error


def _progress(cohort: Cohort) -> Progress:
    return Progress(
        epoch=cohort.epoch,
        active=sum(cohort.active),
        accuracies=cohort.mean_accuracies,
        graphs=sum(graphs_seen(cohort)),
        seconds=cohort.seconds,
        peak_memory=peak_memory(cohort.dataset.device),
    )


Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Report:
    """What a worker in another process sends: a message, and from time to time the state of the cohort."""

    message: Message
    state: Arrays | None = None


def reports(job: Job, work: Work) -> Iterator[Report]:
    """Train a job; the reports of it, fewer than one per epoch if epochs are short."""
    reported = saved = time.monotonic()
    pause = work.checkpoint_seconds
    for update in train(job, work):
        start = time.monotonic()
        if not isinstance(update.message, Progress):
            yield Report(update.message)
        elif start - saved >= pause:
            state = {name: t.detach().cpu().numpy() for name, t in update.state().items()}
            yield Report(update.message, state)
            reported = saved = time.monotonic()
            if pause > 0:
                pause = max(work.checkpoint_seconds, (saved - start) / SAVING_SHARE)
        elif start - reported >= REPORT_SECONDS:
            yield Report(update.message)
            reported = start


class Unfinished:
    """The jobs that other processes train, with the last state of each: a lost one continues from there."""

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self._started: dict[int, float] = {}
        self._losses: Counter[int] = Counter()

    def add(self, job: Job) -> None:
        self.jobs[job.number] = job
        self._started[job.number] = time.monotonic()

    def received(self, number: int, report: Report) -> Update:
        """The update of a report."""
        if not isinstance(report.message, Progress):
            del self.jobs[number], self._losses[number]
            return Update(number, report.message, dict)
        if report.state is not None:
            state = {name: torch.tensor(array) for name, array in report.state.items()}
            self.jobs[number] = replace(self.jobs[number], state=state)
            del self._losses[number]
        job = self.jobs[number]
        return Update(number, report.message, lambda: job.state)

    def lost(self, number: int, worker: str, why: str) -> tuple[Job, str]:
        """The job that continues a lost one, and a message; a TrainingError if it is lost again and again."""
        self._losses[number] += 1
        job = self.jobs[number]
        if self._losses[number] >= MAX_LOSSES:
            raise TrainingError(
                f"{job.names[0]} and the models next to it lost {MAX_LOSSES} workers in a row, the last one {worker} "
                f"({why}): is there enough memory? Try fewer models side by side, such as --cohort "
                f"{max(len(job.tasks) // 2, 1)}"
            )
        if job.seconds is not None:
            spent = time.monotonic() - self._started[number]
            job = replace(job, seconds=max(job.seconds - spent, 0.0))
        epoch = int(job.state["run.epoch"]) if job.state else 0
        models = f"{len(job.tasks)} models continue" if len(job.tasks) > 1 else "1 model continues"
        self.add(job)
        return job, f"lost {worker} ({why}): {models} from epoch {epoch}"


def as_sent(error: Exception) -> Exception:
    """An error that survives the way to another process: itself if it is ours, otherwise its traceback as text."""
    if isinstance(error, DiffPoolError):
        return error
    return RuntimeError("".join(traceback.format_exception(error)))
