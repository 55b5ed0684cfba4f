"""Runs for test_distributed.py: training alone, and the same as one of two processes.

    python -m tests.training.shared_training RANK STORE OUT

Both first run a command, whose environment is that of torchrun. Each writes what it found to OUT.RANK.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from diffpool.architecture import RELEASED, Architecture
from diffpool.builder import build
from diffpool.cli.commands import main as cli
from diffpool.data import Fold, GraphDataset, embedded, single_split
from diffpool.errors import DiffPoolError
from diffpool.training import Cohort, Processes, StopTraining, Training, train

GRAPHS = Path(__file__).parents[2] / "examples" / "data" / "graphs.jsonl"
SMALL = Architecture(hidden=6, layers_after=2)
BATCH = Training(batch_size=8, seed=1)
RANDOM = replace(SMALL, poolings=2, ratio=0.5, assignment="gumbel", head=(6,))
# architecture, settings, number of models, number of training graphs, epochs, double precision
CASES: dict[str, tuple[Architecture, Training, int, int, int, bool]] = {
    "float32": (SMALL, replace(BATCH, batch_size=16), 1, 80, 10, False),
    "random numbers": (RANDOM, replace(BATCH, dropout=0.3), 1, 24, 3, True),
    "fewer graphs than processes": (SMALL, BATCH, 1, 17, 3, True),
    "released": (replace(RELEASED, hidden=5), BATCH, 1, 24, 2, True),
    "two models": (SMALL, replace(BATCH, dropout=0.3, class_weight="balanced"), 2, 21, 3, True),
    "shard": (SMALL, replace(BATCH, batch_statistics="shard"), 1, 24, 3, True),
}
Curve = list[list[tuple[float, float]]]


@lru_cache
def data(double: bool = True, graphs: int = 100) -> tuple[GraphDataset, Fold]:
    dataset = embedded(graphs)
    if double:
        both = dataset.graphs.to(dtype=torch.float64), dataset.x.double()
        dataset = replace(dataset, graphs=both[0], x=both[1])
    return dataset, single_split(dataset.y, seed=0)


def curves(case: str, processes: Processes | None = None) -> Curve:
    """Training and validation loss of every model after every epoch."""
    architecture, config, models, count, epochs, double = CASES[case]
    dataset, fold = data(double)
    fold = replace(fold, train=fold.train[:count])
    # the parameters at the start are those of the first process
    torch.manual_seed(0 if processes is None else processes.rank)
    shape = (dataset.num_features, dataset.num_classes, dataset.largest, models)
    model = build(architecture, *shape).to(dataset.x.dtype)
    configs = [replace(config, seed=m) for m in range(models)]
    cohort = Cohort(model, dataset, [fold] * models, configs, processes=processes)
    rows = [cohort.train_epoch() for _ in range(epochs)]
    return [[(row.train_loss, row.validation_loss) for row in epoch if row] for epoch in rows]


def complaint(call: Callable[[], Any]) -> str:
    try:
        call()
    except DiffPoolError as error:
        return str(error)
    return "no error"


def epochs_until(rank: int, processes: Processes) -> int:
    """The number of epochs if the callback of the process `rank` wants to stop after the second epoch."""
    dataset, fold = data()
    model = build(SMALL, dataset.num_features, dataset.num_classes, dataset.largest).double()

    def callback(row: Any) -> None:
        if row.epoch == 2 and processes.rank == rank:
            raise StopTraining

    settings = replace(BATCH, epochs=3)
    return len(list(train(model, dataset, fold, settings, [callback], processes)))


def command(*words: object) -> tuple[str, str]:
    """Output and error output of a command."""
    sys.argv = ["diffpool", *map(str, words)]
    output, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors), suppress(SystemExit):
        cli()
    return output.getvalue(), errors.getvalue()


def main(rank: int, store: str, out: Path) -> None:
    torch.set_num_threads(1)
    words = (
        "--method",
        "graphsage",
        "--device",
        "cpu",
        "--epochs",
        2,
        "--hidden",
        6,
        "--out",
        out.with_name("model"),
    )
    shown = command("train", GRAPHS, *words)
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=2)
    processes = Processes.current()
    found: dict[str, Any] = {"shown": shown} | {case: curves(case, processes) for case in CASES}
    found["epochs"] = [epochs_until(0, processes), epochs_until(1, processes)]
    dataset, fold = data()
    one = (replace(BATCH, batch_size=1),)
    found["small batch"] = complaint(lambda: processes.check(dataset, [fold], one))
    own = (fold, replace(fold, train=fold.train[::-1]))[rank]  # another order in each process
    found["other fold"] = complaint(lambda: processes.check(dataset, [own], [BATCH]))
    if rank == 0:
        found["lost"] = complaint(lambda: processes.add(torch.ones(1)))
    out.with_suffix(f".{rank}").write_text(json.dumps(found))
    if rank == 1:
        dist.destroy_process_group()
    os._exit(0)  # the library aborts if it finds a broken connection


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
