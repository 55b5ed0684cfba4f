"""The run of a neural network. It may be killed at any time, and continues from its records and checkpoint."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from diffpool.data import GraphDataset
from diffpool.errors import SettingError, TrainingError
from diffpool.experiments.checkpoint import (
    Checkpoint,
    InTraining,
    checkpoint_path,
    load_checkpoint,
    remove_checkpoint,
    save_checkpoint,
)
from diffpool.experiments.cohorts import next_tasks
from diffpool.experiments.executors import Executor
from diffpool.experiments.jobs import SAVING_SHARE, Finished, Job, Progress, Update, Work
from diffpool.experiments.methods import title
from diffpool.experiments.plan import FoldScore, Plan, Task, Trained
from diffpool.experiments.protocols import Nested, Protocol
from diffpool.experiments.provenance import (
    commit,
    fold_digests,
    run_key,
    versions,
)
from diffpool.experiments.records import Heading, Record, RunRecords
from diffpool.experiments.status import Notify, Search, Status, Watch
from diffpool.training import TOO_LITTLE_FOR_ONE, release_memory
from diffpool.training.cohort import State

SKIPPED = Trained(
    0, math.inf, 0.0, (), None, 0, 0, 0.0, failed=True
)  # settings that were not tried


class Running:
    """A job in training, its progress, and its latest state, which is empty before the first one."""

    def __init__(self, job: Job):
        self.job = job
        self.progress: Progress | None = None
        self.state: Callable[[], State] = lambda: job.state


class NetworkRun:
    """Trains the models of a plan, cohort by cohort, and records every fold when its models are trained.

    The checkpoint contains the finished models and the states of the cohorts in training. It is written at most every
    `checkpoint_seconds`, and less often if it is large.
    """

    def __init__(
        self,
        plan: Plan,
        protocol: Protocol,
        dataset: GraphDataset,
        out: Path,
        executor: Executor,
        watch: Watch,
        notify: Notify,
        checkpoint_seconds: float,
    ):
        self.plan, self.protocol, self.dataset = plan, protocol, dataset
        self.executor, self.watch, self.notify = executor, watch, notify
        self.heading = Heading(
            key=run_key(plan, dataset, protocol, executor.device),
            method=title(plan.method),
            dataset=dataset.name,
            features=dataset.features,
            protocol=protocol.name,
            seed=plan.seed,
            commit=commit(),
            device=executor.device_name,
            versions=versions(),
        )
        self.folds = fold_digests(plan.folds)
        self.records = RunRecords(out, self.heading, plan.fold_indices())
        self.path = checkpoint_path(out, self.heading.key)
        self.checkpoint = Checkpoint()
        self.checkpoint_seconds = self.pause = checkpoint_seconds
        self.saved = time.monotonic()
        self.search_seconds: float | None = None  # for trying settings, also before an interruption
        self.deadline: float | None = None  # the end of this time; see `time.monotonic`
        self.search: Search | None = None  # before the cohorts in training
        self.jobs = 0  # number of the last one
        self.advised = False
        self.running: dict[int, Running] = {}
        self.waiting: list[Job] = []  # to be continued when a worker is free

    def train(self, size: int | None, again: bool = False) -> None:
        """Continue from the checkpoint until every fold is recorded, with `size` models side by side.

        The checkpoint stays: see `finish`. `again`: until every model is in the checkpoint, because it is needed, even
        if the folds are recorded.
        """
        self.checkpoint = load_checkpoint(self.path, self.notify)
        self._set_deadline()
        if self.dataset.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.dataset.device)
        self._record()
        protocol = replace(self.protocol)  # without its caches
        work = Work(self.dataset, protocol, self.checkpoint_seconds)
        self.executor.start(work, self.notify)
        try:
            self._resume()
            while self._open_tasks() if again else not self.records.complete:
                self._skip_late_points()
                self._submit(size)
                self._until_a_cohort_ends()
        finally:
            self.executor.stop()

    def _set_deadline(self) -> None:
        if self.search_seconds is not None:
            spent = sum(result.seconds for result in self.checkpoint.done.values())
            spent += sum(float(c.state["run.seconds"]) for c in self.checkpoint.cohorts)
            self.deadline = (
                time.monotonic() + self.search_seconds - spent / max(self.executor.workers, 1)
            )

    @property
    def _late(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def _open_tasks(self) -> bool:
        done = self.checkpoint.done
        return any(task.name not in done for task in self.protocol.tasks(self.plan, done))

    def finish(self) -> None:
        """Remove the checkpoint: the records are complete, and nothing else is needed."""
        remove_checkpoint(self.path)

    def _resume(self) -> None:
        """The cohorts that were in training are the first ones again, unchanged."""
        by_name = {}
        if self.checkpoint.cohorts:
            tasks = self.protocol.tasks(self.plan, self.checkpoint.done)
            by_name = {task.name: task for task in tasks}
        for cohort in self.checkpoint.cohorts:
            chosen = tuple(by_name[name] for name in cohort.tasks)
            self.waiting.append(self._job(chosen, cohort.state))

    def _job(self, tasks: Sequence[Task], state: Mapping[str, Tensor]) -> Job:
        self.jobs += 1
        return Job(self.jobs, tuple(tasks), dict(state))

    def _taken(self) -> set[str]:
        """The models in training, and those of cohorts that wait to be continued."""
        jobs = [running.job for running in self.running.values()] + self.waiting
        return {name for job in jobs for name in job.names}

    def _skip_late_points(self) -> None:
        """After the deadline, give up the settings that are not tried yet, if some are."""
        done = self.checkpoint.done
        if not self._late:
            return
        search, taken = self.protocol.search(self.plan, done), self._taken()
        if search is not None and search.tried:
            for task in self.protocol.tasks(self.plan, done):
                if task.may_fail and task.name not in done and task.name not in taken:
                    done[task.name] = SKIPPED

    def _submit(self, size: int | None) -> None:
        """Keep all workers busy."""
        self.search = self.protocol.search(self.plan, self.checkpoint.done)
        while len(self.running) < max(self.executor.workers, 1):
            job = self.waiting.pop(0) if self.waiting else self._next_job(size)
            if job is None:
                break
            left = None if self.deadline is None else max(self.deadline - time.monotonic(), 0.0)
            job = replace(job, seconds=left)
            self.running[job.number] = Running(job)
            self.executor.submit(job)
        self._advise(size)
        if not self.running:
            raise TrainingError(
                f"all models are trained, but {self.records.path} lacks records of some folds: was the file edited?"
            )

    def _next_job(self, size: int | None) -> Job | None:
        done = self.checkpoint.done
        tasks = self.protocol.tasks(self.plan, done)
        known = done.keys() | self._taken()
        first = next((task for task in tasks if task.name not in known), None)
        if first is None or (self._late and first.may_fail and self.running):
            return None
        max_models, device = self.checkpoint.max_models, self.executor.device
        parts = 1
        if device != "cpu" and not self.protocol.compete(first):
            parts = max(self.executor.workers - len(self.running), 1)
        chosen = next_tasks(tasks, known, size, self.dataset, max_models, device, parts)
        return self._job(chosen, {})

    def _advise(self, size: int | None) -> None:
        """Say how to use workers that are idle from the start, because the models are in too few cohorts.

        They are not shared out, so that on a CPU the records are those of a single worker to the bit.
        """
        workers, started = self.executor.workers, list(self.running.values())
        tasks = [task for running in started for task in running.job.tasks]
        if len(started) >= workers or len(started) < self.jobs or size or self.advised:
            return
        self.advised = True
        if len(tasks) > len(started) and not any(map(self.protocol.compete, tasks)):
            self.notify(
                f"{len(started)} of {workers} workers in use, with {len(tasks)} models: --cohort "
                f"{-(-len(tasks) // workers)} shares them out (results may then differ in rounding)"
            )

    def _until_a_cohort_ends(self) -> None:
        """Handle messages until a cohort is trained, or does not fit into memory."""
        while True:
            update = self.executor.next()
            message = update.message
            if isinstance(message, Progress):
                self._note(update, message)
                continue
            job = self.running.pop(update.number).job
            if isinstance(message, Finished):
                self.checkpoint.done.update(message.results)
                self._note_memory(message.peak_memory)
                self._save()
                self._record()
            else:
                self._halve(len(job.tasks))
            return

    def _note(self, update: Update, progress: Progress) -> None:
        running = self.running[update.number]
        running.progress, running.state = progress, update.state
        self._note_memory(progress.peak_memory)
        if time.monotonic() - self.saved >= self.pause:
            self._save()
        self.watch(self._status())

    def _note_memory(self, peak: int | None) -> None:
        peaks = (self.checkpoint.peak_memory, peak)
        self.checkpoint.peak_memory = max((p for p in peaks if p is not None), default=None)

    def _halve(self, models: int) -> None:
        """Train half as many models at a time from now on.

        The checkpoint stores the number, so that an interrupted run has the same cohorts as an uninterrupted one.
        """
        release_memory(self.dataset.device)  # the cohort's state was still in use here
        if models == 1:
            raise TrainingError(TOO_LITTLE_FOR_ONE)
        half = -(-models // 2)
        self.checkpoint.max_models = min(half, self.checkpoint.max_models or half)
        self.notify(
            f"not enough memory for {models} models side by side: "
            f"restarting with {self.checkpoint.max_models} at a time"
        )
        self._save()

    def _save(self) -> None:
        """Write the checkpoint, with the cohorts in training."""
        start = time.monotonic()
        cohorts = [(r.job, r.state()) for r in self.running.values()]
        cohorts += [(job, job.state) for job in self.waiting]
        checkpoint = replace(
            self.checkpoint,
            cohorts=tuple(InTraining(job.names, state) for job, state in cohorts if state),
        )
        try:
            save_checkpoint(self.path, checkpoint)
        except OSError as error:
            raise SettingError(f"cannot write {self.path} ({error.strerror})") from error
        self.saved = time.monotonic()
        if self.checkpoint_seconds > 0:
            self.pause = max(self.checkpoint_seconds, (self.saved - start) / SAVING_SHARE)

    def _record(self) -> None:
        """Append the records of the folds that are finished and not recorded yet."""
        scores = self.protocol.scores(self.plan, self.checkpoint.done)
        self.records.add([self._make_record(score) for score in scores])

    def _make_record(self, score: FoldScore) -> Record:
        seconds = sum(result.seconds for result in score.results)
        return Record(
            **vars(self.heading),
            repeat=score.repeat,
            fold=score.fold,
            settings={
                "architecture": asdict(score.task.method.architecture),
                "training": asdict(score.task.method.training),
            },
            accuracy=None if score.accuracy is None else 100 * score.accuracy,
            epoch=score.epoch,
            parameters=score.results[-1].parameters,
            seconds=seconds,
            graphs_per_second=sum(result.graphs for result in score.results) / max(seconds, 1e-9),
            peak_memory=self.checkpoint.peak_memory,
            details={**score.details, **self._origin(score.repeat)},
        )

    def _origin(self, repeat: int) -> dict[str, Any]:
        """A digest of the folds, and the search space: with the settings, they identify what was evaluated."""
        origin: dict[str, Any] = {"folds": self.folds[repeat]}
        if isinstance(self.protocol, Nested):
            p = self.protocol
            origin["search"] = {"grid": dict(p.grid), "trials": p.trials}
            origin["search"] |= {"inner_folds": p.inner_folds, "final_runs": p.final_runs}
            origin["search"] |= {"halving": True} if p.halving else {}
        return origin

    def _status(self) -> Status:
        """The progress of all cohorts in training together."""
        known = [r for r in self.running.values() if r.progress is not None]
        parts = [(r.job, r.progress) for r in known if r.progress is not None]
        models = self.protocol.models(self.plan)
        finished = len(self.checkpoint.done)
        tasks = tuple(task for job, _ in parts for task in job.tasks)
        max_epochs = max(job.max_epochs for job, _ in parts)
        epoch = sum(p.epoch * len(job.tasks) for job, p in parts) // len(tasks)
        epoch_graphs = sum(len(task.split.train) for task in tasks) / len(tasks)  # of a model
        rate = sum(max(p.graphs, 1) / max(p.seconds, 1e-9) for _, p in parts)
        graphs = sum(p.graphs for _, p in parts)
        open_epochs = sum(p.active * (max_epochs - p.epoch) for _, p in parts)
        open_epochs += (models - finished - len(tasks)) * max_epochs
        search_left: float | None = None
        left = epoch_graphs * open_epochs / rate
        if self.deadline is not None and self.search is not None:
            search_left = max(self.deadline - time.monotonic(), 0.0)
            if tasks[0].may_fail:
                final = self.plan.method.training.ensemble
                left = min(left, search_left + epoch_graphs * final * max_epochs / rate)
        return Status(
            models=models,
            finished=finished,
            folds=len(self.records.folds),
            records=tuple(self.records.found),
            tasks=tuple(task.name for task in tasks),
            active=sum(p.active for _, p in parts),
            epoch=epoch,
            max_epochs=max_epochs,
            accuracies=_mean_curve([p.accuracies for _, p in parts]),
            graphs=graphs,
            seconds=graphs / rate,
            seconds_left=left,
            search=self.search,
            search_seconds=search_left,
            cohorts=len(parts),
        )


def _mean_curve(curves: Sequence[list[float]]) -> list[float]:
    """The mean of curves that are not equally long; a shorter one counts with its last value."""
    if len(curves) == 1:
        return curves[0]
    longest = max(len(curve) for curve in curves)
    return [fmean(c[min(i, len(c) - 1)] for c in curves) for i in range(longest)]
