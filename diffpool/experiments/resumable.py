"""One run between its file of records and its checkpoint: it may end at any moment and go on later."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from diffpool.data import GraphDataset
from diffpool.errors import TrainingError
from diffpool.experiments.checkpoint import (
    Checkpoint,
    Progress,
    checkpoint_path,
    load_checkpoint,
    remove_checkpoint,
    save_checkpoint,
)
from diffpool.experiments.cohorts import CohortRun, Snapshot, next_tasks
from diffpool.experiments.origin import device_name, peak_memory, versions
from diffpool.experiments.protocols import Protocol
from diffpool.experiments.recorded import FoldResult, Heading, RunRecords
from diffpool.experiments.records import Record
from diffpool.experiments.run_key import run_key
from diffpool.experiments.tasks import FoldScore, Plan, Task
from diffpool.training import TOO_LITTLE_FOR_ONE, is_out_of_memory, release_memory


@dataclass(frozen=True)
class Status:
    """Where a run is, for a display."""

    models: int  # to be trained in all
    finished: int  # of them
    folds: int  # to be recorded in all
    records: tuple[Record, ...]  # so far
    tasks: tuple[str, ...]  # in training now
    epochs: int  # at most, of those
    now: Snapshot
    seconds_left: float  # at most: models may stop early


Watch = Callable[[Status], None]
Notify = Callable[[str], None]


class ResumableRun:
    """One run between its file of records and its checkpoint."""

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
        self.interval = checkpoint_seconds
        heading = Heading(
            key=run_key(plan, dataset, protocol),
            method=plan.method.name,
            dataset=dataset.name,
            features=dataset.features,
            protocol=protocol.name,
            seed=plan.seed,
            device=device_name(dataset.x.device),
            versions=versions(),
        )
        self.records = RunRecords(out, heading, plan.places())
        self.path = checkpoint_path(out, heading.key)
        self.checkpoint = Checkpoint()
        self.saved, self.pause = time.monotonic(), checkpoint_seconds

    def train(self, size: int | None) -> None:
        """Go on from the checkpoint until every fold is recorded."""
        self.checkpoint = load_checkpoint(self.path)
        if self.dataset.x.is_cuda:
            torch.cuda.reset_peak_memory_stats(self.dataset.x.device)
        self._record()
        while not self.records.complete:
            progress, self.checkpoint.progress = self.checkpoint.progress, None
            chosen = self._next(size, progress)
            if not self._train_cohort(chosen, progress):
                self._halve(len(chosen))
        remove_checkpoint(self.path)

    def _next(self, size: int | None, progress: Progress | None) -> list[Task]:
        """The tasks that were in training, with the neighbors that they had; else the next ones."""
        done = self.checkpoint.done
        tasks = self.protocol.tasks(self.plan, done)
        if progress is not None:
            by_name = {task.name: task for task in tasks}
            return [by_name[name] for name in progress.tasks]
        chosen = next_tasks(tasks, done, size, self.dataset, self.checkpoint.most)
        if not chosen:
            raise TrainingError(
                f"expected records of all folds in {self.records.out}, got fewer: was the file changed by hand?"
            )
        return chosen

    def _train_cohort(self, tasks: list[Task], progress: Progress | None) -> bool:
        """Train the tasks side by side to the end; False if memory does not suffice for that.

        Once it has returned, no traceback holds on to the memory any more.
        """
        try:
            run = CohortRun(tasks, self.dataset, progress)
            for now in run.epochs():
                if time.monotonic() - self.saved >= self.pause:
                    self._save(run.progress())
                self.watch(self._status(tasks, now))
            self.checkpoint.done.update(run.results())
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            return False
        self._save()
        self._record()
        return True

    def _halve(self, models: int) -> None:
        """Train half as many from now on, also after an interruption: so the results are those of a run left alone."""
        release_memory(self.dataset.x.device)
        if models == 1:
            raise TrainingError(TOO_LITTLE_FOR_ONE)
        self.checkpoint.most = -(-models // 2)
        self.notify(
            f"no memory for {models} models side by side: "
            f"they start anew, {self.checkpoint.most} at a time"
        )
        self._save()

    def _save(self, progress: Progress | None = None) -> None:
        start = time.monotonic()
        peaks = (self.checkpoint.peak_memory, peak_memory(self.dataset.x.device))
        self.checkpoint.peak_memory = max((p for p in peaks if p is not None), default=None)
        save_checkpoint(self.path, replace(self.checkpoint, progress=progress))
        self.saved = time.monotonic()
        if self.interval > 0:  # a large checkpoint is written less often
            self.pause = max(self.interval, 20 * (self.saved - start))

    def _record(self) -> None:
        """Append the records of the folds that are finished and not recorded yet."""
        scores = self.protocol.scores(self.plan, self.checkpoint.done)
        self.records.add([self._result(score) for score in scores])

    def _result(self, score: FoldScore) -> FoldResult:
        seconds = sum(result.seconds for result in score.results)
        return FoldResult(
            repeat=score.repeat,
            fold=score.fold,
            settings={
                "architecture": asdict(score.task.method.architecture),
                "training": asdict(score.task.method.training),
            },
            accuracy=100 * score.accuracy,
            epoch=score.epoch,
            parameters=score.results[-1].parameters,
            seconds=seconds,
            graphs_per_second=sum(result.graphs for result in score.results) / max(seconds, 1e-9),
            peak_memory=self.checkpoint.peak_memory,
            details=score.details,
        )

    def _status(self, tasks: list[Task], now: Snapshot) -> Status:
        models = self.protocol.models(self.plan)
        finished = len(self.checkpoint.done)
        epochs = max(task.method.training.epochs for task in tasks)
        a_model = sum(len(task.split.train) for task in tasks) / len(tasks)  # graphs in an epoch
        later = models - finished - len(tasks)
        left = a_model * (now.active * (epochs - now.epoch) + later * epochs)
        return Status(
            models=models,
            finished=finished,
            folds=len(self.plan.places()),
            records=tuple(self.records.found),
            tasks=tuple(task.name for task in tasks),
            epochs=epochs,
            now=now,
            seconds_left=left * now.seconds / max(now.graphs, 1),
        )
