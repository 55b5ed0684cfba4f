"""Model selection: which settings to try, which of them are best, and which to average."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from diffpool.errors import SettingError
from diffpool.experiments.grid import Grid, points
from diffpool.experiments.methods import Method
from diffpool.experiments.plan import HeldOut, Trained
from diffpool.training.settings import Training

Point = dict[str, Any]  # settings by name

TRIALS = 24  # points that `tune` tries by default
VARIANTS = 4  # points per architecture: they are trained side by side
MAX_POINTS = 10_000

# What `tune` tries by default. `space_for` leaves out what a method does not have.
DEFAULT_SPACE: Grid = (
    ("readout", ("sum", "mean", "max")),
    ("every_level", (True, False)),
    ("concat", (True, False)),
    ("head", ((64,), ())),
    ("hidden", (64, 32, 128)),
    ("poolings", (1, 2)),
    ("ratio", (0.25, 0.1, 0.5)),
    ("conv", ("sage", "gin", "gcn")),
    ("dropout", (0.0, 0.5)),
    ("learning_rate", (1e-3, 3e-3, 3e-4)),
    ("weight_decay", (0.0, 1e-3)),
    ("link_weight", (0.1, 1.0, 0.0)),
    ("entropy_weight", (0.1, 1.0, 0.0)),
)
POOLING = ("every_level", "poolings", "ratio", "link_weight", "entropy_weight")


def space_for(method: Method, fixed: Sequence[str] = ()) -> Grid:
    """The default search space of a method, without the `fixed` settings."""
    absent = set(fixed)
    if method.architecture.poolings == 0:
        absent |= set(POOLING)
    elif method.architecture.pooler != "diffpool":
        absent |= {"poolings", "ratio", "link_weight", "entropy_weight"}
    if isinstance(method.architecture.clusters, tuple):
        absent |= {"poolings", "ratio"}  # the number of clusters of every pooling is given
    if method.name != "diffpool":
        absent.add("conv")  # it is what distinguishes the baselines
    if method.architecture.readout not in ("sum", "mean", "max"):
        absent |= {"readout", "concat"}
    return tuple((name, values) for name, values in DEFAULT_SPACE if name not in absent)


def draw_points(
    grid: Grid, trials: int | None = None, sampler: str = "spread", seed: int = 0
) -> list[Point]:
    """The points of a grid; if there are more than `trials`, only `trials` of them, drawn as `sampler` says.

    About every fourth point has a new architecture: points that differ only in how they are trained are trained side by
    side. `seed` is for random points.
    """
    count = math.prod(len(values) for _, values in grid)
    if trials is None or sampler == "grid" or count <= trials:
        if count > MAX_POINTS:
            raise SettingError(
                f"expected a grid of at most {MAX_POINTS} points, got {count:,}: name fewer values, or draw some of "
                "the points, spread or at random"
            )
        return points(grid)
    draw = _random_points(seed) if sampler == "random" else _halton_points
    training = tuple(entry for entry in grid if hasattr(Training, entry[0]))
    variants = _draw(training, trials, draw)
    shapes = _draw(
        tuple(entry for entry in grid if entry not in training),
        -(-trials // min(VARIANTS, len(variants))),
        draw,
    )
    each = -(-trials // len(shapes))  # variants of each shape
    order = [name for name, _ in grid]
    chosen = []
    for turn in range(each):
        for number, shape in enumerate(shapes):
            point = shape | variants[(number * each + turn) % len(variants)]
            chosen.append({name: point[name] for name in order})
    return chosen[:trials]


# Maps the number of dimensions and the number of points at a time to points in [0, 1).
Sampler = Callable[[int, int], Iterator[np.ndarray]]


def _halton_points(dimensions: int, count: int) -> Iterator[np.ndarray]:
    from scipy.stats import qmc  # slow to import

    sequence = qmc.Halton(dimensions, scramble=True, seed=0)
    while True:
        yield sequence.random(count)


def _random_points(seed: int) -> Sampler:
    def draw(dimensions: int, count: int) -> Iterator[np.ndarray]:
        rng = np.random.default_rng([seed, dimensions])
        while True:
            yield rng.random((count, dimensions))

    return draw


def _draw(grid: Grid, count: int, draw: Sampler) -> list[Point]:
    """Up to `count` different points of a grid; neighbors differ in more than the last setting."""
    whole = math.prod(len(values) for _, values in grid)
    if whole <= count:
        every = points(grid)
        return [every[number] for number in np.random.default_rng(0).permutation(whole)]
    found: list[Point] = []
    for batch in draw(len(grid), count):
        for coordinates in batch:
            point = {
                name: values[int(u * len(values))]
                for u, (name, values) in zip(coordinates, grid, strict=True)
            }
            if point not in found:
                found.append(point)
            if len(found) == count:
                return found
    raise AssertionError("unreachable: the sampler never ends")


def rank(results: Sequence[Trained]) -> tuple[float, float]:
    """The order of settings by the validation of their models: the best accuracy, then the lowest loss, comes first.

    For regression, the loss alone. Settings with a model that failed come last.
    """
    if any(result.failed for result in results):
        return math.inf, math.inf
    accuracy = float(np.mean([result.validation_accuracy for result in results]))
    loss = float(np.mean([result.validation_loss for result in results]))
    return (0.0 if math.isnan(accuracy) else -accuracy), loss


def choose_members(candidates: Sequence[HeldOut | None], count: int) -> list[int]:
    """Greedy selection with replacement (Caruana et al., 2004): `count` members for an ensemble, the best one first.

    Candidates predict the same validation graphs; None is never chosen. Each step adds the candidate with which the
    mean of all chosen ones has the lowest loss: log loss for classes, squared error for targets.
    """
    usable = [n for n, candidate in enumerate(candidates) if candidate is not None]
    known = [candidate for candidate in candidates if candidate is not None]
    y, outputs = known[0].y, np.stack([held_out.outputs.astype(np.float64) for held_out in known])
    chosen: list[int] = []
    total = np.zeros_like(outputs[0])
    for number in range(1, count + 1):
        losses = [_loss(y, (total + candidate) / number) for candidate in outputs]
        best = int(np.argmin(losses))
        total += outputs[best]
        chosen.append(usable[best])
    return chosen


def _loss(y: np.ndarray, outputs: np.ndarray) -> float:
    if y.ndim > 1:
        return float(np.square((outputs - y) / _scale(y)).mean())
    chosen = outputs[np.arange(len(y)), y]
    return float(-np.log(np.maximum(chosen, 1e-6)).mean())


def _scale(y: np.ndarray) -> np.ndarray:
    """The standard deviation of each target, 1 if it is 0."""
    sd = y.std(0)
    return np.where(sd > 0, sd, 1.0)


def joined(parts: Sequence[HeldOut | None]) -> HeldOut | None:
    """The outputs for the validation graphs of all inner folds; None if one is missing."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return HeldOut(
        np.concatenate([part.y for part in known]), np.concatenate([part.outputs for part in known])
    )
