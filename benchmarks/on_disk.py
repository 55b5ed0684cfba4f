"""Can a data set that is larger than memory be converted, trained on for an epoch and predicted?

Each step is the command that a user would type, in its own process, whose memory is sampled: *private* memory, which
the process needs, and *mapped* memory, pages of files that the system may drop at any time. The graphs have 15 to 25
nodes, a path with chords. The class says whether the chords are short.

With `--folder`, the files are kept there, and a step that is finished there is not repeated.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.record import begin, finish, parser
from diffpool.files import write_json

STEPS = ("generate", "convert", "train", "predict")
GENERATED = 5_000  # graphs at a time
CHORDS, LABELS, SHORT = 5, 4, 3
POINTS = 60  # of the memory curve in the record
GIB = 2**30


def lines(graphs: int) -> Iterator[str]:
    """Random graphs as JSON lines."""
    for start in range(0, graphs, GENERATED):
        rng = np.random.default_rng([0, start])
        count = min(GENERATED, graphs - start)
        sizes, classes = rng.integers(15, 26, count), rng.integers(0, 2, count)
        first = rng.integers(0, sizes[:, None], (count, CHORDS))
        short = (first + rng.integers(2, SHORT + 1, first.shape)) % sizes[:, None]
        anywhere = rng.integers(0, sizes[:, None], first.shape)
        chords = np.stack([first, np.where(classes[:, None] == 0, short, anywhere)], 2)
        labels = rng.integers(0, LABELS, (count, 25))
        path = [[n, n + 1] for n in range(25)]
        found = zip(sizes.tolist(), classes.tolist(), chords.tolist(), labels.tolist(), strict=True)
        for nodes, label, extra, names in found:
            edges = path[: nodes - 1] + extra  # lists of integers print as JSON
            yield f'{{"nodes": {nodes}, "edges": {edges}, "node_labels": {names[:nodes]}, "label": {label}}}\n'


def commands(folder: Path, chosen: argparse.Namespace) -> dict[str, list[str]]:
    """The arguments of Python for each step."""
    command = ["-m", "diffpool"]
    data, model = str(folder / "graphs"), str(folder / "model")
    file = str(folder / "graphs.jsonl")
    network = ["--epochs", "1", "--batch-size", str(chosen.batch_size), "--overwrite"]
    predictions = str(folder / "predictions.csv")
    quiet = ["--device", "cpu", "-q"]
    return {
        "generate": ["-m", "benchmarks.on_disk", "--write", file, "--graphs", str(chosen.graphs)],
        "convert": [*command, "data", "convert", file, "--out", data, "--overwrite", "-q"],
        "train": [*command, "train", data, "--out", model, *network, *quiet],
        "predict": [*command, "predict", model, data, "--out", predictions, *quiet],
    }


def measure(command: list[str], threads: int, every: float) -> dict[str, Any]:
    """Run Python with these arguments. Seconds, peaks in GiB, and the memory curve [seconds, private, mapped]."""
    start = time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    curve: list[list[float]] = []
    with subprocess.Popen([sys.executable, *command], env=environment, text=True) as process:
        about = psutil.Process(process.pid)
        while process.poll() is None:
            with contextlib.suppress(psutil.Error):
                memory = about.memory_info()
                mapped = getattr(memory, "shared", 0)  # Linux only
                sizes = [round(size / GIB, 3) for size in (memory.rss - mapped, mapped)]
                curve.append([round(time.perf_counter() - start, 1), *sizes])
            time.sleep(every)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed with exit code {process.returncode}")
    curve = curve or [[0.0, 0.0, 0.0]]
    return {
        "seconds": round(time.perf_counter() - start, 1),
        "private_gib": max(point[1] for point in curve),
        "mapped_gib": max(point[2] for point in curve),
        "curve": thinned(curve),
    }


def thinned(curve: list[list[float]]) -> list[list[float]]:
    """About `POINTS` points of the curve, each the maximum of its neighborhood."""
    width = max(len(curve) // POINTS, 1)
    pieces = [curve[first : first + width] for first in range(0, len(curve), width)]
    return [[piece[-1][0], *np.max(piece, 0).tolist()[1:]] for piece in pieces]


def sizes_of(folder: Path) -> dict[str, float]:
    """GiB on disk."""
    files = {"json_lines": [folder / "graphs.jsonl"], "stored": list((folder / "graphs").iterdir())}
    return {
        name: round(sum(f.stat().st_size for f in found) / GIB, 3) for name, found in files.items()
    }


def run(folder: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    """All steps in turn; checks that each graph has a prediction."""
    rows = []
    for step, command in commands(folder, chosen).items():
        done = folder / f"{step}.measured.json"
        if not done.exists():
            write_json(done, measure(command, chosen.threads, chosen.every))
        row = {"step": step, **json.loads(done.read_text())}
        rows.append(row)
        print(
            f"{step:9} {row['seconds']:9.1f} s {row['private_gib']:7.3f} GiB private "
            f"{row['mapped_gib']:7.3f} GiB mapped",
            flush=True,
        )
    with (folder / "predictions.csv").open("rb") as file:
        predictions = sum(1 for _ in file) - 1
    if predictions != chosen.graphs:
        raise SystemExit(f"expected {chosen.graphs} predictions, got {predictions}")
    scores = json.loads((folder / "predictions.scores.json").read_text())
    return {
        "graphs": chosen.graphs,
        "batch_size": chosen.batch_size,
        "disk_gib": sizes_of(folder),
        "accuracy": scores["accuracy"],
        "rows": rows,
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--graphs", type=int, default=100_000, help="number of graphs")
    options.add_argument("--batch-size", type=int, default=100, help="graphs per training step")
    options.add_argument("--folder", type=Path, help="keep the files, and continue from them")
    options.add_argument(
        "--every", type=float, default=0.5, help="seconds between samples of memory"
    )
    options.add_argument("--write", type=Path, help="only write the graphs (used internally)")
    chosen = begin(options)
    if chosen.write:
        with chosen.write.open("w") as file:
            file.writelines(lines(chosen.graphs))
        return
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="on-disk-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        finish("on_disk", run(folder, chosen), chosen)
    finally:
        if chosen.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
