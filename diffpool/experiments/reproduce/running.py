"""Running time: one model of DiffPool, GraphSAGE and Set2Set, training and forward, seconds per epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from diffpool.experiments.methods import settings_for
from diffpool.experiments.reproduce.cells import DATASETS
from diffpool.experiments.reproduce.found import WORK
from diffpool.experiments.reproduce.measurements import (
    ORIGIN,
    Report,
    append_line,
    origin,
    read_lines,
    where,
)
from diffpool.experiments.reproduce.published import PAPER_SOURCE, PRINTED_SLOWDOWN
from diffpool.experiments.reproduce.render import PlainTable

if TYPE_CHECKING:
    from diffpool.data import GraphDataset
    from diffpool.experiments.methods import Method

BATCH, TURNS = 20, 3
# Title, method, settings, and the number of timed steps: a step of the last row takes up to a second.
ROWS: dict[str, tuple[str, str, dict[str, Any], int]] = {
    "diffpool": ("DiffPool", "diffpool", {}, 20),
    "graphsage": ("GraphSAGE", "graphsage", {}, 20),
    "set2set": ("Set2Set, 3 steps", "set2set", {}, 20),
    "set2set-nodes": ("Set2Set, a step per node", "set2set", {"set2set_steps": 0}, 1),
}
SLOW_ROWS = ("set2set-nodes",)
TIMES = ("training", "forward")
FIELDS = ("dataset", "row", *TIMES, *ORIGIN)  # of a measurement


def times_file(records: Path) -> Path:
    """Where the measurements are recorded."""
    return records / WORK / "time.jsonl"


def measure_times(
    records: Path,
    datasets: Sequence[str],
    load: Callable[[str], GraphDataset],
    device: str,
    deadline: float | None = None,
    report: Report = lambda line: None,
) -> None:
    """Measure what is missing, one row after the other, until the deadline (of `time.monotonic`).

    The row with a step per node takes minutes on large graphs: it is measured after the other rows of all data sets,
    on small graphs first.
    """
    path = times_file(records)
    by_size = sorted(datasets, key=lambda name: DATASETS[name].mean_nodes)
    for slow, names in ((False, datasets), (True, by_size)):
        for name in names:
            dataset = None
            for row, (_, method, changes, steps) in ROWS.items():
                if (row in SLOW_ROWS) != slow or (name, row) in _latest(path):
                    continue
                if deadline is not None and time.monotonic() >= deadline:
                    return
                dataset = load(name).to(device) if dataset is None else dataset
                chosen = settings_for(method, name, batch_size=BATCH, **changes)
                values = _measure(chosen, dataset, steps)
                append_line(path, {"dataset": name, "row": row, **values, **origin(dataset.device)})
                report(
                    f"time, {row} on {name}: {values['training']:.3f} s per epoch, forward {values['forward']:.3f} s"
                )


def _measure(method: Method, dataset: GraphDataset, steps: int) -> dict[str, Any]:
    """Seconds for training on all graphs and for a forward pass, in batches of 20; the median of several turns."""
    import numpy as np

    from diffpool.data import Fold
    from diffpool.experiments.cohorts import initial_models
    from diffpool.training import Cohort
    from diffpool.training.cohort_batches import CohortBatches
    from diffpool.training.scores import Scorer

    size = len(dataset)
    steps = min(steps, -(-size // BATCH))
    graphs = np.random.default_rng(0).permutation(size)[: steps * BATCH]
    everything, nothing = np.arange(size), np.empty(0, np.int64)
    fold = Fold(everything, nothing, nothing)
    model = initial_models(method.architecture, [0], dataset, [fold])
    cohort = Cohort(model, dataset, [fold], [method.training])
    scorer = Scorer(model, CohortBatches(dataset, model.clusters), 1, BATCH)
    on_gpu = dataset.device.type == "cuda"
    # On a GPU, the second occurrence of a shape captures the step: the timed turns are like those of a long run.
    training = _median_seconds(lambda: cohort.train_on([graphs]), 3 if on_gpu else 1, on_gpu)
    forward = _median_seconds(lambda: scorer([graphs]), 3 if on_gpu else 1, on_gpu)
    share = size / len(graphs)
    return {
        "training": round(training * share, 4),
        "forward": round(forward * share, 4),
        "graphs": size,
        "steps": steps,
        "turns": TURNS,
        "batch": BATCH,
        "parameters": sum(p.numel() for p in model.parameters()),
    }


def _median_seconds(work: Callable[[], object], rehearsals: int, on_gpu: bool) -> float:
    import torch

    wait = torch.cuda.synchronize if on_gpu else lambda: None
    for _ in range(rehearsals):
        work()
    seconds = []
    for _ in range(TURNS):
        wait()
        start = time.perf_counter()
        work()
        wait()
        seconds.append(time.perf_counter() - start)
    return median(seconds)


def _latest(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["dataset"], row["row"]): row for row in read_lines(path, FIELDS)}


def time_table(records: Path, datasets: Sequence[str]) -> PlainTable:
    """Seconds per epoch of each row, and the ratio to DiffPool, next to the paper's factor for Set2Set."""
    found = _latest(times_file(records))
    lines, facts, used = [], [], []
    ratios: dict[str, list[float]] = {}
    missing = []
    for name in datasets:
        if DATASETS[name].needs and not any((name, row) in found for row in ROWS):
            continue
        for kind in TIMES:
            base = found.get((name, "diffpool"), {}).get(kind)
            cells = []
            for row, (title, *_) in ROWS.items():
                measured = found.get((name, row))
                if measured is None:
                    cells.append("not run")
                    missing.append(f"{title} on {name}")
                    continue
                used.append(measured)
                ratio = measured[kind] / base if base else None
                cells.append(
                    f"{measured[kind]:.3g} s"
                    + ("" if ratio is None else f" ({two_digits(ratio)} ×)")
                )
                facts.append(
                    {"table": "time", "dataset": name, "method": title, "kind": kind}
                    | {"seconds": measured[kind], "ratio": ratio, "device": measured["device"]}
                )
                if ratio is not None and kind == "training":
                    ratios.setdefault(row, []).append(ratio)
            lines.append([f"{name}, {kind}", *cells])
    notes = [
        f"The paper ({PAPER_SOURCE}) says that Set2Set runs {PRINTED_SLOWDOWN:g} times slower than DiffPool on "
        "average. Its released code takes as many Set2Set steps as the largest graph has nodes."
    ]
    for row in ("set2set", "set2set-nodes", "graphsage"):
        if factors := ratios.get(row):
            notes.append(
                f"{ROWS[row][0]}: {two_digits(fmean(factors))} × the time of DiffPool in training, mean over "
                f"{len(factors)} data {'set' if len(factors) == 1 else 'sets'}."
            )
    if missing:
        count = len(set(missing))
        which = missing[0] if count == 1 else f"{missing[0]}, …"
        notes.append(f"Missing: {count} measurement{'s' * (count > 1)} ({which}): use --run.")
    notes += [where(used)] if used else []
    caption = (
        "Running time: seconds per epoch of one model with preset settings in batches of 20 graphs, and in parentheses "
        "the ratio to DiffPool. Precomputation is not included."
    )
    header = ["data set", *(title for title, *_ in ROWS.values())]
    return PlainTable("time", caption, header, lines, facts, tuple(notes))


def two_digits(factor: float) -> str:
    """A factor with two significant digits: 0.90, 1.8, 1,300."""
    return f"{factor:#.2g}".rstrip(".") if factor < 10 else f"{float(f'{factor:.2g}'):,.0f}"
