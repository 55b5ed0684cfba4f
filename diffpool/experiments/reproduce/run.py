"""Compute missing cells: several runs of `diffpool evaluate` at a time, each with its own file, until a deadline.

Every process may be stopped at any time: the same call continues from the records and checkpoints. When a cell is
complete, its records move to `reproduce.jsonl`.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from diffpool.cores import usable_cores
from diffpool.errors import DiffPoolError
from diffpool.experiments.records import append_records, read_records
from diffpool.experiments.reproduce.cells import DATASETS, Cell
from diffpool.experiments.reproduce.found import (
    CHANGED,
    MERGED,
    SOURCE_TREE,
    FoundRun,
    best_match,
    cells_folder,
    read_runs,
    runs_of,
)
from diffpool.experiments.reproduce.published import FOLDS_URL

PROGRAM = (sys.executable, "-m", "diffpool")
POLL = 0.3  # seconds between looks at the processes
START_SECONDS = 20.0  # no new cell is started when less time is left
STOP_SECONDS = 20.0  # time for a process to end after Ctrl-C, before it is terminated
PROGRESS = re.compile(r"models (\d+)/(\d+), (\d+) in training, epoch (\d+)/(\d+)|fits (\d+)/(\d+)")


@dataclass(frozen=True)
class Workspace:
    """The folders of records, data sets and folds, and the devices to compute on."""

    records: Path
    device: str | None = None
    data_dir: str | None = None
    folds_dir: str | None = None
    workers: tuple[str, ...] = ()  # options that spread a cell over several devices

    def command(self, cell: Cell) -> list[str]:
        """The words after `diffpool` that compute this cell."""
        file = str(self.file(cell))
        return cell.command(file, self.device, self.data_dir, self.folds_dir, self.workers)

    def file(self, cell: Cell) -> Path:
        return self.folder(cell) / f"{cell.name}.jsonl"

    def folder(self, cell: Cell) -> Path:
        return cells_folder(self.records, bool(cell.changes))

    def merged(self, cell: Cell) -> Path:
        return self.records / (CHANGED if cell.changes else MERGED)

    def has_data(self, name: str) -> bool:
        """Whether the data set is in the folder of data sets."""
        folder = self.data_dir or os.environ.get("DIFFPOOL_DATA")
        return folder is not None and any(
            path.exists() for path in (Path(folder) / f"{name}.zip", Path(folder) / name)
        )

    def blocked(self, cell: Cell) -> str | None:
        """Why a cell cannot be computed here; None if it can."""
        data = DATASETS[cell.dataset]
        if data.needs and not self.has_data(data.name):
            return data.needs
        if cell.lacks:
            return cell.lacks
        if cell.published_folds:
            name = f"{cell.dataset}_splits.json"
            if self.folds_dir is None or not (Path(self.folds_dir) / name).is_file():
                return f"needs the published folds, {name}: name their folder with --folds (from {FOLDS_URL})"
        return None


@dataclass(frozen=True)
class Running:
    """A cell in training."""

    name: str
    share: float  # finished
    text: str  # its last line of progress


@dataclass(frozen=True)
class Progress:
    """The state of a `--run`, for displays."""

    total: int  # cells to compute
    complete: int
    failed: int
    running: tuple[Running, ...]
    share: float  # of the work
    seconds: float
    seconds_left: float | None  # None: unknown yet


@dataclass(frozen=True)
class Outcome:
    """The result of a `--run`, by the names of cells."""

    complete: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # with the reason
    open: list[str] = field(default_factory=list)  # not finished before the deadline
    blocked: dict[str, str] = field(default_factory=dict)  # with what they need


Watch = Callable[[Progress], None]


@dataclass
class _Job:
    cell: Cell
    process: subprocess.Popen[bytes]
    log: Path
    first_share: float | None = None
    share: float = 0.0
    text: str = "starting"

    def look(self) -> None:
        """Read the progress from the end of the log."""
        text = _tail(self.log)
        found = list(PROGRESS.finditer(text))
        if not found:
            return
        numbers = [int(x) if x else 0 for x in found[-1].groups()]
        finished, models, active, epoch, epochs, fitted, fits = numbers
        if models:
            self.share = min((finished + active * epoch / max(epochs, 1)) / models, 1.0)
        else:
            self.share = fitted / max(fits, 1)
        if self.first_share is None:
            self.first_share = self.share  # of a run that was resumed
        start = text.rfind("\n", 0, found[-1].start()) + 1
        self.text = text[start:].splitlines()[0]


def missing_cells(cells: Sequence[Cell], workspace: Workspace) -> list[Cell]:
    """The cells without a complete run, in their order."""
    runs = {
        changed: read_runs(workspace.records, changed)
        for changed in {bool(c.changes) for c in cells}
    }
    return [c for c in cells if best_match(runs_of(c, runs[bool(c.changes)])) is None]


def run_cells(
    cells: Sequence[Cell],
    workspace: Workspace,
    jobs: int = 1,
    max_seconds: float | None = None,
    watch: Watch = lambda progress: None,
) -> Outcome:
    """Compute the missing cells, `jobs` at a time, in their order.

    After `max_seconds` no cell is started, and those in training are interrupted. Ctrl-C interrupts them, too.
    """
    started = time.monotonic()
    deadline = None if max_seconds is None else started + max_seconds
    for cell in cells:
        _merge(cell, workspace)
    missing = missing_cells(cells, workspace)
    outcome = Outcome(blocked={c.name: why for c in missing if (why := workspace.blocked(c))})
    waiting = [cell for cell in missing if cell.name not in outcome.blocked]
    total, work = len(waiting), sum(cell.work for cell in waiting)
    done = skipped = 0.0  # work done by this call and by earlier calls
    running: list[_Job] = []

    def report() -> None:
        seconds = time.monotonic() - started
        new = done + sum(job.cell.work * (job.share - (job.first_share or 0)) for job in running)
        old = skipped + sum(job.cell.work * (job.first_share or 0) for job in running)
        left = seconds * (work - new - old) / new if new > 0 else None
        watch(
            Progress(
                total=total,
                complete=len(outcome.complete),
                failed=len(outcome.failed),
                running=tuple(Running(j.cell.name, j.share, j.text) for j in running),
                share=(new + old) / max(work, 1e-9),
                seconds=seconds,
                seconds_left=left,
            )
        )

    try:
        while waiting or running:
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                break
            late = deadline is not None and deadline - now < START_SECONDS
            while waiting and len(running) < jobs and not late:
                running.append(_start(waiting.pop(0), workspace, jobs))
            if not running:
                break
            time.sleep(POLL)
            for job in list(running):
                job.look()
                if job.process.poll() is None:
                    continue
                running.remove(job)
                done += job.cell.work * (1 - (job.first_share or 0))
                skipped += job.cell.work * (job.first_share or 0)
                _finish(job, workspace, outcome)
            report()
    finally:
        _interrupt(running)
        for job in running:
            if _merge(job.cell, workspace):
                outcome.complete.append(job.cell.name)
                job.log.unlink(missing_ok=True)
            else:
                outcome.open.append(job.cell.name)
        outcome.open.extend(cell.name for cell in waiting)
    return outcome


def _start(cell: Cell, workspace: Workspace, jobs: int) -> _Job:
    folder = workspace.folder(cell)
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{cell.name}.log"
    (folder / f"{cell.name}.failed").unlink(missing_ok=True)
    threads = max(usable_cores() // jobs, 1)
    path = os.pathsep.join(filter(None, (str(SOURCE_TREE), os.environ.get("PYTHONPATH"))))
    environment = {"OMP_NUM_THREADS": str(threads), **os.environ, "PYTHONPATH": path}
    environment |= {"PYTHONUNBUFFERED": "1", "COLUMNS": "300", "NO_COLOR": "1"}
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*PROGRAM, *workspace.command(cell)],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches this process only, which passes it on
            preexec_fn=None if os.name == "nt" else _listen_to_interrupts,
        )
    return _Job(cell, process, log)


def _listen_to_interrupts() -> None:
    """In the new process: a script that runs in the background ignores SIGINT, and its children would too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _finish(job: _Job, workspace: Workspace, outcome: Outcome) -> None:
    """After a process has ended: merge its records, or note why it failed."""
    if job.process.returncode == 0 and _merge(job.cell, workspace):
        outcome.complete.append(job.cell.name)
        job.log.unlink(missing_ok=True)
        return
    lines = [line for line in _tail(job.log).splitlines() if line.strip()]
    last = lines[-1].strip() if lines else ""
    why = last.removeprefix("diffpool: ") or f"exit code {job.process.returncode}"
    if job.process.returncode == 0:
        why = "the records do not have the declared settings"
    outcome.failed[job.cell.name] = why
    job.log.with_suffix(".failed").write_text(why + "\n", encoding="utf-8")


def _merge(cell: Cell, workspace: Workspace) -> bool:
    """If the cell's own file is complete, move its records to the common file; returns whether it was."""
    path = workspace.file(cell)
    try:
        records = [record for record in read_records(path) if cell.fits(record)]
    except DiffPoolError:
        return False
    if not records or not FoundRun(tuple(records)).complete:
        return False
    if FoundRun(tuple(records)).repeats != cell.repeats:
        return False
    append_records(workspace.merged(cell), records)
    path.unlink()
    for suffix in (".failed", ".log"):
        path.with_suffix(suffix).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        path.parent.rmdir()
        path.parent.parent.rmdir()
    return True


def _interrupt(running: Sequence[_Job]) -> None:
    """Stop the processes as Ctrl-C does, then terminate and finally kill those that do not end in time."""
    for number, seconds in (
        (signal.SIGINT, STOP_SECONDS),
        (signal.SIGTERM, 5.0),
        (getattr(signal, "SIGKILL", signal.SIGTERM), 5.0),
    ):
        alive = [job for job in running if job.process.poll() is None]
        for job in alive:
            with contextlib.suppress(OSError):
                job.process.send_signal(number)
        end = time.monotonic() + seconds
        for job in alive:
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.process.wait(max(end - time.monotonic(), 0.01))


@contextlib.contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Within the block, SIGTERM raises KeyboardInterrupt, so that no process is left behind."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _tail(path: Path, size: int = 8192) -> str:
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - size, 0))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
