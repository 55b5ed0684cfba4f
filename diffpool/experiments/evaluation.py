"""The result of an evaluation: a mean is a mean over all folds, or an error."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from diffpool.data import GraphDataset
from diffpool.errors import TrainingError
from diffpool.experiments.protocols import Protocol
from diffpool.experiments.records import Record
from diffpool.experiments.tasks import Plan


@dataclass(frozen=True)
class Evaluation:
    """The records of all folds of all repeats; accuracies in percent."""

    key: str
    method: str
    dataset: str
    protocol: str
    records: tuple[Record, ...]

    @classmethod
    def of(
        cls,
        key: str,
        plan: Plan,
        protocol: Protocol,
        dataset: GraphDataset,
        records: Sequence[Record],
    ) -> Evaluation:
        """The result if there is one finite accuracy for every fold, and nothing else."""
        found = sorted((r for r in records if r.key == key), key=lambda r: (r.repeat, r.fold))
        places = [(r.repeat, r.fold) for r in found]
        if places != plan.places():
            missing = sorted(set(plan.places()) - set(places))
            got = f"none of {missing[:3]} (repeat, fold)" if missing else "some more than once"
            raise TrainingError(
                f"expected one record of each of {len(plan.places())} folds, got {got}: run it again"
            )
        wrong = [r.fold for r in found if not 0 <= r.accuracy <= 100]
        if wrong:
            raise TrainingError(
                f"expected accuracies from 0 to 100 %, got others in folds {wrong}: the file is damaged"
            )
        return cls(key, plan.method.name, dataset.name, protocol.name, tuple(found))

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

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "dataset": self.dataset,
            "protocol": self.protocol,
            "mean": self.mean,
            "sd": self.sd,
            "folds": self.accuracies,
            "repeats": self.records[-1].repeat + 1,
            "seed": self.records[0].seed,
            "seconds": sum(record.seconds for record in self.records),
            "key": self.key,
        }

    def __str__(self) -> str:
        return (
            f"{self.method} on {self.dataset}, protocol {self.protocol}: "
            f"{self.mean:.1f} ± {self.sd:.1f} % (mean ± sd over {len(self.records)} folds)"
        )
