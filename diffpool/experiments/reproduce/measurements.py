"""Measurements as JSON lines, each with the machine and versions that it was measured with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from diffpool.errors import DataError, SettingError, shortened
from diffpool.files import lock_open_file

ORIGIN = ("device", "versions", "commit", "date")  # of a measurement

Report = Callable[[str], None]  # takes a line of progress


def append_line(path: Path, values: dict[str, Any]) -> None:
    """Append a measurement as one line, in one write, and on a new line if a killed process left one incomplete."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:
            lock_open_file(file.fileno())
            file.seek(0, os.SEEK_END)
            if file.tell():
                file.seek(-1, os.SEEK_END)
            complete = file.read(1) in (b"", b"\n")
            line = json.dumps(values, allow_nan=False) + "\n"
            file.write(("" if complete else "\n").encode() + line.encode())
    except OSError as error:
        raise SettingError(f"cannot write {path} ({error.strerror})") from error


def read_lines(path: Path, fields: Sequence[str] = ()) -> list[dict[str, Any]]:
    """All complete measurements of a file, oldest first; none if there is no file.

    A complete line without one of the `fields` is an error.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SettingError(f"cannot read {path} ({error.strerror})") from error
    found = []
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            values = json.loads(line)
        except ValueError:  # incomplete
            continue
        if not isinstance(values, dict) or not values.keys() >= set(fields):
            raise DataError(
                f"{path}, line {number}: expected a measurement with {', '.join(fields)}, got {shortened(values)}: "
                "remove the line"
            )
        found.append(values)
    return found


def origin(device: Any) -> dict[str, Any]:
    """Device, versions, commit and date of a measurement."""
    from diffpool.experiments.provenance import commit, device_name, versions

    return {
        "device": device_name(device),
        "versions": versions(),
        "commit": commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def where(found: list[dict[str, Any]]) -> str:
    """Devices, versions of torch, and dates of these measurements, in one sentence."""
    devices = dict.fromkeys(str(row["device"]) for row in found)
    torch = dict.fromkeys(f"torch {row['versions']['torch']}" for row in found)
    dates = sorted({str(row["date"]) for row in found})
    return f"Measured on: {', '.join([*devices, *torch, *dates])}."


def machine(record: dict[str, Any]) -> str:
    """Hardware, versions, commit and date of the record of a benchmark, in one sentence."""
    hardware, versions = record["hardware"], record["versions"]
    products = f", products in {hardware['products']}" if "products" in hardware else ""
    gpu = f"{hardware['gpu']}{products}; " if hardware["gpu"] else ""
    names = ", ".join(f"{name} {version}" for name, version in versions.items())
    threads = f"{hardware['threads']} thread{'s' * (hardware['threads'] != 1)}"
    return (
        f"{gpu}{hardware['cpu']}, {threads}; {names}; commit {record['commit']}, {record['date']}."
    )
