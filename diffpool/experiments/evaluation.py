"""The result of an evaluation: a mean is a mean over all folds, or an error."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from diffpool.errors import TrainingError
from diffpool.experiments.recorded import Heading, Place
from diffpool.experiments.records import Record


@dataclass(frozen=True)
class Evaluation:
    """The records of all folds of all repeats; accuracies in percent."""

    key: str
    method: str
    dataset: str
    protocol: str
    records: tuple[Record, ...]

    @classmethod
    def from_records(
        cls, heading: Heading, places: Sequence[Place], records: Sequence[Record]
    ) -> Evaluation:
        """The result if there is one finite accuracy for every fold, and nothing else."""
        own = [record for record in records if record.key == heading.key]
        found = sorted(own, key=lambda r: (r.repeat, r.fold))
        present = [(r.repeat, r.fold) for r in found]
        if present != list(places):
            missing = sorted(set(places) - set(present))
            got = f"none of {missing[:3]} (repeat, fold)" if missing else "some more than once"
            raise TrainingError(
                f"expected one record of each of {len(places)} folds, got {got}: run it again"
            )
        wrong = [r.fold for r in found if not 0 <= r.accuracy <= 100]
        if wrong:
            raise TrainingError(
                f"expected accuracies from 0 to 100 %, got others in folds {wrong}: the file is damaged"
            )
        return cls(heading.key, heading.method, heading.dataset, heading.protocol, tuple(found))

    @property
    def accuracies(self) -> list[float]:
        """Of every fold, repeat after repeat."""
        return [record.accuracy for record in self.records]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.accuracies)

    @property
    def sd(self) -> float:
        """Over the folds of all repeats, with n − 1."""
        return statistics.stdev(self.accuracies) if len(self.records) > 1 else 0.0

    @property
    def repeat_means(self) -> list[float]:
        """The mean over the folds of each repeat."""
        repeats = range(self.records[-1].repeat + 1)
        return [
            statistics.fmean(r.accuracy for r in self.records if r.repeat == n) for n in repeats
        ]

    @property
    def sd_of_repeats(self) -> float | None:
        """Over the means of the repeats, with n − 1; None for one repeat."""
        means = self.repeat_means
        return statistics.stdev(means) if len(means) > 1 else None

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "dataset": self.dataset,
            "protocol": self.protocol,
            "mean": self.mean,
            "sd": self.sd,
            "folds": self.accuracies,
            "repeats": len(self.repeat_means),
            "sd_of_repeats": self.sd_of_repeats,
            "seed": self.records[0].seed,
            "seconds": sum(record.seconds for record in self.records),
            "key": self.key,
        }

    def __str__(self) -> str:
        spread = self.sd_of_repeats
        means = "" if spread is None else f"; ± {spread:.1f} over {len(self.repeat_means)} repeats"
        return (
            f"{self.method} on {self.dataset}, protocol {self.protocol}: "
            f"{self.mean:.1f} ± {self.sd:.1f} % (mean ± sd over {len(self.records)} folds{means})"
        )
