"""A run that is killed repeatedly ends with the records of an uninterrupted run.

A prepared process forks for every start, because importing torch takes seconds; the child alone is killed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from diffpool.data import embedded
from diffpool.experiments import Nested, evaluate, make_grid, read_records, settings_for

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

KILLS = 10  # for each protocol; 30 in total
NESTED = Nested(make_grid({"learning_rate": [1e-2, 1e-3]}), final_runs=1)


def run(protocol: str, out: Path) -> None:
    """Start or resume the run; it has the same settings every time."""
    torch.set_num_threads(1)
    changes: dict[str, Any] = {"epochs": 6, "patience": 1, "dropout": 0.2}  # some stop early
    method = settings_for("diffpool", "embedded", hidden=4, batch_size=10, **changes)
    evaluate(
        method,
        embedded(40, rungs=2),
        NESTED if protocol == "nested" else protocol,
        out=out,
        cohort=6,
        checkpoint_seconds=0,
    )


def start(protocol: str, out: Path) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run(protocol, out)
            status = 0
        finally:
            os._exit(status)
    return child


def main(folder: Path) -> None:
    """Kill runs of every protocol at random times; a finished run is followed by a new one; the last one may finish."""
    rng = random.Random(0)
    report: dict[str, Any] = {}
    for protocol in ("paper", "tenfold", "nested"):
        begin = time.monotonic()
        run(protocol, folder / f"{protocol}-alone.jsonl")
        usual = time.monotonic() - begin
        kills, number = 0, 0
        while kills < KILLS:
            out = folder / f"{protocol}-{number}.jsonl"
            child = start(protocol, out)
            time.sleep(rng.uniform(0.02, 0.4 * usual))
            os.kill(
                child, signal.SIGKILL
            )  # a child that has ended is not reaped yet, so the id is still its own
            _, status = os.waitpid(child, 0)
            if os.WIFSIGNALED(status):
                kills += 1
            else:
                assert os.WEXITSTATUS(status) == 0
                number += 1
        _, status = os.waitpid(start(protocol, out), 0)
        assert os.WEXITSTATUS(status) == 0
        report[protocol] = {"kills": kills, "runs": number + (1 if out.exists() else 0)}
    print(json.dumps(report))


def test_a_run_killed_at_random_times_ends_with_the_same_records(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert sum(part["kills"] for part in report.values()) >= 20
    for protocol in report:
        alone = [r.comparable for r in read_records(tmp_path / f"{protocol}-alone.jsonl")]
        assert len(alone) == 10
        killed = sorted(tmp_path.glob(f"{protocol}-[0-9]*.jsonl"))
        assert killed
        for path in killed:
            assert [r.comparable for r in read_records(path)] == alone
    assert not list(tmp_path.glob("*.checkpoints"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
