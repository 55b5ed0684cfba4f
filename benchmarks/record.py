"""What every benchmark shares: options, a record of what was measured where, and the JSON line."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

RECORDS = Path(__file__).parent / "records"


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument(
        "--json", action="store_true", help="print one JSON object as the last line"
    )
    options.add_argument("--no-record", action="store_true", help="leave benchmarks/records/ alone")
    options.add_argument("--threads", type=int, default=2, help="CPU threads (default 2)")
    return options


def finish(name: str, result: dict[str, Any], options: argparse.Namespace) -> None:
    """Append the record of a run, and print it as JSON if asked for."""
    record = {"benchmark": name, "command": _command(), **origin(), **result}
    if not options.no_record:
        RECORDS.mkdir(exist_ok=True)
        with (RECORDS / f"{name}.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")
    if options.json:
        print(json.dumps(record))


def origin() -> dict[str, Any]:
    """Versions, hardware and commit."""
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    if "torch_geometric" in sys.modules:
        versions["torch_geometric"] = sys.modules["torch_geometric"].__version__
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": _commit(),
        "versions": versions,
        "hardware": {
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "gpu": gpu,
        },
    }


def _command() -> str:
    """The command as a reader would type it; folders are left out."""
    words = [Path(word).name if os.sep in word else word for word in sys.argv[1:]]
    module = Path(sys.argv[0]).stem
    return " ".join(["python -m", f"benchmarks.{module}", *words])


def _commit() -> str:
    if named := os.environ.get("DIFFPOOL_COMMIT"):  # a copy of the tree without its history
        return named
    try:
        run = lambda *words: subprocess.run(  # noqa: E731
            ["git", *words], cwd=RECORDS.parent, capture_output=True, text=True, check=True
        ).stdout.strip()
        changed = run("status", "--porcelain", "--", "..", ":!records")
        return run("rev-parse", "--short", "HEAD") + ("-changed" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
