"""Are the thresholds of the C kernels in the right place? Training steps of `cpu_step` over a range of each.

ALONE: multiplications of a call below which one thread does everything. CHUNKED: multiplications above which the rows
of a single model are divided among threads. LARGE_GRAPH: multiplications in the pooling of one graph above which
PyTorch computes it. SMALL: rows per model and step below which PyTorch gets one thread. A value of 0 or infinity
switches a part off. The values of a threshold take turns of a few steps; the default is marked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from benchmarks.cpu_step import BATCH, TURN, Ours, Way
from benchmarks.record import begin, finish, parser
from diffpool.backends.cpu import adam, encoder, pooling, threads
from diffpool.data import GraphDataset, load_dataset
from diffpool.training import Training

PLACES: dict[str, tuple[ModuleType, ...]] = {
    "ALONE": (encoder, pooling, adam),
    "CHUNKED": (encoder,),
    "LARGE_GRAPH": (pooling,),
    "SMALL": (threads,),
}
VALUES: dict[str, tuple[float, ...]] = {
    "ALONE": (0, 2**16, 2**19, 2**22, math.inf),
    "CHUNKED": (0, 2**25, 2**27, 2**29, math.inf),
    "LARGE_GRAPH": (0, 2**24, 2**28, 2**32, math.inf),
    "SMALL": (0, 1024, 4096, 16384, math.inf),
}


@contextmanager
def threshold(name: str, value: float) -> Iterator[None]:
    """Set a threshold inside a `with` block."""
    patches = [patch.object(module, name, value) for module in PLACES[name]]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


def sweep(dataset: GraphDataset, name: str, turns: int) -> dict[str, float]:
    """Median milliseconds of a training step of one model, by the value of a threshold."""
    torch.manual_seed(0)
    ours = Ours(dataset, Way(), Training(batch_size=BATCH))
    rng = np.random.default_rng(0)
    times: dict[float, list[float]] = {value: [] for value in VALUES[name]}
    for turn in range(-1, turns):  # the first turn warms up
        chosen = np.stack([rng.choice(len(dataset), BATCH, replace=False) for _ in range(TURN)])
        for value, found in times.items():
            with threshold(name, value):
                steps = ours.turn(chosen)
            found += steps[1:] if turn >= 0 else []
    return {f"{value:g}": round(1e3 * float(np.median(t)), 2) for value, t in times.items()}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data-dir", required=True, help="folder with the zip files")
    options.add_argument("--datasets", default="ENZYMES,PROTEINS,DD")
    options.add_argument("--turns", type=int, default=8, help=f"of {TURN - 1} timed steps each")
    chosen = begin(options)
    rows: dict[str, dict[str, Any]] = {}
    for dataset_name in chosen.datasets.split(","):
        dataset = load_dataset(dataset_name, chosen.data_dir)
        rows[dataset_name] = {}
        for name, modules in PLACES.items():
            found = rows[dataset_name][name] = sweep(dataset, name, chosen.turns)
            default = f"{getattr(modules[0], name):g}"
            shown = ", ".join(f"{v}{'*' * (v == default)}: {ms:.2f}" for v, ms in found.items())
            print(f"{dataset_name:10s} {name:12s} ms per step: {shown}", flush=True)
    finish("thresholds", {"turns": chosen.turns, "rows": rows}, chosen)


if __name__ == "__main__":
    main()
