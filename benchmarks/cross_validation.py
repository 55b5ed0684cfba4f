"""How many graphs a second does a ten-fold cross-validation train, against PyTorch Geometric's dense DiffPool?

The architecture, losses and batches of `cpu_step`, with ceil(25 %) of each graph's own nodes as its clusters. Ours
trains the ten models as one cohort; PyG trains them one after the other, so its throughput is that of one model. One of
ours alone stands beside it, and the peak memory of one model. The peers take turns, step by step.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.cpu_step import BATCH, HIDDEN, RATIO, architecture
from benchmarks.pyg_dense import PygDiffPool, step, to_pyg
from benchmarks.record import finish, parser
from diffpool.data import GraphDataset, load_dataset
from diffpool.nn import build
from diffpool.training import CohortBatches, Optimiser, Training, train_step
from diffpool.training.captured import CapturedSteps

REPEATS, PYG_STEPS = 5, 6
DATASETS = "ENZYMES,PROTEINS,DD,COLLAB,REDDIT-MULTI-12K-sub1111"


class Run:
    """M of our models, and one step of each of them."""

    def __init__(self, dataset: GraphDataset, models: int):
        shape = (dataset.num_features, dataset.num_classes, dataset.largest)
        self.model = (
            build(architecture("graph"), *shape, models=models).to(dataset.x.device).train()
        )
        self.optimiser = Optimiser(self.model, [Training()] * models)
        self.batches = CohortBatches(dataset, self.model.clusters)
        self.captured = None
        if dataset.x.is_cuda:
            self.captured = CapturedSteps(self.batches, self.work, models, BATCH)

    def work(self, *parts: Any) -> None:
        train_step(self.model, self.optimiser, *parts, Training().loss_weights)

    def steps(self, chosen: np.ndarray) -> None:
        """Steps on these graphs: [steps, M, B]."""
        if self.captured is None:
            for own in chosen:
                self.work(*self.batches.batch(own).parts)
        else:
            orders = list(chosen.transpose(1, 0, 2).reshape(chosen.shape[1], -1))
            self.captured.epoch(orders, [BATCH] * len(orders))


def timed(work: Callable[[], None], device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def peak(work: Callable[[], None], device: str) -> float:
    """Peak memory of the GPU in MiB above what was there before; 0 on the CPU."""
    if device != "cuda":
        work()
        return 0.0
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    work()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def measure(
    dataset: GraphDataset, steps: int, models: int, device: str, peer: bool = True
) -> dict[str, Any]:
    torch.manual_seed(0)
    dataset = dataset.to(device)
    rng = np.random.default_rng(0)
    # An epoch to warm up, then five to be timed; PyG has fewer steps in each, its time is the same at each of them.
    draws = [
        np.stack(
            [
                [rng.choice(len(dataset), BATCH, replace=False) for _ in range(models)]
                for _ in range(steps)
            ]
        )
        for _ in range(1 + REPEATS)
    ]
    first = math.ceil(RATIO * dataset.largest)
    sizes = (first, math.ceil(RATIO * first))
    cohort, single = Run(dataset, models), Run(dataset, 1)
    works: dict[str, Callable[[np.ndarray], None]] = {
        "cohort": cohort.steps,
        "single": lambda c: single.steps(c[:, :1]),
    }
    if peer:
        theirs = PygDiffPool(dataset.num_features, HIDDEN, dataset.num_classes, sizes).to(device)
        adam = torch.optim.Adam(theirs.parameters(), 1e-3)
        needed = sorted({int(g) for c in draws for g in c[:PYG_STEPS, 0].flatten()})
        graphs = dict(zip(needed, to_pyg(dataset.to("cpu"), needed), strict=True))

        def pyg(c: np.ndarray) -> None:
            for own in c[:PYG_STEPS, 0]:
                step(theirs, adam, [graphs[g] for g in own], Training().clip, device)

        works["pyg"] = pyg
    memory = {name: peak(lambda w=work: w(draws[0]), device) for name, work in works.items()}
    times: dict[str, list[float]] = {name: [] for name in works}
    for c in draws[1:]:
        for name, work in works.items():
            times[name].append(timed(lambda w=work, c=c: w(c), device))
    done = {"cohort": steps * models, "single": steps, "pyg": min(steps, PYG_STEPS)}
    rate = {name: BATCH * done[name] * len(t) / sum(t) for name, t in times.items()}
    times = {
        name: [s / (done[name] / (models if name == "cohort" else 1)) for s in t]
        for name, t in times.items()
    }
    row: dict[str, Any] = {name: round(value, 1) for name, value in rate.items()}
    row |= {f"{name}_mib": round(value, 1) for name, value in memory.items()}
    row |= {f"{name}_ms": round(1e3 * float(np.median(t)), 3) for name, t in times.items()}
    row |= {"models": models, "steps": steps, "clusters": list(sizes)}
    if peer:
        row["ratio"] = round(rate["cohort"] / rate["pyg"], 1)
        row["ratio_single"] = round(rate["single"] / rate["pyg"], 1)
    return row


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data-dir", required=True, help="folder with the zip files")
    options.add_argument("--datasets", default=DATASETS)
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--models", type=int, default=10)
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--no-peer", action="store_true")
    chosen = options.parse_args()
    torch.set_num_threads(chosen.threads)
    rows = {}
    print("graphs a second of training, batch 20; MiB of one model; ms of a step")
    for name in chosen.datasets.split(","):
        dataset = load_dataset(name, chosen.data_dir)
        row = rows[name] = measure(
            dataset, chosen.steps, chosen.models, chosen.device, not chosen.no_peer
        )
        print(name, row, flush=True)
    ratio = {name: row.get("ratio") for name, row in rows.items()}
    name = "cross_validation" if chosen.device == "cuda" else "cross_validation_cpu"
    finish(name, {"ratio": ratio, "rows": rows}, chosen)


if __name__ == "__main__":
    main()
