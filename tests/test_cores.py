"""The number of usable CPU cores."""

from __future__ import annotations

from pathlib import Path

import pytest

from diffpool import cores


@pytest.mark.parametrize(
    ("quota", "usable"), [("250000 100000", 2), ("50000 100000", 1), ("max 100000", 8)]
)
def test_the_usable_cores_are_those_of_the_process_up_to_the_quota_of_its_container(
    quota: str, usable: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(cores, "CGROUP", tmp_path)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(8)), raising=False)
    assert cores.usable_cores.__wrapped__() == usable


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"}, 2.0),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({}, None),
    ],
)
def test_the_quota_of_a_container_is_read(
    files: dict[str, str], quota: float | None, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cores.container_quota(tmp_path) == quota
