"""How fast do two processes train one model on D&D, and how even is their work?

One model with one pooling and batches of 20 graphs, on the CPU: one process with one thread and with two, and two
processes with one thread each, with statistics of the whole batch and of shards. The cases take turns, and the fastest
epoch of each counts, because other load on the machine only adds time. The CPU time of a process does not count the
time in which it waits for the other one.

Then the same batches are divided by the number of graphs, by nodes, and by nodes and edges. The imbalance is the
largest part divided by the mean, as a mean over batches: of nodes, of directed edges, and of the measured seconds of a
forward and backward pass. A step takes as long as its largest part.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import mean

import numpy as np
import torch
import torch.distributed as dist

from benchmarks.record import begin, finish, parser
from diffpool.architecture import Architecture
from diffpool.builder import build
from diffpool.data import GraphDataset, load_dataset, single_split
from diffpool.nn import GraphClassifier
from diffpool.training import Cohort, CohortBatches, Processes, Training, total_loss
from diffpool.training.distributed import divided, work

GRAPHS, BATCH, EPOCHS, TURNS, TIMED_BATCHES = 200, 20, 3, 3, 10
CASES = {  # processes, threads of each, statistics
    "one process, one thread": (1, 1, "synchronized"),
    "one process, two threads": (1, 2, "synchronized"),
    "two processes, synchronized": (2, 1, "synchronized"),
    "two processes, shard": (2, 1, "shard"),
}


def prepared(name: str) -> tuple[GraphDataset, GraphClassifier]:
    dataset = load_dataset(name)
    torch.manual_seed(0)
    shape = (dataset.num_features, dataset.num_outputs, dataset.largest)
    return dataset, build(Architecture(), *shape)


def worker(name: str, case: str, rank: int, store: str) -> dict[str, float]:
    """The fastest epoch of one process: wall and CPU seconds."""
    size, threads, statistics = CASES[case]
    torch.set_num_threads(threads)
    processes = None
    if size > 1:
        dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=size)
        processes = Processes.current()
    dataset, model = prepared(name)
    fold = single_split(dataset.y, seed=0)
    fold = replace(fold, train=fold.train[:GRAPHS])
    config = Training(batch_size=BATCH, batch_statistics=statistics)
    cohort = Cohort(model, dataset, [fold], [config], processes=processes)
    cohort.train_on([fold.train[: 2 * BATCH]])
    found = []
    for _ in range(EPOCHS):
        wall, cpu = time.perf_counter(), time.process_time()
        cohort.train_on([fold.train])
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    if size > 1:
        dist.destroy_process_group()
    return {"wall": min(w for w, _ in found), "cpu": min(c for _, c in found)}


def run(name: str, case: str) -> list[dict[str, float]]:
    """Start the processes of a case."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.data_parallel", "--data", name, "--case", case]
        environment = {**os.environ, "OMP_NUM_THREADS": str(CASES[case][1])}
        runs = [
            subprocess.Popen(
                [*command, "--rank", str(rank), "--store", str(Path(folder) / "store")],
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
            for rank in range(CASES[case][0])
        ]
        outputs = [process.communicate(timeout=600)[0] for process in runs]
    return [json.loads(output.splitlines()[-1]) for output in outputs]


def throughput(name: str) -> dict[str, dict[str, float]]:
    """Graphs per second of each case, and the CPU seconds of all its processes per 1000 graphs."""
    found: dict[str, list[list[dict[str, float]]]] = {case: [] for case in CASES}
    for _ in range(TURNS):
        for case, turns in found.items():
            turns.append(run(name, case))
    return {
        case: {
            "graphs_per_second": GRAPHS / min(max(p["wall"] for p in turn) for turn in turns),
            "cpu_seconds": min(sum(p["cpu"] for p in turn) for turn in turns) * 1000 / GRAPHS,
        }
        for case, turns in found.items()
    }


def parts_of(rule: str, dataset: GraphDataset, chosen: np.ndarray, size: int) -> list[np.ndarray]:
    """The graphs of each process."""
    if rule == "count":
        return np.array_split(chosen, size)
    cost = dataset.sizes if rule == "nodes" else work(dataset)
    return [chosen[part] for part in divided(chosen, cost, size)]


def imbalance(name: str) -> dict[str, dict[str, float]]:
    """Largest part divided by the mean, for every rule and number of processes."""
    torch.set_num_threads(1)
    dataset, model = prepared(name)
    batches = CohortBatches(dataset, model.clusters)
    order = np.random.default_rng(0).permutation(len(dataset))
    drawn = [order[start : start + BATCH] for start in range(0, len(order) - BATCH, BATCH)]
    rows: dict[str, dict[str, float]] = {}
    for rule in ("count", "nodes", "nodes and edges"):
        row: dict[str, float] = {}
        for size in (2, 8):
            parts = [parts_of(rule, dataset, chosen, size) for chosen in drawn]
            for what, cost in (("nodes", dataset.sizes), ("edges", dataset.edge_counts)):
                loads = [[int(cost[part].sum()) for part in own] for own in parts]
                row[f"{what}, {size}"] = mean(max(own) / mean(own) for own in loads)
            times = [
                [seconds(model, batches, part) for part in own] for own in parts[:TIMED_BATCHES]
            ]
            row[f"seconds, {size}"] = mean(max(own) / mean(own) for own in times)
        rows[rule] = row
    return rows


def seconds(model: GraphClassifier, batches: CohortBatches, part: np.ndarray) -> float:
    """CPU seconds of a forward and backward pass; the faster one of two."""
    found = []
    for _ in range(2):
        start = time.process_time()
        batch = batches.batch(part[None])
        prediction = model(batch.graphs, batch.x, batch.plan)
        total_loss(prediction, batch.y, {}).sum().backward()
        found.append(time.process_time() - start)
    return min(found)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data", default="DD", help="data set (default DD)")
    options.add_argument("--case", choices=CASES, help="one process (used internally)")
    options.add_argument("--rank", type=int, default=0, help="its number (used internally)")
    options.add_argument("--store", default="", help="its meeting point (used internally)")
    chosen = begin(options)
    if chosen.case:
        print(json.dumps(worker(chosen.data, chosen.case, chosen.rank, chosen.store)))
        return
    load = os.getloadavg()[0]
    rows = throughput(chosen.data)
    alone = rows["one process, one thread"]["graphs_per_second"]
    for case, row in rows.items():
        speed = row["graphs_per_second"]
        print(
            f"{case:30} {speed:8.0f} graphs/s  {speed / alone:5.2f} ×  CPU s {row['cpu_seconds']:.1f}"
        )
    uneven = imbalance(chosen.data)
    for rule, cells in uneven.items():
        print(f"{rule:20}", "  ".join(f"{what}: {value:.2f}" for what, value in cells.items()))
    about = {"data": chosen.data, "batch": BATCH, "load_before": load}
    finish("data_parallel", {**about, "rows": rows, "imbalance": uneven}, chosen)


if __name__ == "__main__":
    main()
