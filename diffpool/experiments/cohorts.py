"""Tasks trained side by side: which ones, with which initial parameters, and what is kept of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

import torch

from diffpool.architecture import Architecture
from diffpool.builder import build
from diffpool.data import GraphDataset
from diffpool.errors import TrainingError
from diffpool.experiments.checkpoint import Progress
from diffpool.experiments.tasks import Results, Task, Trained
from diffpool.nn import GraphClassifier
from diffpool.training import Cohort, evaluate_cohort, fit_inputs

# Rows of a batch that keep the device busy: more of them bring no more graphs a second on the CPU (its caches end), and
# some 20 kB each on a GPU.
ROWS = {"cpu": 16_000, "cuda": 400_000}
MOST = 500


def usual_size(architecture: Architecture, dataset: GraphDataset, batch_size: int) -> int:
    """How many models to train side by side: as many as fill the device, fewer of wide ones."""
    rows = batch_size * dataset.graphs.num_nodes / max(len(dataset), 1)
    wide = max(architecture.hidden / 64, 1 / 4)
    budget = ROWS.get(dataset.x.device.type, ROWS["cuda"])
    return min(max(int(budget / max(rows * wide, 1)), 1), MOST)


def next_tasks(
    tasks: Sequence[Task],
    done: Results,
    size: int | None,
    dataset: GraphDataset,
    most: int | None = None,
) -> list[Task]:
    """The first tasks that are not done, all of one architecture: what a run trains next depends on nothing else.

    `size` of them, by default as many as suit the device, but no more than `most`.
    """
    open_tasks = [task for task in tasks if task.name not in done]
    if not open_tasks:
        return []
    first = open_tasks[0].method
    if size is None:
        size = usual_size(first.architecture, dataset, first.training.batch_size)
    alike = [t for t in open_tasks if t.method.architecture == first.architecture]
    return alike[: size if most is None else min(size, most)]


def stacked_models(tasks: Sequence[Task], dataset: GraphDataset) -> GraphClassifier:
    """The untrained models side by side, each with the parameters of its own seed and the inputs of its own graphs."""

    def model(models: int = 1) -> GraphClassifier:
        shape = (dataset.num_features, dataset.num_outputs, dataset.largest, models)
        channels = 0 if dataset.feature_map is None else dataset.feature_map.num_edge_features
        return build(tasks[0].method.architecture, *shape, edge_features=channels)

    states = []
    with torch.random.fork_rng(devices=[]):
        for task in tasks:
            torch.default_generator.manual_seed(task.method.training.seed)
            states.append(model().state_dict())
    with torch.device("meta"):
        together = model(len(tasks))
    together.load_state_dict(
        {name: torch.cat([s[name] for s in states]) for name in states[0]}, assign=True
    )
    together = together.to(device=dataset.x.device, dtype=dataset.x.dtype)
    for number, task in enumerate(tasks):
        fit_inputs(together, dataset, task.split.train, number)
    return together


@dataclass(frozen=True)
class Snapshot:
    """A cohort after an epoch."""

    epoch: int
    active: int  # models that go on
    accuracies: list[
        float
    ]  # of every epoch: mean validation accuracy, with the last of those that have stopped
    graphs: int  # training graphs seen so far
    seconds: float


class CohortRun:
    """The training of some tasks side by side, with the curves that `Cohort` does not keep."""

    def __init__(
        self, tasks: Sequence[Task], dataset: GraphDataset, progress: Progress | None = None
    ):
        self.tasks, self.dataset = list(tasks), dataset
        self.cohort = Cohort(
            stacked_models(tasks, dataset),
            dataset,
            [task.split for task in tasks],
            [task.method.training for task in tasks],
        )
        self.curves: list[list[tuple[float, float]]] = [[] for _ in tasks]
        self.means: list[float] = []
        self.seconds = 0.0
        if progress is not None:
            self.cohort.load_state(dict(progress.state))
            self.curves, self.seconds = progress.curves, progress.seconds
            self.means = [self._mean(epoch) for epoch in range(self.cohort.epoch)]

    def epochs(self) -> Iterator[Snapshot]:
        """Train to the end, epoch by epoch."""
        while not self.cohort.finished:
            try:
                rows = self.cohort.train_epoch()
            except TrainingError as error:
                if error.model is None:
                    raise
                name = self.tasks[error.model].name
                raise TrainingError(f"{name}: {error}", error.model) from error
            for row, curve in zip(rows, self.curves, strict=True):
                if row is not None:
                    assert row.validation_accuracy is not None
                    curve.append((row.validation_loss, row.validation_accuracy))
            self.seconds += next(row.seconds for row in rows if row is not None)
            self.means.append(self._mean(self.cohort.epoch - 1))
            yield Snapshot(
                epoch=self.cohort.epoch,
                active=sum(self.cohort.active),
                accuracies=self.means,
                graphs=sum(self._graphs()),
                seconds=self.seconds,
            )

    def _mean(self, epoch: int) -> float:
        return fmean(curve[min(epoch, len(curve) - 1)][1] for curve in self.curves)

    def progress(self) -> Progress:
        names = tuple(task.name for task in self.tasks)
        return Progress(names, self.cohort.state(), self.curves, self.seconds)

    def results(self) -> dict[str, Trained]:
        """What is kept of each model; only those with a test part are tested, in their best epoch."""
        cohort, seen = self.cohort, self._graphs()
        cohort.restore_best()
        scores = evaluate_cohort(cohort.model, cohort.batches, [t.split.test for t in self.tasks])
        parameters = sum(p[0].numel() for p in cohort.model.parameters())
        results = {}
        for number, task in enumerate(self.tasks):
            epoch = int(cohort.best_epoch[number])
            loss, accuracy = self.curves[number][epoch - 1]
            results[task.name] = Trained(
                epoch=epoch,
                validation_loss=loss,
                validation_accuracy=accuracy,
                curve=tuple(a for _, a in self.curves[number]),
                test_accuracy=scores[number].accuracy if len(task.split.test) else None,
                parameters=parameters,
                graphs=seen[number],
                seconds=self.seconds * seen[number] / sum(seen),
            )
        return results

    def _graphs(self) -> list[int]:
        return [
            len(task.split.train) * len(curve)
            for task, curve in zip(self.tasks, self.curves, strict=True)
        ]
