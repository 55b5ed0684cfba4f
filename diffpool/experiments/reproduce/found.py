"""The runs in a folder of records, and the run that belongs to a cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev

from diffpool.errors import DataError, SettingError
from diffpool.experiments.records import Record, read_records
from diffpool.experiments.reproduce.cells import FOLDS, Cell

SOURCE_TREE = Path(__file__).resolve().parent.parent.parent.parent
MERGED, CHANGED = "reproduce.jsonl", "reproduce.changed.jsonl"
WORK = "reproduce"  # folder in the folder of records: unfinished cells, times, stability


def default_folder() -> Path:
    """The records that come with the source tree; without a source tree, `results` in the working directory."""
    folder = SOURCE_TREE / "results"
    return folder if (folder / "README.md").is_file() else Path("results")


@dataclass(frozen=True)
class FoundRun:
    """The records of one run of `diffpool evaluate`, which may be incomplete."""

    records: tuple[Record, ...]

    @property
    def first(self) -> Record:
        return self.records[0]

    @cached_property
    def repeats(self) -> int:
        return 1 + max(record.repeat for record in self.records)

    @property
    def complete(self) -> bool:
        return len(self.records) == FOLDS * self.repeats and bool(self.accuracies)

    @cached_property
    def accuracies(self) -> list[float]:
        return [record.accuracy for record in self.records if record.accuracy is not None]

    @property
    def mean(self) -> float:
        return fmean(self.accuracies)

    @property
    def sd(self) -> float:
        """Over the folds of all repeats, with n − 1."""
        return stdev(self.accuracies) if len(self.accuracies) > 1 else 0.0

    @property
    def seconds(self) -> float:
        return sum(record.seconds for record in self.records)


def read_runs(folder: str | Path, changed: bool = False) -> list[FoundRun]:
    """All runs in the files of a folder, including unfinished cells. A repeated run counts as two runs.

    `changed`: read the runs of cells with changed settings instead.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise SettingError(f"expected --records to be a folder with records, got the file {folder}")
    paths = sorted(p for p in folder.glob("*.jsonl") if p.name not in (MERGED, CHANGED))
    paths = [folder / CHANGED] if changed else [*paths, folder / MERGED]
    paths += sorted(cells_folder(folder, changed).glob("*.jsonl"))
    runs: dict[tuple[str, int], list[Record]] = {}
    seen: Counter[tuple[str, int, int]] = Counter()
    for path in paths:
        for record in _records(path):
            runs.setdefault((record.key, seen[record.identity]), []).append(record)
            seen[record.identity] += 1
    return [FoundRun(tuple(records)) for records in runs.values()]


def _records(path: Path) -> list[Record]:
    """The records of a file; none if its first line is not a record, because the file then holds something else."""
    try:
        return read_records(path)
    except DataError as error:
        if str(error).startswith(f"{path}, line 1:"):
            return []
        raise


def cells_folder(folder: Path, changed: bool) -> Path:
    """Where `--run` keeps cells until they are complete."""
    return folder / WORK / ("changed" if changed else "cells")


def runs_of(cell: Cell, runs: Iterable[FoundRun]) -> list[FoundRun]:
    """The runs with the declared settings of this cell."""
    return [run for run in runs if cell.fits(run.first)]


def best_match(runs: Sequence[FoundRun]) -> FoundRun | None:
    """The complete run with the most repeats, the last one of several; None if none is complete."""
    complete = [run for run in runs if run.complete]
    return max(enumerate(complete), key=lambda x: (x[1].repeats, x[0]))[1] if complete else None
