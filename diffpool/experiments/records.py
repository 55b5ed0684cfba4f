"""The file of results: one JSON line for each finished fold, appended whole or not at all.

Processes that append take turns (a lock on the file), and a line goes out in one write with its newline. What a killed
process left half-written has no newline and is no JSON: readers leave it out, the next writer removes it first.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import ModuleType
from typing import Any

from diffpool.errors import DataError, SettingError

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # not on Windows: there, one process at a time
    fcntl = None


@dataclass(frozen=True)
class Record:
    """One fold of one run. Accuracies are in percent; fold and repeat count from 0."""

    key: str  # of the run: everything that determines its result, hashed
    method: str
    dataset: str
    features: str
    protocol: str
    fold: int
    repeat: int
    seed: int
    settings: dict[
        str, dict[str, Any]
    ]  # architecture and training, of the (first) model that reports; of a kernel what C and h are chosen from
    accuracy: float
    epoch: int | None  # after which it was measured; the mean of several models; None for a kernel
    parameters: int | None  # None for a kernel
    seconds: float  # this fold's share of the time of all models trained side by side
    graphs_per_second: float  # training graphs, of all of them
    peak_memory: int | None  # bytes
    commit: str | None
    device: str
    versions: dict[str, str]
    details: dict[str, Any] = field(default_factory=dict)  # what this protocol has to say besides

    @property
    def place(self) -> tuple[str, int, int]:
        """A file has at most one record of each."""
        return self.key, self.repeat, self.fold

    @property
    def comparable(self) -> dict[str, Any]:
        """Everything that does not differ between two runs of the same thing on one machine."""
        return {name: value for name, value in asdict(self).items() if name not in MEASURED}


MEASURED = ("seconds", "graphs_per_second", "peak_memory", "commit")
NAMES = {f.name for f in fields(Record)}


def read_records(path: str | Path) -> list[Record]:
    """All records of a file, without what a killed process left half-written; none if there is no file."""
    path = Path(path)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SettingError(f"expected a file of results, got {path} ({error.strerror})") from error
    whole, _ = _whole(content)
    return [
        _record(line, f"{path}, line {number}")
        for number, line in enumerate(whole.split(b"\n"), 1)
        if line.strip()
    ]


def append_records(path: str | Path, records: Sequence[Record]) -> None:
    """Append those that the file does not have yet. Without any, the file is made, or mended, only."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path) as file:
            content = _read(file)
            whole, unended = _whole(content)
            if whole != content:
                os.ftruncate(file, len(whole))
            present = {_record(x, str(path)).place for x in whole.split(b"\n") if x.strip()}
            new = [r for r in records if r.place not in present]
            lines = "".join(json.dumps(asdict(r), allow_nan=False) + "\n" for r in new)
            _write(file, (b"\n" if unended else b"") + lines.encode(), len(whole))
    except OSError as error:
        raise SettingError(
            f"expected a file to append results to, got {path} ({error.strerror})"
        ) from error


def _whole(content: bytes) -> tuple[bytes, bool]:
    """The content up to its last whole line, and whether that line lacks nothing but its newline."""
    end = content.rfind(b"\n") + 1
    rest = content[end:]
    if not rest:
        return content, False
    try:
        _record(rest, "")
    except DataError:
        return content[:end], False
    return content, True


def _record(line: bytes, where: str) -> Record:
    try:
        values = json.loads(line)
        if not isinstance(values, dict) or values.keys() != NAMES:
            raise ValueError("it has other fields")
        record = Record(**values)
        float(record.accuracy), hash(record.place)
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{where}: expected a record of `diffpool evaluate`, got {line[:40]!r} ({error}): "
            "name another file, or remove the line"
        ) from error
    return record


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
    file = os.open(path, flags, 0o666)
    try:
        if fcntl is not None:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)  # ends with the process, however that ends
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
    """All of the content at the end of a file of this size, or none of it."""
    if not content:
        return
    try:
        if os.write(file, content) != len(content):
            raise OSError(0, "the disk is full")
        os.fsync(file)
    except OSError:
        os.ftruncate(file, size)
        raise
