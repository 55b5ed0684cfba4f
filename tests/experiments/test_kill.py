"""A run that is killed repeatedly ends with the records of an uninterrupted run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from diffpool.experiments import read_records

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("protocol", ["paper", "tenfold", "nested"])
def test_a_run_killed_at_random_times_ends_with_the_same_records(
    protocol: str, tmp_path: Path, soak: bool
) -> None:
    kills = 30 if soak else 3
    done = subprocess.run(
        [sys.executable, Path(__file__).parent / "killed_runs.py", tmp_path, protocol, str(kills)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(kills)
    alone = [r.comparable for r in read_records(tmp_path / "alone.jsonl")]
    assert len(alone) == 10
    killed = sorted(tmp_path.glob("killed-*.jsonl"))
    assert killed
    for path in killed:
        assert [r.comparable for r in read_records(path)] == alone
    assert not list(tmp_path.glob("*.checkpoints"))
