"""One run and its lines in a file of records: what is there is not done again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diffpool.experiments.origin import commit
from diffpool.experiments.records import Record, append_records, read_records

Place = tuple[int, int]  # repeat, fold


@dataclass(frozen=True)
class Heading:
    """What all records of a run have in common."""

    key: str
    method: str
    dataset: str
    features: str
    protocol: str
    seed: int
    device: str
    versions: dict[str, str]


@dataclass(frozen=True)
class FoldResult:
    """What a record says of its fold besides; see `Record`."""

    repeat: int
    fold: int
    settings: dict[str, dict[str, Any]]
    accuracy: float
    epoch: int | None
    parameters: int | None
    seconds: float
    graphs_per_second: float
    peak_memory: int | None
    details: dict[str, Any]


class RunRecords:
    """The records of one run, in a file that other runs may share."""

    def __init__(self, out: str | Path, heading: Heading, places: Sequence[Place]):
        self.out, self.heading, self.places = Path(out), heading, list(places)
        self.found: list[Record] = []
        self.read()

    def read(self) -> None:
        """Read the file, to which another process may have added."""
        self.found = [r for r in read_records(self.out) if r.key == self.heading.key]

    @property
    def missing(self) -> list[Place]:
        present = {(record.repeat, record.fold) for record in self.found}
        return [place for place in self.places if place not in present]

    @property
    def complete(self) -> bool:
        return not self.missing

    def add(self, results: Sequence[FoldResult]) -> None:
        """Append the results of the folds that are not recorded yet."""
        self.read()
        missing = set(self.missing)
        new = [result for result in results if (result.repeat, result.fold) in missing]
        if new:
            known, now = vars(self.heading), commit()
            append_records(self.out, [Record(**known, **vars(r), commit=now) for r in new])
            self.read()
