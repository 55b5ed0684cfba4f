"""How much longer than one model does an ensemble of five take on the CPU?

1,000 generated graphs of 10 to 30 nodes: a ring with chords, which close triangles in one of the two classes. Training
is that of `diffpool train` with default settings: for a fixed number of epochs, which compares the same work, and with
early stopping, where the members stop at different epochs. Prediction is that of `diffpool predict`, for all graphs.
One model and the ensemble take turns; ratios are those of the medians.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import mean, median
from typing import Any

import numpy as np

from benchmarks.record import begin, finish, parser
from diffpool.data import Categories, GraphDataset, RawGraphs
from diffpool.experiments import Outcome, settings_for, train_once

GRAPHS, MEMBERS = 1000, 5
EPOCHS = 10  # of the comparison of the same work


def rings_with_chords(count: int, seed: int = 0) -> RawGraphs:
    """Rings of 10 to 30 nodes with a third as many chords; those of the class `near` skip one node."""
    rng = np.random.default_rng(seed)
    sizes, y = rng.integers(10, 31, count), rng.integers(0, 2, count)
    ends = []
    for start, n, near in zip(np.cumsum(sizes) - sizes, sizes, y, strict=True):
        ring = np.arange(n)
        first = rng.integers(0, n, n // 3)
        skip = 2 if near else rng.integers(2, n // 2, n // 3)
        ends += [
            (start + ring, start + (ring + 1) % n),
            (start + first, start + (first + skip) % n),
        ]
    source, target = (np.concatenate(part) for part in zip(*ends, strict=True))
    classes = Categories.from_values(np.where(y == 1, "near", "far"))
    return RawGraphs.from_edges("rings", sizes, source, target, one_way=True, classes=classes)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def training(dataset: GraphDataset, repeats: int, **settings: Any) -> dict[str, Any]:
    """Seconds, epochs and test accuracy of one model and of the ensemble, each with the same seeds."""
    seconds: dict[int, list[float]] = {1: [], MEMBERS: []}
    found: dict[int, list[Outcome]] = {1: [], MEMBERS: []}
    for seed in range(repeats):
        for members in seconds:
            method = settings_for("diffpool", "rings", seed=seed, ensemble=members, **settings)
            taken, outcome = timed(lambda method=method: train_once(method, dataset))
            seconds[members].append(taken)
            found[members].append(outcome)
    one, several = (
        {
            "seconds": [round(s, 3) for s in seconds[members]],
            "median": round(median(seconds[members]), 3),
            "epochs": [len(outcome.epochs) for outcome in found[members]],
            "accuracy": round(100 * mean(o.test.accuracy or 0.0 for o in found[members]), 2),
        }
        for members in seconds
    )
    ratio = median(seconds[MEMBERS]) / median(seconds[1])
    return {"one": one, "ensemble": several, "ratio": round(ratio, 2)}


def prediction(raw: RawGraphs, dataset: GraphDataset, repeats: int) -> dict[str, Any]:
    """Seconds to predict all graphs."""
    models = {
        members: train_once(
            settings_for("diffpool", "rings", epochs=1, ensemble=members), dataset
        ).trained
        for members in (1, MEMBERS)
    }
    each = np.stack([member.predict_proba(raw) for member in models[MEMBERS].members])
    np.testing.assert_allclose(models[MEMBERS].predict_proba(raw), each.mean(0), atol=1e-6)
    seconds: dict[int, list[float]] = {1: [], MEMBERS: []}
    for _ in range(repeats):
        for members, model in models.items():
            seconds[members].append(timed(lambda model=model: model.predict_proba(raw))[0])
    one, several = (
        {
            "seconds": [round(s, 3) for s in seconds[members]],
            "median": round(median(seconds[members]), 3),
        }
        for members in models
    )
    ratio = median(seconds[MEMBERS]) / median(seconds[1])
    return {"one": one, "ensemble": several, "ratio": round(ratio, 2)}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--repeats", type=int, default=7, help="of the same work (default 7)")
    options.add_argument(
        "--stopped-repeats", type=int, default=3, help="with early stopping (default 3)"
    )
    chosen = begin(options)
    raw = rings_with_chords(GRAPHS)
    dataset = GraphDataset.from_raw(raw, "auto")
    training(dataset, 1, epochs=1)  # warms up
    rows = {}
    for name, measure in (
        (f"training, {EPOCHS} epochs", lambda: training(dataset, chosen.repeats, epochs=EPOCHS)),
        ("training, early stopping", lambda: training(dataset, chosen.stopped_repeats)),
        ("prediction", lambda: prediction(raw, dataset, chosen.repeats)),
    ):
        row = rows[name] = measure()
        one, several = row["one"], row["ensemble"]
        print(
            f"{name:26s} one {one['median']:7.2f} s   ensemble of {MEMBERS} {several['median']:7.2f} s   "
            f"{row['ratio']:.2f} ×",
            flush=True,
        )
    finish("ensemble", {"graphs": GRAPHS, "members": MEMBERS, "rows": rows}, chosen)


if __name__ == "__main__":
    main()
