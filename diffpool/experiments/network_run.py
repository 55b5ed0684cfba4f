"""The run of a neural network. It may be killed at any time, and continues from its records and checkpoint."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from diffpool.data import GraphDataset
from diffpool.errors import SettingError, TrainingError
from diffpool.experiments.checkpoint import (
    Checkpoint,
    checkpoint_path,
    load_checkpoint,
    remove_checkpoint,
    save_checkpoint,
)
from diffpool.experiments.cohorts import graphs_seen, make_cohort, next_tasks, results
from diffpool.experiments.methods import title
from diffpool.experiments.plan import FoldScore, Plan, Task, Trained
from diffpool.experiments.protocols import Nested, Protocol
from diffpool.experiments.provenance import (
    commit,
    device_name,
    fold_digests,
    peak_memory,
    run_key,
    versions,
)
from diffpool.experiments.records import Heading, Record, RunRecords
from diffpool.experiments.status import Notify, Search, Status, Watch
from diffpool.training import TOO_LITTLE_FOR_ONE, Cohort, is_out_of_memory, release_memory

SKIPPED = Trained(
    0, math.inf, 0.0, (), None, 0, 0, 0.0, failed=True
)  # settings that were not tried
SAVING_SHARE = 0.05  # the largest share of the time that is spent on writing checkpoints


class NetworkRun:
    """Trains the models of a plan, cohort by cohort, and records every fold when its models are trained.

    The checkpoint contains the finished models and the state of the cohort in training. It is written at most every
    `checkpoint_seconds`, and less often if it is large.
    """

    def __init__(
        self,
        plan: Plan,
        protocol: Protocol,
        dataset: GraphDataset,
        out: Path,
        watch: Watch,
        notify: Notify,
        checkpoint_seconds: float,
    ):
        self.plan, self.protocol, self.dataset = plan, protocol, dataset
        self.watch, self.notify = watch, notify
        self.heading = Heading(
            key=run_key(plan, dataset, protocol),
            method=title(plan.method),
            dataset=dataset.name,
            features=dataset.features,
            protocol=protocol.name,
            seed=plan.seed,
            commit=commit(),
            device=device_name(dataset.device),
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
        self.search: Search | None = None  # before the cohort in training

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
        while self._open_tasks() if again else not self.records.complete:
            self._skip_late_points()
            tasks = self._next_tasks(size)
            if not self._train_cohort(tasks):
                self._halve(len(tasks))

    def _set_deadline(self) -> None:
        if self.search_seconds is not None:
            spent = sum(result.seconds for result in self.checkpoint.done.values())
            if self.checkpoint.tasks:
                spent += float(self.checkpoint.cohort["run.seconds"])
            self.deadline = time.monotonic() + self.search_seconds - spent

    @property
    def _late(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def _open_tasks(self) -> bool:
        done = self.checkpoint.done
        return any(task.name not in done for task in self.protocol.tasks(self.plan, done))

    def finish(self) -> None:
        """Remove the checkpoint: the records are complete, and nothing else is needed."""
        remove_checkpoint(self.path)

    def _skip_late_points(self) -> None:
        """After the deadline, give up the settings that are not tried yet, if some are."""
        done = self.checkpoint.done
        if not self._late or self.checkpoint.tasks:
            return
        search = self.protocol.search(self.plan, done)
        if search is not None and search.tried:
            for task in self.protocol.tasks(self.plan, done):
                if task.may_fail and task.name not in done:
                    done[task.name] = SKIPPED

    def _next_tasks(self, size: int | None) -> list[Task]:
        """The tasks that were in training, in the same cohort as before; otherwise the next tasks."""
        done = self.checkpoint.done
        tasks = self.protocol.tasks(self.plan, done)
        if self.checkpoint.tasks:
            by_name = {task.name: task for task in tasks}
            return [by_name[name] for name in self.checkpoint.tasks]
        chosen = next_tasks(tasks, done, size, self.dataset, self.checkpoint.max_models)
        if not chosen:
            raise TrainingError(
                f"all models are trained, but {self.records.path} lacks records of some folds: was the file edited?"
            )
        return chosen

    def _train_cohort(self, tasks: list[Task]) -> bool:
        """Train the tasks side by side to the end; returns False if there is not enough memory.

        The error is handled here, so that its traceback does not keep the memory in use.
        """
        state = dict(self.checkpoint.cohort)
        self.checkpoint.tasks, self.checkpoint.cohort = (), {}
        self.search = self.protocol.search(self.plan, self.checkpoint.done)
        try:
            cohort = make_cohort(tasks, self.dataset)
            if state:
                cohort.load_state(state)
            while not cohort.finished:
                self._train_epoch(tasks, cohort)
                cohort.stop(self.protocol.losers(tasks, cohort))
                if self._late and all(task.may_fail for task in tasks):
                    cohort.stop(range(len(tasks)))
                if time.monotonic() - self.saved >= self.pause:
                    self._save(tasks, cohort)
                self.watch(self._status(tasks, cohort))
            self.checkpoint.done.update(results(tasks, cohort))
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            return False
        self._save()
        self._record()
        return True

    def _train_epoch(self, tasks: list[Task], cohort: Cohort) -> None:
        try:
            cohort.train_epoch()
        except TrainingError as error:
            if error.model is None:
                raise
            raise TrainingError(f"{tasks[error.model].name}: {error}", error.model) from error

    def _halve(self, models: int) -> None:
        """Train half as many models at a time from now on.

        The checkpoint stores the number, so that an interrupted run has the same cohorts as an uninterrupted one.
        """
        release_memory(self.dataset.device)
        if models == 1:
            raise TrainingError(TOO_LITTLE_FOR_ONE)
        self.checkpoint.max_models = -(-models // 2)
        self.notify(
            f"not enough memory for {models} models side by side: "
            f"restarting with {self.checkpoint.max_models} at a time"
        )
        self._save()

    def _save(self, tasks: list[Task] | None = None, cohort: Cohort | None = None) -> None:
        """Write the checkpoint, with a cohort in training if there is one."""
        start = time.monotonic()
        peaks = (self.checkpoint.peak_memory, peak_memory(self.dataset.device))
        self.checkpoint.peak_memory = max((p for p in peaks if p is not None), default=None)
        checkpoint = self.checkpoint
        if tasks is not None and cohort is not None:
            names = tuple(task.name for task in tasks)
            checkpoint = replace(checkpoint, tasks=names, cohort=cohort.state())
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
        return origin

    def _status(self, tasks: list[Task], cohort: Cohort) -> Status:
        models = self.protocol.models(self.plan)
        finished = len(self.checkpoint.done)
        max_epochs = max(task.method.training.epochs for task in tasks)
        active, graphs = sum(cohort.active), sum(graphs_seen(cohort))
        epoch_graphs = sum(len(task.split.train) for task in tasks) / len(tasks)  # of a model
        later = models - finished - len(tasks)
        rate = max(graphs, 1) / max(cohort.seconds, 1e-9)
        search_left: float | None = None
        left = epoch_graphs * (active * (max_epochs - cohort.epoch) + later * max_epochs) / rate
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
            active=active,
            epoch=cohort.epoch,
            max_epochs=max_epochs,
            accuracies=cohort.mean_accuracies,
            graphs=graphs,
            seconds=cohort.seconds,
            seconds_left=left,
            search=self.search,
            search_seconds=search_left,
        )
