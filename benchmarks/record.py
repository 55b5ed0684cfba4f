"""Shared by all benchmarks: command-line options, and writing and reading records."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from diffpool.experiments.provenance import device_name
from diffpool.experiments.reproduce.measurements import machine as where

__all__ = [
    "RECORDS",
    "begin",
    "finish",
    "last",
    "last_with",
    "origin",
    "parser",
    "records_of",
    "set_precision",
    "where",
    "words_of",
]

RECORDS = Path(__file__).parent / "records"


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options of every benchmark."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument(
        "--json", action="store_true", help="print the record as JSON on the last line"
    )
    options.add_argument("--no-record", action="store_true", help="do not write a record")
    options.add_argument(
        "--records",
        type=Path,
        default=RECORDS,
        help="folder for records (default benchmarks/records)",
    )
    options.add_argument("--threads", type=int, default=2, help="CPU threads (default 2)")
    options.add_argument(
        "--precision",
        choices=("tf32", "float32"),
        default="tf32",
        help="precision of products on a GPU, for ours and all peers (default tf32)",
    )
    return options


def begin(options: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the command line and set the threads and precision of all competitors."""
    chosen = options.parse_args()
    set_precision(chosen)
    return chosen


def set_precision(chosen: argparse.Namespace) -> None:
    """Set the threads and precision of this process."""
    torch.set_num_threads(chosen.threads)
    torch.set_float32_matmul_precision("high" if chosen.precision == "tf32" else "highest")


def words_of(text: str, known: Sequence[str], what: str) -> list[str]:
    """Split a comma-separated list and check that every word is known."""
    words = [word for word in text.split(",") if word]
    if unknown := [word for word in words if word not in known]:
        sys.exit(f"expected {what} among {', '.join(known)}, got {unknown[0]!r}")
    return words


def finish(name: str, result: dict[str, Any], options: argparse.Namespace) -> None:
    """Append the record of a run, and print it if `--json` is given."""
    record = {"benchmark": name, "command": _command(), **origin(), **result}
    if not options.no_record:
        options.records.mkdir(parents=True, exist_ok=True)
        with (options.records / f"{name}.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")
    if options.json:
        print(json.dumps(record))


def records_of(name: str) -> list[dict[str, Any]]:
    """The records of a benchmark, oldest first."""
    path = RECORDS / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def last(name: str, row: str | None = None) -> dict[str, Any] | None:
    """The last record of a benchmark, or its last record with this row."""
    records = [record for record in records_of(name) if row is None or row in record]
    return records[-1] if records else None


def last_with(name: str, dataset: str) -> dict[str, Any] | None:
    """The last record of a benchmark that has a row for this data set."""
    records = [record for record in records_of(name) if dataset in record["rows"]]
    return records[-1] if records else None


def origin() -> dict[str, Any]:
    """Versions, hardware and commit."""
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    for name, module in (("torch_geometric", "torch_geometric"), ("torch-geometric-pool", "tgp")):
        if module in sys.modules:
            versions[name] = sys.modules[module].__version__
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    exact = gpu is None or torch.get_float32_matmul_precision() == "highest"
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": _commit(),
        "versions": versions,
        "hardware": {
            "cpu": device_name(torch.device("cpu")),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "gpu": gpu,
            "products": "float32" if exact else "tf32",
        },
    }


def _command() -> str:
    """The command as typed, without the folders of paths."""
    words = [Path(word).name if os.sep in word else word for word in sys.argv[1:]]
    module = Path(sys.argv[0]).stem
    return " ".join(["python -m", f"benchmarks.{module}", *words])


def _commit() -> str:
    if named := os.environ.get("DIFFPOOL_COMMIT"):  # for a copy without git history
        return named
    try:
        run = lambda *words: subprocess.run(  # noqa: E731
            ["git", *words], cwd=RECORDS.parent, capture_output=True, text=True, check=True
        ).stdout.strip()
        changed = run("status", "--porcelain", "--", "..", ":!records")
        return run("rev-parse", "--short", "HEAD") + ("-changed" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
