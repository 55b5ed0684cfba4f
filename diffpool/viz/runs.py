"""Runs of `diffpool evaluate`, read from results files, with names that tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from diffpool.architecture import Architecture
from diffpool.errors import DataError, SettingError, cut, did_you_mean
from diffpool.experiments import METHODS, Record, read_records
from diffpool.experiments.methods import METHOD_SETTINGS

CHOICES = ("dataset", "method", "protocol")
LONGEST = 44  # characters of a label
CLUSTERS = ("clusters", "ratio", "min_clusters")  # settings of the number of clusters


@dataclass(frozen=True, eq=False)
class Run:
    """The records of one evaluation."""

    records: list[Record]

    def __getattr__(self, name: str) -> Any:
        """What all records of the run have in common: method, data set, protocol, features, device."""
        return getattr(self.records[0], name)

    @property
    def metric(self) -> str:
        return "accuracy, %" if self.records[0].accuracy is not None else "mean absolute error"

    @property
    def values(self) -> list[float]:
        """The accuracy in percent of each fold; for regression, its mean absolute error."""
        if self.records[0].accuracy is not None:
            return [float(record.accuracy or 0.0) for record in self.records]
        return [float(record.details["metrics"]["mae"]) for record in self.records]

    @property
    def mean(self) -> float:
        return fmean(self.values)

    @property
    def sd(self) -> float:
        """The standard deviation over the folds; 0 for a single fold."""
        return stdev(self.values) if len(self.records) > 1 else 0.0

    @property
    def chosen(self) -> dict[str, Any]:
        """The features and settings that all folds have in common, but not the seed."""
        found = {"features": self.features}
        for group in self.records[0].settings:
            for name, value in self.records[0].settings[group].items():
                if name != "seed" and all(
                    record.settings.get(group, {}).get(name) == value for record in self.records
                ):
                    found[name] = tuple(value) if isinstance(value, list) else value
        return found

    @property
    def clusters(self) -> tuple[str, float] | None:
        """The maximum number of clusters of the first pooling, or the percentage of the nodes; None without pooling."""
        values = self.records[0].settings.get("architecture", {})
        if not values.get("poolings"):
            return None
        if isinstance(values["clusters"], list | tuple):
            return "maximum number of clusters", float(values["clusters"][0])
        known = {name: v for name, v in values.items() if name in Architecture.__dataclass_fields__}
        known = {n: tuple(v) if isinstance(v, list) else v for n, v in known.items()}
        return "clusters, % of the nodes", 100 * Architecture(**known).cluster_ratio


def read_runs(
    paths: Sequence[str | Path],
    dataset: str | None = None,
    method: str | None = None,
    protocol: str | None = None,
) -> list[Run]:
    """The runs in these results files and folders, optionally of one data set, method and protocol."""
    groups: dict[str, dict[tuple[str, int, int], Record]] = {}
    for file in record_files(paths):
        for record in read_records(file):
            groups.setdefault(record.key, {}).setdefault(record.identity, record)
    if not groups:
        raise DataError(
            f"expected records of `diffpool evaluate`, got none in {_listed(paths)}: choose another file"
        )
    runs = [Run(list(group.values())) for group in groups.values()]
    for name, wanted in zip(CHOICES, (dataset, method, protocol), strict=True):
        known = list(dict.fromkeys(getattr(run, name) for run in runs))
        if wanted is not None and wanted not in known:
            raise SettingError(
                f"expected --{name} to be one of those in the records ({', '.join(known)}), got {wanted!r}"
                f"{did_you_mean(wanted, known)}"
            )
        runs = [run for run in runs if wanted is None or getattr(run, name) == wanted]
    return runs


def record_files(paths: Sequence[str | Path]) -> list[Path]:
    """The files, and the `.jsonl` files in the folders."""
    files: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            found = sorted(path.glob("*.jsonl"))
            if not found:
                raise DataError(f"expected .jsonl files in {path}, got none: choose another folder")
            files += found
        elif path.exists():
            files.append(path)
        else:
            raise DataError(
                f"expected a file or folder with records, got {path}, which does not exist"
            )
    return files


def labels(runs: Sequence[Run], without: Sequence[str] = (), defaults: bool = False) -> list[str]:
    """A name for each run: its method, with the settings that tell it apart from other runs of the method.

    Settings in `without` are left out, and unless `defaults`, those with the default value of the method.
    """
    found = []
    for run in runs:
        alike = [other.chosen for other in runs if other.method == run.method]
        shown = [
            _setting(name, value)
            for name, value in run.chosen.items()
            if name not in (*without, "patience")
            and len({repr(chosen.get(name)) for chosen in alike}) > 1
            and (defaults or not _is_default(run.method, name, value))
        ]
        found.append(cut(f"{run.method} ({', '.join(shown)})", LONGEST) if shown else run.method)
    return _unique(found)


def _setting(name: str, value: Any) -> str:
    if name == "features":
        return str(value)
    return f"{name} {METHOD_SETTINGS[name].show(value) if name in METHOD_SETTINGS else value}"


def _is_default(method: str, name: str, value: Any) -> bool:
    """Whether a method has this value of a setting unless it is given."""
    known = METHODS.get(method.partition(",")[0])  # without `, ensemble of 10`
    return known is not None and name in METHOD_SETTINGS and known.value(name) == value


def _unique(names: list[str]) -> list[str]:
    """The names, with a number where they are the same: seeds or versions differ."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if names.count(name) == 1 else f"{name}, run {seen[name]}")
    return found


def panels(runs: Sequence[Run]) -> dict[tuple[str, str, str], list[Run]]:
    """The runs that can be compared with each other: those of one data set, protocol and metric."""
    found: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        found.setdefault((run.dataset, run.protocol, run.metric), []).append(run)
    return found


def _listed(paths: Sequence[str | Path]) -> str:
    return ", ".join(map(str, paths))
