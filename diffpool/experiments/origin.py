"""Where a number comes from: commit, device, versions, memory."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import torch

from diffpool.version import VERSION

PACKAGE = Path(__file__).resolve().parent.parent


def commit() -> str | None:
    """The commit of the source tree, with `-changed` if the package differs from it; None if there is no such tree.

    DIFFPOOL_COMMIT names it where a copy of the tree runs without its history.
    """
    if named := os.environ.get("DIFFPOOL_COMMIT"):
        return named
    if not (PACKAGE.parent / ".git").exists():
        return None
    try:
        changed = _git("status", "--porcelain", "--", str(PACKAGE))
        return _git("rev-parse", "HEAD") + ("-changed" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*words: str) -> str:
    command = ["git", *words]
    run = subprocess.run(
        command, cwd=PACKAGE.parent, capture_output=True, text=True, check=True, timeout=30
    )
    return run.stdout.strip()


def versions(*packages: str) -> dict[str, str]:
    """Of Python, torch and this package, and of others by their names."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "diffpool": VERSION,
        **{name: metadata.version(name) for name in packages},
    }


def device_name(device: torch.device) -> str:
    """The name of the GPU, and how it multiplies unless in float32, or the name of the processor."""
    if device.type == "cuda":
        exact = torch.get_float32_matmul_precision() == "highest"
        return torch.cuda.get_device_name(device) + ("" if exact else ", products in TF32")
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def peak_memory(device: torch.device) -> int | None:
    """The most bytes that were in use at a time: of the GPU, or of the process; None where nobody counts."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
