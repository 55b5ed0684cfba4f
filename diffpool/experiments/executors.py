"""Executors train jobs. The protocol that a run uses, and the executor of this process, one job after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch

from diffpool.experiments.jobs import Job, Update, Work, train
from diffpool.experiments.provenance import device_name
from diffpool.experiments.status import Notify


class Executor(Protocol):
    """Trains several jobs at a time. Between `start` and `stop`, it has the data set of one run.

    Records do not depend on the executor: on a CPU they are equal to the bit, on GPUs up to rounding.
    """

    device: str  # the type of all its devices: the key of a run contains it
    device_name: str  # for the records

    @property
    def workers(self) -> int:
        """The number of jobs that are trained at the same time."""

    def start(self, work: Work, notify: Notify) -> None:
        """Get ready for the jobs of a run. `notify` is called with a message if a worker is lost."""

    def submit(self, job: Job) -> None:
        """Start a job. There are never more than `workers` jobs."""

    def next(self) -> Update:
        """Wait for the next message of any job. A worker that dies is replaced: its job goes on elsewhere."""

    def stop(self) -> None:
        """End all jobs at once; they go on from their last states when the run is started again."""


class Local:
    """Trains in this process, a job at a time."""

    workers = 1

    def __init__(self, device: torch.device):
        self.device, self.device_name = device.type, device_name(device)

    def start(self, work: Work, notify: Notify) -> None:
        self._work = work

    def submit(self, job: Job) -> None:
        self._updates: Iterator[Update] = train(job, self._work)

    def next(self) -> Update:
        return next(self._updates)

    def stop(self) -> None:
        self._updates = iter(())
