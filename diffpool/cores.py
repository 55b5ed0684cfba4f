"""The number of CPU cores that this process may use."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


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
