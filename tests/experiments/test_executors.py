"""Executors: the records do not depend on where cohorts are trained, nor on workers that die."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import complaint

from diffpool import load_model
from diffpool.cli.evaluate_display import line
from diffpool.data import GraphDataset, embedded
from diffpool.errors import SettingError, TrainingError
from diffpool.experiments import (
    Method,
    Nested,
    Record,
    Status,
    evaluate,
    make_grid,
    read_records,
    settings_for,
    tune,
)
from diffpool.experiments.checkpoint import checkpoint_path, read_checkpoint
from diffpool.experiments.cohorts import next_tasks
from diffpool.experiments.jobs import (
    MAX_LOSSES,
    Finished,
    Job,
    OutOfMemory,
    Progress,
    Report,
    Unfinished,
    Update,
    Work,
    reports,
)
from diffpool.experiments.plan import make_plan
from diffpool.experiments.processes import ProcessPerDevice, parse_devices
from diffpool.experiments.protocols import Tenfold
from diffpool.experiments.status import Notify

NESTED = Nested(make_grid({"hidden": [4, 6]}), final_runs=1)
PROTOCOLS: dict[str, Any] = {"paper": "paper", "tenfold": "tenfold", "nested": NESTED}


class InTurns:
    """Trains several jobs in this process, an epoch of each in turn, like workers that are equally fast.

    A job is taken from its worker before every epoch in `losses`, counted over all jobs, and continues from its last
    state on another one. Jobs of more than `fitting` models do not fit into memory.
    """

    device, device_name = "cpu", "test"

    def __init__(self, workers: int, losses: tuple[int, ...] = (), fitting: int = 1000):
        self.workers, self.losses, self.fitting = workers, losses, fitting
        self.epochs, self.sizes, self.running = 0, list[int](), dict[int, Iterator[Report]]()

    def start(self, work: Work, notify: Notify) -> None:
        self.work, self.notify, self.unfinished = work, notify, Unfinished()

    def submit(self, job: Job) -> None:
        assert len(self.running) < self.workers
        self.sizes.append(len(job.tasks))
        self.unfinished.add(job)
        fits = len(job.tasks) <= self.fitting
        self.running[job.number] = (
            reports(job, self.work) if fits else iter([Report(OutOfMemory())])
        )

    def next(self) -> Update:
        number = next(iter(self.running))
        stream = self.running.pop(number)
        self.epochs += 1
        if self.epochs in self.losses:
            job, message = self.unfinished.lost(number, "a worker", "test")
            self.notify(message)
            self.submit(job)
            return self.next()
        report = next(stream)
        if isinstance(report.message, Progress):
            self.running[number] = stream  # the last in turn
        return self.unfinished.received(number, report)

    def stop(self) -> None:
        self.running = {}


@pytest.fixture(scope="module")
def dataset() -> GraphDataset:
    return embedded(40, rungs=2)


@pytest.fixture(scope="module")
def method() -> Method:
    settings = {"hidden": 4, "epochs": 4, "patience": 2, "batch_size": 10, "dropout": 0.2}
    return settings_for("diffpool", "embedded", **settings)


def comparable(records: Any) -> list[dict[str, Any]]:
    """What must be equal, in the order of the folds; the processor has another name in these tests."""
    found: list[Record] = sorted(records, key=lambda r: (r.repeat, r.fold))
    return [{**record.comparable, "device": ""} for record in found]


def interrupt_after(epochs: int) -> Callable[[Status], None]:
    seen = 0

    def watch(status: Status) -> None:
        nonlocal seen
        seen += 1
        if seen == epochs:
            raise KeyboardInterrupt

    return watch


@pytest.mark.parametrize("name", PROTOCOLS)
def test_several_workers_of_which_some_die_make_the_same_records(
    name: str, dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"cohort": 4, "checkpoint_seconds": 0}
    alone = evaluate(method, dataset, PROTOCOLS[name], out=tmp_path / "alone", **options)
    notices: list[str] = []
    options |= {"executor": InTurns(3, losses=(1, 5, 9, 10)), "notify": notices.append}
    found = evaluate(method, dataset, PROTOCOLS[name], out=tmp_path / "together", **options)
    assert comparable(found.records) == comparable(alone.records)
    assert found.key == alone.key
    assert len(notices) == 4
    assert notices[:2] == [
        "lost a worker (test): 4 models continue from epoch 0",
        "lost a worker (test): 4 models continue from epoch 1",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "together"]


@pytest.mark.parametrize("order", [(3, 1, 3)])
def test_a_run_continues_to_the_bit_with_another_number_of_workers(
    order: tuple[int, ...], dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"cohort": 2, "checkpoint_seconds": 0}
    alone = evaluate(method, dataset, out=tmp_path / "alone", **options)
    path = checkpoint_path(tmp_path / "parts", alone.key)
    most = 0
    for workers in order:
        with pytest.raises(KeyboardInterrupt):
            evaluate(
                method,
                dataset,
                out=tmp_path / "parts",
                executor=InTurns(workers),
                watch=interrupt_after(5),
                **options,
            )
        most = max(most, len(read_checkpoint(path).cohorts))
    assert most == 3
    parts = evaluate(method, dataset, out=tmp_path / "parts", **options)
    assert comparable(parts.records) == comparable(alone.records)


def test_tuning_with_several_workers_of_which_some_die_makes_the_same_model(
    dataset: GraphDataset, tmp_path: Path
) -> None:
    method = settings_for("diffpool", "embedded", epochs=4)
    space = make_grid({"hidden": [4, 6], "dropout": [0.0, 0.5], "clip": [1.0, 2.0]})
    options: dict[str, Any] = {"space": space, "trials": 6, "ensemble": 3, "checkpoint_seconds": 0}
    tune(method, dataset, out=tmp_path / "alone", **options)
    executor = InTurns(3, losses=(2, 7, 10))
    options |= {"executor": executor, "notify": lambda text: None}
    tune(method, dataset, out=tmp_path / "together", **options)
    one, other = (load_model(tmp_path / name).model.state_dict() for name in ("alone", "together"))
    assert all(torch.equal(one[name], other[name]) for name in one)
    lines = [(tmp_path / name / "trials.csv").read_text() for name in ("alone", "together")]
    tried = [[row.split(",")[:3] for row in text.splitlines()] for text in lines]
    assert tried[0] == tried[1]
    assert executor.sizes[:2] == [3, 3]  # of each architecture


def test_cohorts_that_do_not_fit_into_memory_are_halved_once(
    dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    alone = evaluate(method, dataset, out=tmp_path / "alone", cohort=3)
    notices: list[str] = []
    executor = InTurns(2, fitting=3)
    options: dict[str, Any] = {"executor": executor, "notify": notices.append, "cohort": 5}
    found = evaluate(method, dataset, out=tmp_path / "together", **options)
    assert executor.sizes == [5, 5, 3, 3, 3, 1]
    assert notices == 2 * [
        "not enough memory for 5 models side by side: restarting with 3 at a time"
    ]
    assert comparable(found.records) == comparable(alone.records)


def test_a_job_that_loses_every_worker_is_an_error(
    dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    executor = InTurns(1, losses=tuple(range(1, 20)))
    with pytest.raises(TrainingError, match=r"lost 3 workers in a row.*such as --cohort 5"):
        evaluate(
            method,
            dataset,
            out=tmp_path / "r",
            executor=executor,
            cohort=10,
            notify=lambda text: None,
        )
    assert executor.epochs == MAX_LOSSES


def test_after_the_deadline_all_workers_end_their_trials(
    dataset: GraphDataset, tmp_path: Path
) -> None:
    method = settings_for("diffpool", "embedded", epochs=4)
    space = make_grid({"hidden": [4, 6], "dropout": [0.0, 0.5]})
    result = tune(
        method,
        dataset,
        out=tmp_path,
        space=space,
        trials=4,
        ensemble=2,
        max_seconds=1e-6,
        executor=InTurns(2),
        checkpoint_seconds=0,
    )
    assert [trial.epochs for trial in result.trials] == [1, 1]  # the first cohort
    assert sum(trial.members for trial in result.trials) == 2


def test_idle_workers_are_explained_once(
    dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    notices: list[str] = []
    options: dict[str, Any] = {"executor": InTurns(3), "notify": notices.append}
    evaluate(method, dataset, out=tmp_path / "r", **options)
    assert notices == [
        "1 of 3 workers in use, with 10 models: --cohort 4 shares them out (results may then differ in rounding)"
    ]
    evaluate(method, dataset, out=tmp_path / "shared", cohort=4, **options)
    assert len(notices) == 1


def test_gpus_share_the_models_only_if_some_would_be_idle(
    dataset: GraphDataset, method: Method
) -> None:
    tasks = Tenfold().tasks(make_plan(method, dataset), {})

    def size(parts: int, device: str = "cpu", size: int | None = None) -> int:
        return len(next_tasks(tasks, {}, size, dataset, None, device, parts))

    assert [size(parts) for parts in (1, 2, 3, 10, 40)] == [10, 5, 4, 1, 1]
    assert size(3, "cuda") == 4
    assert size(3, size=7) == 7


def test_the_status_is_that_of_all_cohorts(
    dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    seen: list[Status] = []
    options: dict[str, Any] = {"executor": InTurns(2), "checkpoint_seconds": 0, "cohort": 5}
    evaluate(method, dataset, out=tmp_path / "r", watch=seen.append, **options)
    both = next(status for status in seen if status.cohorts == 2)
    assert len(both.tasks) == both.active == 10
    assert (both.epoch, both.max_epochs, both.models) == (1, 4, 10)
    assert line(both).startswith("folds 0/10, models 0/10, 10 in training, epoch 1/4, ")


def test_states_are_sent_no_more_often_than_asked(dataset: GraphDataset, method: Method) -> None:
    tasks = tuple(Tenfold().tasks(make_plan(method, dataset), {})[:2])
    for seconds, states in ((0.0, 4), (60.0, 0)):
        sent = list(reports(Job(1, tasks), Work(dataset, Tenfold(), seconds)))
        assert isinstance(sent[-1].message, Finished)
        assert sum(report.state is not None for report in sent) == states


def test_a_process_that_is_killed_is_replaced_and_the_records_are_the_same(
    dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    """Two processes train five models each; one is killed after some epochs."""
    method = replace(method, training=replace(method.training, epochs=20, patience=20))
    options: dict[str, Any] = {"checkpoint_seconds": 0}
    options["cohort"] = 5
    alone = evaluate(method, dataset, out=tmp_path / "alone", **options)
    executor, notices, killed = ProcessPerDevice(["cpu", "cpu"]), list[str](), list[int]()

    def kill(status: Status) -> None:
        if not killed and status.epoch >= 2:
            pid = executor._running[0].process.pid
            assert pid is not None
            os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))
            killed.append(pid)

    options |= {"executor": executor, "watch": kill, "notify": notices.append}
    found = evaluate(method, dataset, out=tmp_path / "together", **options)
    assert [r.comparable for r in found.records] == [r.comparable for r in alone.records]
    assert len(read_records(tmp_path / "together")) == 10
    assert len(killed) == 1
    assert len(notices) == 1
    assert notices[0].startswith("lost the process on cpu (killed by signal 9): 5 models continue")
    assert not executor._running


def test_an_error_in_a_process_is_that_of_this_process(
    dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    broken = replace(dataset, x=dataset.x * float("inf"))
    found = []
    for executor in (None, ProcessPerDevice(["cpu"])):
        with pytest.raises(TrainingError) as caught:
            evaluate(method, broken, out=tmp_path / "r", executor=executor)
        found.append(str(caught.value))
    assert "the loss became nan" in found[0]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cpu,", "expected --devices to be up to 256 devices separated by commas"),
        ("cpu,auto", "expected --devices to name CPUs or GPUs, such as 0,1 or cpu,cpu, got 'auto'"),
        ("cpu,gpu", "got 'gpu'"),
        ("cpu,cuda:99", r"expected --devices to be available on this machine, got 'cuda:99' \("),
        ("99", r"got 'cuda:99' \("),
    ],
)
def test_unknown_devices_are_an_error(text: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        parse_devices(text)


def test_devices_of_two_types_are_an_error(monkeypatch: Any) -> None:
    monkeypatch.setattr("diffpool.experiments.processes.select_device", lambda name, option: name)
    assert parse_devices("0, cuda:1") == ["cuda:0", "cuda:1"]
    with pytest.raises(SettingError, match="expected --devices to be devices of one type"):
        parse_devices("cpu,0")


@pytest.mark.parametrize("command", ["evaluate", "tune"])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--devices", "cpu,", "--epochs", "1"], "separated by commas, such as 0,1 or cpu,cpu"),
        (["--devices", "cpu", "--device", "cpu"], "expected --device or --devices, got both"),
        (["--devices", "cpu", "--cluster", "ray"], "expected --devices or --cluster, got both"),
    ],
)
def test_contradictory_options_are_one_line(
    command: str, words: list[str], message: str, capsys: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in complaint(capsys, monkeypatch, command, "embedded", *words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--devices", "tpu"], "expected --devices to name CPUs or GPUs"),
        (["--devices", "cpu", "--device", "cpu"], "expected --device or --devices, got both"),
        (["--cluster", "spark"], "expected --cluster to be ray or ray://ADDRESS, got 'spark'"),
    ],
)
def test_reproduce_reports_a_wrong_device_before_the_first_cell(
    words: list[str], message: str, capsys: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    words = ["table1", "--records", str(tmp_path), "--list", *words]
    assert message in complaint(capsys, monkeypatch, "reproduce", *words)
