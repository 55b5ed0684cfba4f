"""The progress of `diffpool evaluate`: a live view in a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from diffpool.cli.display import LINE_SECONDS
from diffpool.cli.durations import duration
from diffpool.experiments.status import KernelStatus, Status

if TYPE_CHECKING:
    from diffpool.experiments import Evaluation

BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH = 40  # of curves and bars

AnyStatus = Status | KernelStatus


@contextmanager
def evaluation_display(console: Console, title: str) -> Iterator[Callable[[AnyStatus], None]]:
    """Yields a function to call with each status."""
    with live_display(console, title, _view, line) as watch:
        yield watch


@contextmanager
def live_display(
    console: Console,
    title: str,
    view: Callable[[str, AnyStatus], RenderableType],
    line: Callable[[AnyStatus], str],
) -> Iterator[Callable[[AnyStatus], None]]:
    """Yields a function that shows each status: the view in a terminal, otherwise a line every few seconds."""
    if console.is_terminal:
        with Live(title, console=console, transient=True, refresh_per_second=4) as live:
            yield lambda status: live.update(view(title, status))
        return
    console.print(title)
    last = time.monotonic()
    before: object = None

    def print_line(status: AnyStatus) -> None:
        nonlocal last, before
        now = status.tasks if isinstance(status, Status) else len(status.records)
        if now != before or time.monotonic() - last >= LINE_SECONDS:
            last, before = time.monotonic(), now
            console.print(line(status))

    yield print_line


def line(status: AnyStatus) -> str:
    """The status as a line of text."""
    if isinstance(status, KernelStatus):
        folds = f"folds {len(status.records)}/{status.folds}"
        if status.gram < 1:
            return f"{folds}, Gram matrices {100 * status.gram:.0f} %"
        return f"{folds}, fits {status.fitted}/{status.fits}, {_left(status)}"
    return (
        f"folds {len(status.records)}/{status.folds}, models {status.finished}/{status.models}, "
        f"{status.active} in training, epoch {status.epoch}/{status.max_epochs}, "
        f"{training_text(status)}"
    )


def _view(title: str, status: AnyStatus) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    folds = ("folds", len(status.records), status.folds)
    if isinstance(status, KernelStatus):
        add_bars(table, ("Gram matrices, %", round(100 * status.gram), 100), folds)
        add_bars(table, ("fits", status.fitted, status.fits))
        table.add_row("", "", _left(status))
        return Group(title, table)
    add_bars(table, folds, ("models", status.finished, status.models))
    add_training(table, status)
    return Group(title, table)


def add_training(table: Table, status: Status) -> None:
    """Add rows about the models in training."""
    add_bars(table, ("epoch", status.epoch, status.max_epochs))
    if _validation(status):
        table.add_row(
            "validation",
            sparkline(status.accuracies),
            f"{100 * status.accuracies[-1]:.1f} % on average",
        )
    table.add_row(
        "speed",
        f"{_rate(status):,.0f} graphs/s, {_models(status)}",
        f"at most {duration(status.seconds_left)} left",
    )


def add_bars(table: Table, *bars: tuple[str, int, int]) -> None:
    """Add a row for each (name, done, total)."""
    for name, done, total in bars:
        bar = ProgressBar(total=total, completed=done, width=WIDTH)
        table.add_row(name, bar, f"{done}/{total}")


def _left(status: KernelStatus) -> str:
    left = status.seconds_left
    return "" if left is None else f"about {duration(left)} left"


def _validation(status: Status) -> str:
    """The mean validation accuracy; empty for regression."""
    accuracy = status.accuracies[-1]
    return "" if math.isnan(accuracy) else f"validation {100 * accuracy:.1f} %, "


def training_text(status: Status) -> str:
    """The validation accuracy, the speed and the time left, for a line."""
    return (
        f"{_validation(status)}{_rate(status):,.0f} graphs/s, "
        f"at most {duration(status.seconds_left)} left"
    )


def _models(status: Status) -> str:
    if status.cohorts == 1:
        return f"{status.active} models side by side"
    return f"{status.active} models in {status.cohorts} cohorts"


def _rate(status: Status) -> float:
    return status.graphs / max(status.seconds, 1e-9)


def sparkline(values: Sequence[float], width: int = WIDTH) -> str:
    """A curve of block characters, scaled from the lowest to the highest value; at most `width` values are shown."""
    if len(values) > width:
        values = [values[(i + 1) * len(values) // width - 1] for i in range(width)]
    low, high = min(values), max(values)
    scale = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(BLOCKS[round((value - low) * scale)] for value in values)


def print_evaluation(console: Console, evaluation: Evaluation) -> None:
    """Print the accuracy (for regression MAE, RMSE and R²) of every fold, and mean ± sd, also of the other scores."""
    folds = len({record.fold for record in evaluation.records})
    for name, metric in evaluation.metrics.items():
        shown = ["–" if value is None else f"{value:.4g}" for value in metric["folds"]]
        console.print(f"{name}: " + "  ".join(shown))
    for start in range(0, len(evaluation.accuracies), folds):
        part = evaluation.accuracies[start : start + folds]
        console.print("folds: " + "  ".join(f"{accuracy:.1f}" for accuracy in part))
    console.print(str(evaluation), style="bold")
    if evaluation.scores:
        console.print(evaluation.scores_text)
