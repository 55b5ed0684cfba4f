"""A script for test_kill.py: kill a run at random times, resume it each time, and finally let it finish.

    python killed_runs.py FOLDER PROTOCOL KILLS

One process forks for every start, because importing torch takes seconds; only the child is killed. Writes
FOLDER/alone.jsonl, an uninterrupted run, and FOLDER/killed-N.jsonl; prints the number of kills. The protocol
`tune-embedded` is `diffpool.tune` on generated data and `tune-own` on FOLDER/own.jsonl; they write FOLDER/alone and
FOLDER/killed-N.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from diffpool.data import GraphDataset, embedded, read_graphs
from diffpool.experiments import Nested, evaluate, make_grid, settings_for, tune

SPACE = make_grid({"readout": ["sum", "max"], "learning_rate": [1e-2, 3e-3], "dropout": [0.0, 0.3]})
NESTED = Nested(make_grid({"learning_rate": [1e-2, 1e-3]}), final_runs=1)


def run(protocol: str, out: Path) -> None:
    """Start or resume the run; patience and dropout make some models stop early."""
    if protocol.startswith("tune"):
        start_tuning(protocol, out.with_suffix(""))
        return
    method = settings_for(
        "diffpool", "embedded", hidden=4, batch_size=10, epochs=6, patience=1, dropout=0.2
    )
    evaluate(
        method,
        embedded(40, rungs=2),
        NESTED if protocol == "nested" else protocol,
        out=out,
        cohort=6,
        checkpoint_seconds=0,
    )


def start_tuning(protocol: str, out: Path) -> None:
    """Start or continue a search; one that is complete is left as it is."""
    if (out / "config.json").exists() and not list(out.glob("*.checkpoints")):
        return
    method = settings_for("diffpool", "embedded", hidden=4, batch_size=10, epochs=8)
    dataset = embedded(40, rungs=2)
    if protocol == "tune-own":
        dataset = GraphDataset.from_raw(read_graphs(out.parent / "own.jsonl"), "degree")
    tune(
        method,
        dataset,
        out=out,
        space=SPACE,
        trials=6,
        ensemble=3,
        cohort=2,
        checkpoint_seconds=0,
    )


def start(protocol: str, out: Path) -> int:
    """The process id of a child that runs."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run(protocol, out)
            status = 0
        finally:
            os._exit(status)
    return child


def main(folder: Path, protocol: str, kills: int) -> None:
    """Kill `kills` times; a run that ends before its kill is followed by a new one."""
    torch.set_num_threads(1)
    rng = random.Random(0)
    begin = time.monotonic()
    run(protocol, folder / "alone.jsonl")
    usual = time.monotonic() - begin
    killed, number = 0, 0
    while killed < kills:
        child = start(protocol, folder / f"killed-{number}.jsonl")
        time.sleep(rng.uniform(0.02, 0.4 * usual))
        os.kill(
            child, signal.SIGKILL
        )  # even if it has ended: it is not reaped yet, so the id is its own
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            killed += 1
        else:
            assert os.WEXITSTATUS(status) == 0
            number += 1
    _, status = os.waitpid(start(protocol, folder / f"killed-{number}.jsonl"), 0)
    assert os.WEXITSTATUS(status) == 0
    print(killed)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
