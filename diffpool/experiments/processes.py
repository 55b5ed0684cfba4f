"""The executor for several devices of one machine: a process for each."""

from __future__ import annotations

import contextlib
import multiprocessing
import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

import torch

from diffpool.cores import usable_cores
from diffpool.errors import SettingError
from diffpool.experiments.jobs import Job, Report, Unfinished, Update, Work, as_sent, reports
from diffpool.experiments.provenance import device_name
from diffpool.experiments.status import Notify
from diffpool.training.devices import select_device

MAX_PROCESSES = 256
STOP_SECONDS = 5.0  # for a process to end, before it is killed


def parse_devices(text: str, option: str = "--devices") -> list[str]:
    """The devices in a list such as `0,1` (two GPUs), `cuda:0,cuda:1` or `cpu,cpu`; all of them exist."""
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(names) > MAX_PROCESSES:
        raise SettingError(
            f"expected {option} to be up to {MAX_PROCESSES} devices separated by commas, such as 0,1 or cpu,cpu, "
            f"got {text!r}"
        )
    if wrong := [n for n in names if not re.fullmatch(r"\d+|cpu|cuda(:\d+)?", n)]:
        raise SettingError(
            f"expected {option} to name CPUs or GPUs, such as 0,1 or cpu,cpu, got {wrong[0]!r}"
        )
    found = [select_device(f"cuda:{name}" if name.isdecimal() else name, option) for name in names]
    if len({name.split(":")[0] for name in found}) > 1:
        raise SettingError(
            f"expected {option} to be devices of one type, because their results differ in rounding, got {text!r}"
        )
    return found


@dataclass
class _Worker:
    device: str
    process: SpawnProcess
    connection: Connection
    jobs: list[int] = field(default_factory=list)  # at most one


class ProcessPerDevice:
    """Trains on several devices of this machine, with a process for each.

    A device may occur several times, as in `["cpu", "cpu"]`. Processes are spawned: a script that uses this class needs
    `if __name__ == "__main__":`.
    """

    def __init__(self, devices: Sequence[str]):
        self.devices = parse_devices(",".join(devices), "devices")
        self.device = self.devices[0].split(":")[0]
        names = {device_name(torch.device(name)) for name in self.devices}
        self.device_name = ", ".join(sorted(names))
        self._running: list[_Worker] = []

    def __str__(self) -> str:
        return ", ".join(self.devices)

    @property
    def workers(self) -> int:
        return len(self.devices)

    def start(self, work: Work, notify: Notify) -> None:
        self._work, self._notify, self._unfinished = work, notify, Unfinished()
        self._running = [self._spawn(device) for device in self.devices]

    def _spawn(self, device: str) -> _Worker:
        ours, theirs = multiprocessing.Pipe()
        threads = max(usable_cores() // self.devices.count(device), 1)
        process = multiprocessing.get_context("spawn").Process(
            target=_serve, args=(theirs, self._work, device, threads), daemon=True
        )
        with _without_interrupts():
            process.start()
        theirs.close()  # so that the death of the process is seen as the end of its messages
        return _Worker(device, process, ours)

    def submit(self, job: Job) -> None:
        worker = next(worker for worker in self._running if not worker.jobs)
        self._unfinished.add(job)
        worker.jobs.append(job.number)
        with contextlib.suppress(OSError):  # it has just died: `next` notices
            worker.connection.send(job)

    def next(self) -> Update:
        while True:
            by_connection = {w.connection: w for w in self._running if w.jobs}
            for connection in wait(list(by_connection)):
                assert isinstance(connection, Connection)
                worker = by_connection[connection]
                try:
                    received = connection.recv()
                except (EOFError, OSError):
                    self._replace(worker)
                    continue
                if isinstance(received, Exception):
                    raise received
                assert isinstance(received, Report)
                update = self._unfinished.received(worker.jobs[0], received)
                if update.number not in self._unfinished.jobs:
                    worker.jobs.clear()
                return update

    def _replace(self, worker: _Worker) -> None:
        """Start a new process in the place of one that has died, and continue its job there."""
        worker.process.join(STOP_SECONDS)
        code = worker.process.exitcode
        why = f"exit code {code}" if code is None or code >= 0 else f"killed by signal {-code}"
        job, message = self._unfinished.lost(worker.jobs[0], f"the process on {worker.device}", why)
        self._notify(message)
        worker.connection.close()
        self._running[self._running.index(worker)] = new = self._spawn(worker.device)
        new.jobs.append(job.number)
        with contextlib.suppress(OSError):
            new.connection.send(job)

    def stop(self) -> None:
        for worker in self._running:
            worker.connection.close()
            worker.process.terminate()
        for worker in self._running:
            worker.process.join(STOP_SECONDS)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        self._running = []


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """New processes inherit that Ctrl-C is blocked: it reaches every process of a terminal, and we stop them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Any, work: Work, device: str, threads: int) -> None:
    """In a new process: train every job that is received, until the connection ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if device == "cpu":
        torch.set_num_threads(threads)
    with contextlib.suppress(EOFError, OSError):
        try:
            work = work.on(device)
            while True:
                for report in reports(connection.recv(), work):
                    connection.send(report)
        except (EOFError, OSError):
            raise
        except Exception as error:
            connection.send(as_sent(error))
