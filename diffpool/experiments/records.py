"""The results file: one JSON line for each finished fold, and the lines of one run in it.

Writers take turns (a lock on the file), and each appends its lines in one write. A line that a killed process left
incomplete is the beginning of an object: readers skip it, and the next writer removes it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from diffpool.errors import DataError, SettingError, shortened
from diffpool.files import check_regular, complete_lines, json_lines, lock_open_file


@dataclass(frozen=True)
class Heading:
    """What all records of a run have in common."""

    key: str  # of the run: a hash of everything that determines its result
    method: str
    dataset: str
    features: str
    protocol: str
    seed: int
    commit: str | None
    device: str
    versions: dict[str, str]


@dataclass(frozen=True)
class Record:
    """The result of one fold of one run. Accuracies are in percent; folds and repeats count from 0."""

    key: str
    method: str
    dataset: str
    features: str
    protocol: str
    fold: int
    repeat: int
    seed: int
    # Architecture and training of the (first) model that reports; for a kernel the candidate values of C and h.
    settings: dict[str, dict[str, Any]]
    accuracy: float | None  # None for regression: `details` has the metrics
    epoch: int | None  # when it was measured; the mean over several models; None for a kernel
    parameters: int | None  # None for a kernel
    seconds: float  # this fold's share of the time of all models trained side by side
    graphs_per_second: float  # training graphs of all these models
    peak_memory: int | None  # bytes
    commit: str | None
    device: str
    versions: dict[str, str]
    details: dict[str, Any] = field(default_factory=dict)  # depends on the protocol

    @property
    def identity(self) -> tuple[str, int, int]:
        """Identifies a record: a file has at most one record with the same identity."""
        return self.key, self.repeat, self.fold

    @property
    def comparable(self) -> dict[str, Any]:
        """The fields that are equal in two runs of the same evaluation on one machine."""
        return {name: value for name, value in asdict(self).items() if name not in MEASURED}


REGRESSION_METRICS = ("mae", "rmse", "r2")
CLASS_SCORES = ("balanced_accuracy", "macro_f1", "roc_auc")
MEASURED = ("seconds", "graphs_per_second", "peak_memory", "commit")
NAMES = {f.name for f in fields(Record)}


def read_records(path: str | Path) -> list[Record]:
    """Read all complete records of a file; returns none if the file does not exist."""
    path = Path(path)
    try:
        check_regular(path)
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SettingError(f"cannot read results from {path} ({error.strerror})") from error
    return _records(content, path)


def append_records(path: str | Path, records: Sequence[Record]) -> None:
    """Append the records that are not in the file yet; creates the file if needed, and removes an incomplete line."""
    path = Path(path)
    try:
        check_regular(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path) as file:
            content = _read(file)
            complete = complete_lines(content)
            if complete != content:
                os.ftruncate(file, len(complete))
            present = {record.identity for record in _records(complete, path)}
            new = [r for r in records if r.identity not in present]
            lines = "".join(json.dumps(asdict(r), allow_nan=False) + "\n" for r in new)
            ended = complete[-1:] in (b"", b"\n")
            _write(file, (b"" if ended else b"\n") + lines.encode(), len(complete))
    except OSError as error:
        raise SettingError(f"cannot append results to {path} ({error.strerror})") from error


def _records(content: bytes, path: Path) -> list[Record]:
    return [_record(*line) for line in json_lines(content, path, "a record of `diffpool evaluate`")]


def _record(values: dict[str, Any], where: str) -> Record:
    try:
        if values.keys() != NAMES:
            raise ValueError("the fields do not match")
        record = Record(**values)
        if record.accuracy is None:
            {name: record.details["metrics"][name] for name in REGRESSION_METRICS}
        else:
            float(record.accuracy)
        hash(record.identity)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise DataError(
            f"{where}: expected a record of `diffpool evaluate`, got {shortened(values)} ({error}): "
            "choose another file, or remove the line"
        ) from error
    return record


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
    file = os.open(path, flags, 0o666)
    try:
        lock_open_file(file)
        yield file
    finally:
        os.close(file)


def _read(file: int) -> bytes:
    os.lseek(file, 0, os.SEEK_SET)
    pieces = []
    while piece := os.read(file, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def _write(file: int, content: bytes, size: int) -> None:
    """Append either all of the content to a file of this size, or nothing."""
    if not content:
        return
    try:
        if os.write(file, content) != len(content):
            raise OSError(0, "the disk is full")
        os.fsync(file)
    except OSError:
        os.ftruncate(file, size)
        raise


class RunRecords:
    """The records of one run, in a file that other runs may share. Recorded folds are not computed again."""

    def __init__(self, path: str | Path, heading: Heading, folds: Sequence[tuple[int, int]]):
        self.path, self.heading = Path(path), heading
        self.folds = list(folds)  # (repeat, fold) to be recorded
        self.found: list[Record] = []
        self.read()

    def read(self) -> None:
        """Read the file again: another process may have added records."""
        self.found = [r for r in read_records(self.path) if r.key == self.heading.key]

    @property
    def missing(self) -> list[tuple[int, int]]:
        present = {(record.repeat, record.fold) for record in self.found}
        return [fold for fold in self.folds if fold not in present]

    @property
    def complete(self) -> bool:
        return not self.missing

    def add(self, records: Sequence[Record]) -> None:
        """Append the records of folds that are not recorded yet."""
        self.read()
        missing = set(self.missing)
        new = [record for record in records if (record.repeat, record.fold) in missing]
        if new:
            append_records(self.path, new)
            self.read()
