"""Measurements as JSON lines, each with the machine and versions that it was measured with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from diffpool.errors import SettingError
from diffpool.files import lock_open_file

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


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All complete measurements of a file, oldest first; none if there is no file."""
    try:
        content = path.read_text("utf-8")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SettingError(f"cannot read {path} ({error.strerror})") from error
    found = []
    for line in content.splitlines():
        try:
            values = json.loads(line)
        except ValueError:  # incomplete
            continue
        if isinstance(values, dict):
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
