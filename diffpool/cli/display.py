"""The output of the commands: progress bars and tables."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table
from rich.text import Text

from diffpool.experiments.methods import METHOD_SETTINGS, METHODS, Method
from diffpool.text import printable

if TYPE_CHECKING:
    from diffpool.data import GraphDataset, RawGraphs
    from diffpool.experiments import Outcome
    from diffpool.training import Epoch

LINE_SECONDS = 10.0  # between progress lines, if the output is not a terminal


def counted(number: int, one: str, several: str | None = None) -> str:
    """A number with its noun: `1 class`, `2 classes`."""
    return f"{number} {one if number == 1 else several or one + 's'}"


class PlainConsole(Console):
    """A console that prints text literally: names may look like markup or contain control characters."""

    def __init__(self, stderr: bool = False, quiet: bool = False):
        super().__init__(highlight=False, markup=False, emoji=False, stderr=stderr, quiet=quiet)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


console = PlainConsole()
errors = PlainConsole(stderr=True)


def progress_console(quiet: bool, stderr: bool = True) -> Console:
    """The console for progress and remarks: silent with `--quiet`, on standard error if the output is JSON."""
    return PlainConsole(stderr, quiet)


def print_json(values: dict[str, Any], to: TextIO | None = None) -> None:
    print(json.dumps(values, allow_nan=False), file=to)


class Lines:
    """Progress as plain lines, at most one every few seconds, for output that is not a terminal."""

    def __init__(self, console: Console):
        self.console, self.last = console, time.monotonic()

    def show(self, text: str, now: bool = False) -> None:
        if now or time.monotonic() - self.last >= LINE_SECONDS:
            self.last = time.monotonic()
            self.console.print(text, markup=False)


@contextmanager
def epochs_bar(method: Method, console: Console = console) -> Iterator[Callable[[Epoch], None]]:
    """A progress bar over the epochs, with loss and accuracy. Yields a function to call after each epoch."""
    total = method.training.epochs
    if not console.is_terminal:
        lines = Lines(console)
        yield lambda row: lines.show(
            f"{method.name}: epoch {row.epoch}/{total}, {_scores(row)}", now=row.epoch in (1, total)
        )
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("{task.fields[scores]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(method.name, total=total, scores="")
        yield lambda row: progress.update(task, completed=row.epoch, scores=_scores(row))


def _scores(row: Epoch) -> str:
    train, validation = percent(row.train_accuracy), percent(row.validation_accuracy)
    return f"loss {row.train_class_loss:.3f}{train}, val {row.validation_loss:.3f}{validation}"


def outcome_facts(outcome: Outcome) -> dict[str, Any]:
    """The result of `diffpool train` as plain values, for `--json`."""
    best = outcome.best_epoch
    return {
        "method": outcome.card.method,
        "dataset": outcome.card.dataset,
        "epochs": len(outcome.epochs),
        "best_epoch": best.epoch,
        "best_epochs": list(outcome.best_epochs),
        "members": len(outcome.best_epochs),
        "validation_loss": best.validation_loss,
        "validation_accuracy": best.validation_accuracy,
        "test_graphs": len(outcome.fold.test),
        "test_loss": outcome.test.loss if len(outcome.fold.test) else None,
        "test_accuracy": outcome.test.accuracy if len(outcome.fold.test) else None,
        "validation": outcome.metrics("validation"),
        "test": outcome.metrics("test"),
        "seconds": outcome.seconds,
        "interrupted": outcome.interrupted,
        "stopped_early": outcome.stopped_early,
    }


def print_outcome(outcome: Outcome) -> None:
    """Print the best epoch and the scores on the test graphs."""
    from diffpool.experiments.report import early_stop

    best = outcome.best_epoch
    if len(outcome.best_epochs) == 1:
        console.print(
            f"best epoch {best.epoch}: validation loss {best.validation_loss:.4f}"
            f"{percent(best.validation_accuracy)}   ({outcome.seconds:.0f} s)"
        )
    else:
        first, last = min(outcome.best_epochs), max(outcome.best_epochs)
        console.print(
            f"ensemble of {len(outcome.best_epochs)} models, best epochs {first} to {last}   "
            f"({outcome.seconds:.0f} s)"
        )
        if (metrics := outcome.metrics("validation")) is not None:
            print_scores(console, metrics, "validation ", matrix=False)
    if outcome.stopped_early:
        training = outcome.card.training
        console.print(early_stop(len(outcome.epochs), training.patience, training.monitor))
    if (metrics := outcome.metrics("test")) is not None:
        print_scores(console, metrics, "test ")


def print_scores(
    shown: Console, metrics: dict[str, Any], title: str = "", matrix: bool = True
) -> None:
    """Print metrics and, for up to ten classes, the confusion matrix."""
    from diffpool.training import metrics_text

    shown.print(
        f"{title}{metrics_text(metrics)} on {counted(metrics['graphs'], 'graph')}",
        markup=False,
        soft_wrap=True,
    )
    for name, count in metrics.get("unknown_classes", {}).items():
        shown.print(
            f"not scored: {counted(count, 'graph')} of class {name!r}, which was not in the training data",
            markup=False,
            soft_wrap=True,
        )
    names = [str(name) for name in metrics.get("classes", ())]
    if matrix and 0 < len(names) <= 10 and metrics["confusion"] is not None:
        shown_names = [Text(printable(name)) for name in names]
        table = Table("true class", title="predicted class")
        for label in shown_names:
            table.add_column(label)
        for label, row in zip(shown_names, metrics["confusion"], strict=True):
            table.add_row(label, *map(str, row))
        shown.print(table)


def warn(message: str, console: Console = console) -> None:
    console.print(f"warning: {message}", style="yellow", markup=False, soft_wrap=True)


def percent(accuracy: float | None) -> str:
    return "" if accuracy is None else f" {100 * accuracy:.0f} %"


@contextmanager
def download_bar(name: str, console: Console) -> Iterator[Callable[[int, int | None], None]]:
    """A progress bar that appears with the first byte. Yields a function of the bytes received and the total."""
    if not console.is_terminal:
        lines = Lines(console)
        yield lambda received, total: lines.show(
            f"downloading {name}: {received / 1e6:.1f}"
            + ("" if total is None else f"/{total / 1e6:.1f}")
            + " MB"
        )
        return
    columns = (
        TextColumn(
            printable(f"downloading {name}").replace("{", "{{").replace("}", "}}"), markup=False
        ),
        BarColumn(bar_width=None),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task(name, total=None)

    def watch(received: int, total: int | None) -> None:
        progress.start()
        progress.update(task, completed=received, total=total)

    try:
        yield watch
    finally:
        if progress.live.is_started:
            progress.stop()


@contextmanager
def preparing_bar(console: Console) -> Iterator[Callable[[float], None]]:
    """A progress bar that appears while structures are precomputed. Yields a function of the fraction done."""
    if not console.is_terminal:
        lines = Lines(console)
        yield lambda share: lines.show(f"preparing graphs: {100 * share:.0f} %")
        return
    columns = (TextColumn("preparing graphs"), BarColumn(bar_width=None), TimeRemainingColumn())
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task("preparing", total=1.0)

    def watch(share: float) -> None:
        progress.start()
        progress.update(task, completed=share)

    try:
        yield watch
    finally:
        if progress.live.is_started:
            progress.stop()


@contextmanager
def graphs_bar(title: str, total: int | None, console: Console) -> Iterator[Callable[[int], None]]:
    """A progress bar over graphs. Yields a function of the number of graphs to advance by."""
    if not console.is_terminal:
        lines, done = Lines(console), 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            lines.show(f"{title}: {done}" + ("" if total is None else f"/{total}") + " graphs")

        yield advance
        return
    columns = (
        TextColumn(title),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(title, total=total)
        yield lambda count: progress.advance(task, count)


def print_statistics(raw: RawGraphs, facts: dict[str, Any]) -> None:
    """Print the table of `diffpool data`."""
    table = Table(title=facts["name"], show_header=False, title_justify="left")
    rows = [("graphs", f"{facts['graphs']:,}")]
    if facts["classes"]:
        counts = [f"{name}: {count}" for name, count in facts["class_counts"].items()]
        shown = ", ".join(counts[:12]) + (", …" if len(counts) > 12 else "")
        rows.append(("classes", f"{facts['classes']}  ({shown})"))
    if facts["targets"]:
        rows.append(("targets", str(facts["targets"])))
    rows += [
        ("nodes", f"{facts['nodes']:,}, mean {facts['mean_nodes']:.2f}"),
        ("edges", f"{facts['edges']:,}, mean {facts['mean_edges']:.2f}"),
        (
            "largest graph",
            f"{facts['max_nodes']:,} {'node' if facts['max_nodes'] == 1 else 'nodes'}",
        ),
        ("node labels", _labels(raw.node_labels)),
        ("node attributes", str(facts["node_attributes"] or "–")),
        ("edge labels", _labels(raw.edge_labels)),
        ("edge attributes", str(facts["edge_attributes"] or "–")),
    ]
    remarks = []
    if facts["directed"]:
        remarks.append("edges are directed; training uses them in both directions")
    for key in ("empty_graphs", "isolated_nodes", "self_loops"):
        if facts[key]:
            remarks.append(f"{facts[key]:,} {key.replace('_', ' ')}")
    if facts["edge_weights"]:
        remarks.append("edges have weights")
    rows.append(("features used", facts["features"]))
    if remarks:
        rows.append(("remarks", "\n".join(remarks)))
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _labels(table: Any) -> str:
    if table is None:
        return "–"
    return "; ".join(f"{len(names)} ({_range(names)})" for names in table.names)


def _range(names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{names[0]} … {names[-1]}"


def describe(
    dataset: GraphDataset,
    method: Method,
    console: Console,
    tried: Method | None = None,
    where: object = None,
) -> None:
    """Print a summary of the data set, how the method differs from the paper, and warnings.

    `tried`: the warnings are about this method instead. `where`: the devices, by default that of the data set.
    """
    from diffpool.experiments import class_counts

    outputs = counted(dataset.num_classes, "class", "classes")
    if dataset.regression:
        outputs = counted(dataset.num_outputs, "target")
    console.print(
        f"{dataset.name}: {counted(len(dataset), 'graph')}, {outputs}, "
        f"{dataset.num_nodes / max(len(dataset), 1):.1f} nodes on average, at most {dataset.largest}; "
        f"features: {dataset.features}; on {where or dataset.device}"
    )
    paper = METHODS["diffpool"]
    changed = [
        f"{s.name} {s.show(method.value(s.name))}"
        for s in METHOD_SETTINGS.values()
        if method.value(s.name) != paper.value(s.name)
    ]
    if changed:
        console.print(f"{method.name}: {', '.join(changed)}; otherwise as in the paper")
    if not dataset.regression:
        counts = [f"{name}: {count}" for name, count in class_counts(dataset).items()]
        shown = ", ".join(counts[:12]) + (", …" if len(counts) > 12 else "")
        console.print(f"graphs per class: {shown}", markup=False, soft_wrap=True)
    advise(dataset, tried or method, console)


def advise(dataset: GraphDataset, method: Method, console: Console) -> None:
    """Warn about imbalanced classes and about pooling to a single cluster."""
    from diffpool.experiments import imbalance, trivial_pooling

    if method.training.class_weight is None and (message := imbalance(dataset)):
        warn(message, console)
    if message := trivial_pooling(method.architecture, dataset):
        warn(message, console)
