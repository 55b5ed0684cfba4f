"""Shell completion of data sets, features and settings. This module does not import NumPy or torch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from diffpool.data.feature_names import NODE_PARTS
from diffpool.data.tu_names import KNOWN
from diffpool.experiments.methods import METHOD_SETTINGS
from diffpool.settings import Setting

SUFFIXES = (  # the same as in `diffpool.data.sources`, which imports NumPy
    *(".jsonl", ".jsonl.gz", ".csv", ".parquet", ".mol"),
    *(".gml", ".graphml", ".gexf", ".edgelist", ".zip"),
)


def complete_dataset(incomplete: str) -> list[str]:
    """Names of data sets (well-known ones and those in DIFFPOOL_DATA), folders, and files in supported formats."""
    folder = Path(os.environ.get("DIFFPOOL_DATA") or os.devnull)
    here = [p.stem for p in folder.glob("*") if p.suffix == ".zip" or p.is_dir()]
    names = sorted({"embedded", *KNOWN, *here})
    return [name for name in names if name.startswith(incomplete)] + list(_paths(incomplete))


def complete_features(incomplete: str) -> list[str]:
    """`auto`, or the next name in a comma-separated list."""
    first, comma, last = incomplete.rpartition(",")
    names = list(NODE_PARTS) if comma else ["auto", *NODE_PARTS]
    return [f"{first}{comma}{name}" for name in names if name.startswith(last)]


def complete_settings(incomplete: str) -> list[str]:
    """For `--set`: `NAME=`, or the choices of the setting after `NAME=`."""
    return list(_settings(incomplete, list(METHOD_SETTINGS.values())))


def complete_grid(incomplete: str) -> list[str]:
    """For `--grid`: the same, without the settings that are not allowed in a grid."""
    return list(_settings(incomplete, [s for s in METHOD_SETTINGS.values() if s.searchable]))


def _settings(incomplete: str, settings: list[Setting]) -> Iterator[str]:
    name, equals, value = incomplete.partition("=")
    first, comma, last = value.rpartition(",")
    for setting in settings:
        if not equals and setting.name.startswith(name):
            yield f"{setting.name}="
        elif equals and setting.name == name:
            for choice in setting.choices:
                if choice.startswith(last):
                    yield f"{name}={first}{comma}{choice}"


def _paths(incomplete: str) -> Iterator[str]:
    folder, slash, start = incomplete.rpartition("/")
    base = Path(f"{folder}{slash}" or ".").expanduser()
    try:
        entries = sorted(base.iterdir())
    except OSError:
        return
    for path in entries:
        if path.name.startswith(start) and not (path.name.startswith(".") and not start):
            if path.is_dir():
                yield f"{folder}{slash}{path.name}/"
            elif path.name.endswith(SUFFIXES):
                yield f"{folder}{slash}{path.name}"
