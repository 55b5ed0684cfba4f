"""The number of CPU threads.

PyTorch's threads busy-wait for each other. On small batches they gain little, and they stall for milliseconds whenever
another process occupies one of the cores. So training on small batches uses one PyTorch thread and leaves the other
cores to the C kernels, whose threads yield or sleep while they wait.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch

CGROUP = Path("/sys/fs/cgroup")
SMALL = 16_384  # rows per model and step

_granted: int | None = None  # threads of the kernels while PyTorch uses one


def num_threads() -> int:
    """The number of threads that a kernel may use: PyTorch's setting, but at most the number of usable cores."""
    return min(_granted or torch.get_num_threads(), usable_cores())


@contextmanager
def threads_for(rows: float) -> Iterator[None]:
    """Limit PyTorch to one thread if a step has few rows per model; the kernels keep theirs."""
    global _granted
    if rows >= SMALL or _granted is not None or torch.get_num_threads() == 1:
        yield
        return
    before = _granted = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _granted = None


@cache
def usable_cores() -> int:
    """The cores that this process may run on, or the quota of its container if that is smaller."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota = container_quota(CGROUP)
    return cores if quota is None else max(min(cores, int(quota)), 1)


def container_quota(cgroup: Path) -> float | None:
    """The CPU time that a control group grants per unit of time; None without a limit."""
    try:
        if (cgroup / "cpu.max").exists():  # version 2
            quota, period = (cgroup / "cpu.max").read_text().split()
        else:
            quota = (cgroup / "cpu" / "cpu.cfs_quota_us").read_text()
            period = (cgroup / "cpu" / "cpu.cfs_period_us").read_text()
        return int(quota) / int(period) if int(quota) > 0 else None
    except (OSError, ValueError):  # no such file, or the quota is "max"
        return None
