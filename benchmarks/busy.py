"""How long does training take while another process keeps a core busy?

One epoch of ENZYMES with two poolings: one model, and a cohort of ten. With one thread and with the default, on a quiet
machine and next to one busy process. The default must not be slower than one thread on a quiet machine, and next to the
busy process it must take at most 1.5 times what one thread takes undisturbed. The cases take turns, epoch by epoch.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from benchmarks.cpu_step import BATCH, architecture
from benchmarks.record import begin, finish, parser
from diffpool.builder import build
from diffpool.data import Fold, GraphDataset, load_dataset
from diffpool.training import Cohort, Training


def _spin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    while os.getppid() == parent:  # ends with its parent
        for _ in range(100_000):
            pass


@contextmanager
def company(processes: int) -> Iterator[None]:
    """Run this number of busy processes alongside."""
    started = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(processes)]
    for process in started:
        process.start()
    if started:
        time.sleep(0.2)
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.join()


def make_cohort(dataset: GraphDataset, models: int) -> Cohort:
    torch.manual_seed(0)
    shape = (dataset.num_features, dataset.num_classes, dataset.largest)
    model = build(architecture("graph"), *shape, models=models)
    everything, nothing = np.arange(len(dataset)), np.empty(0, np.int64)
    folds = [Fold(everything, nothing, nothing)] * models
    return Cohort(
        model, dataset, folds, [Training(batch_size=BATCH, seed=m) for m in range(models)]
    )


def epoch(cohort: Cohort, threads: int) -> float:
    """Seconds of one epoch."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        orders = [np.arange(len(cohort.dataset))] * len(cohort)
        start = time.perf_counter()
        cohort.train_on(orders)
        return time.perf_counter() - start
    finally:
        torch.set_num_threads(before)


def measure(dataset: GraphDataset, models: int, epochs: int, processes: int) -> dict[str, Any]:
    """Median seconds per epoch in each case, and the two ratios."""
    threads = torch.get_num_threads()
    cases = {
        "one_thread": (1, 0),
        "default": (threads, 0),
        "one_thread_busy": (1, processes),
        "default_busy": (threads, processes),
    }
    cohort = make_cohort(dataset, models)
    times: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(epochs + 1):  # the first one warms up
        for name, (count, busy) in cases.items():
            with company(busy):
                seconds = epoch(cohort, count)
            times[name] += [seconds] if number else []
    row: dict[str, Any] = {n: round(statistics.median(t), 4) for n, t in times.items()}
    row["default / one thread"] = round(row["default"] / row["one_thread"], 2)
    row["busy / one thread"] = round(row["default_busy"] / row["one_thread"], 2)
    row["slowest busy epoch / one thread"] = round(
        max(times["default_busy"]) / row["one_thread"], 2
    )
    return row


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data-dir", required=True, help="folder with ENZYMES.zip")
    options.add_argument("--epochs", type=int, default=9, help="timed epochs of each case")
    options.add_argument("--processes", type=int, default=1, help="busy processes")
    chosen = begin(options)
    dataset = load_dataset("ENZYMES", chosen.data_dir)
    rows = {}
    for models in (1, 10):
        row = measure(dataset, models, chosen.epochs, chosen.processes)
        rows[f"{models} model" + "s" * (models > 1)] = row
        print(f"{models:2d} models:", row, flush=True)
    finish("busy", {"processes": chosen.processes, "epochs": chosen.epochs, "rows": rows}, chosen)


if __name__ == "__main__":
    main()
