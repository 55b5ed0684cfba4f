"""How much longer does an ensemble of five take than one model, on a CPU?

The data are 1,000 generated graphs with 10 to 30 nodes: rings with chords, which close triangles in one of the two
classes. Models are trained as by `diffpool train` with default settings. For a fixed number of epochs, one model and
the ensemble take turns, and medians are compared. With early stopping, members stop at different epochs; "one model" is
then the mean of the members, each trained alone with its seed and its part of the graphs. Prediction covers all graphs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import mean, median
from typing import Any

import numpy as np

from benchmarks.record import begin, finish, parser
from diffpool.data import Categories, GraphDataset, RawGraphs
from diffpool.experiments import Outcome, fit, settings_for, train_once
from diffpool.experiments.plan import derived_seed

GRAPHS, MEMBERS = 1000, 5
EPOCHS = 10  # for the comparison with a fixed number of epochs

Training = tuple[float, Outcome]  # seconds and outcome


def rings_with_chords(count: int, seed: int = 0) -> RawGraphs:
    """Rings of 10 to 30 nodes, with a third as many chords as nodes; chords of class `near` skip one node."""
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


def same_work(dataset: GraphDataset, repeats: int, epochs: int = EPOCHS) -> dict[str, Any]:
    """Train one model and the ensemble for the same number of epochs, in turns."""
    found: dict[int, list[Training]] = {1: [], MEMBERS: []}
    for seed in range(repeats):
        for members, own in found.items():
            method = settings_for("diffpool", "rings", seed=seed, ensemble=members, epochs=epochs)
            own.append(timed(lambda method=method: train_once(method, dataset)))
    return row(found[1], found[MEMBERS])


def early_stopping(dataset: GraphDataset, repeats: int) -> dict[str, Any]:
    """Train the ensemble with early stopping, and each member alone with its seed and its part of the graphs."""
    alone: list[Training] = []
    together: list[Training] = []
    for seed in range(repeats):
        method = settings_for("diffpool", "rings", seed=seed, ensemble=MEMBERS)
        together.append(timed(lambda method=method: train_once(method, dataset)))
        for number, fold in enumerate(together[-1][1].folds):
            own = settings_for("diffpool", "rings", seed=derived_seed(seed, "member", number))
            alone.append(timed(lambda own=own, fold=fold: fit(own, dataset, fold)))
    return row(alone, together, mean)


def row(
    one: list[Training], several: list[Training], middle: Callable[..., float] = median
) -> dict[str, Any]:
    """The times, epochs and test accuracies of single models and of ensembles."""
    sides = [
        {
            "seconds": [round(seconds, 3) for seconds, _ in own],
            "median": round(middle([seconds for seconds, _ in own]), 3),
            "epochs": [len(outcome.epochs) for _, outcome in own],
            "accuracy": round(100 * mean(o.test.accuracy or 0.0 for _, o in own), 2),
        }
        for own in (one, several)
    ]
    ratio = sides[1]["median"] / sides[0]["median"]
    return {"one": sides[0], "ensemble": sides[1], "ratio": round(ratio, 2)}


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
    options.add_argument(
        "--repeats",
        type=int,
        default=7,
        help="repeats with a fixed number of epochs, and of the prediction (default 7)",
    )
    options.add_argument(
        "--stopped-repeats", type=int, default=2, help="repeats with early stopping (default 2)"
    )
    chosen = begin(options)
    raw = rings_with_chords(GRAPHS)
    dataset = GraphDataset.from_raw(raw, "auto")
    same_work(dataset, 1, epochs=1)  # warms up
    rows = {}
    for name, measure in (
        (f"training, {EPOCHS} epochs", lambda: same_work(dataset, chosen.repeats)),
        ("training, early stopping", lambda: early_stopping(dataset, chosen.stopped_repeats)),
        ("prediction", lambda: prediction(raw, dataset, chosen.repeats)),
    ):
        found = rows[name] = measure()
        one, several = found["one"], found["ensemble"]
        print(
            f"{name:26s} one {one['median']:7.2f} s   ensemble of {MEMBERS} {several['median']:7.2f} s   "
            f"{found['ratio']:.2f} ×",
            flush=True,
        )
    finish("ensemble", {"graphs": GRAPHS, "members": MEMBERS, "rows": rows}, chosen)


if __name__ == "__main__":
    main()
