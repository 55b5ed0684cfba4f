"""The output of the commands: progress bars and tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

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

from diffpool.data import GraphDataset, RawGraphs
from diffpool.experiments import METHODS, Method, Outcome
from diffpool.experiments.methods import METHOD_SETTINGS
from diffpool.training import Epoch

# Control characters, and characters that reverse the direction of text: a terminal would obey them.
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """The text with control characters as escapes such as \\x1b: names in the data must not control the terminal."""
    return UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], text)


class PlainConsole(Console):
    """A console that prints text as it is: names may look like markup or contain control characters."""

    def __init__(self, stderr: bool = False):
        super().__init__(highlight=False, markup=False, emoji=False, stderr=stderr)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


console = PlainConsole()
errors = PlainConsole(stderr=True)


@contextmanager
def epochs_bar(method: Method) -> Iterator[Callable[[Epoch], None]]:
    """A progress bar over the epochs, with loss and accuracy. Yields a function to call after each epoch."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("{task.fields[scores]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(method.name, total=method.training.epochs, scores="")

        def watch(row: Epoch) -> None:
            train, validation = percent(row.train_accuracy), percent(row.validation_accuracy)
            progress.update(
                task,
                completed=row.epoch,
                scores=f"loss {row.train_class_loss:.3f}{train}, val {row.validation_loss:.3f}{validation}",
            )

        yield watch


def print_outcome(outcome: Outcome) -> None:
    """Print the best epoch and the score on the test graphs."""
    best, count = outcome.best_epoch, len(outcome.fold.test)
    console.print(
        f"best epoch {best.epoch}: validation loss {best.validation_loss:.4f}"
        f"{percent(best.validation_accuracy)}   ({outcome.seconds:.0f} s)"
    )
    if outcome.test.accuracy is None:
        error = f"{100 * outcome.test.loss:.1f} %"
        console.print(
            Text.assemble(
                (f"test error {error}", "bold"),
                f" of the variance of the targets, on {count} graphs",
            )
        )
    else:
        accuracy = f"{100 * outcome.test.accuracy:.1f} %"
        console.print(Text.assemble((f"test accuracy {accuracy}", "bold"), f" on {count} graphs"))


def percent(accuracy: float | None) -> str:
    return "" if accuracy is None else f" {100 * accuracy:.0f} %"


@contextmanager
def download_bar(name: str) -> Iterator[Callable[[int, int | None], None]]:
    """A progress bar that appears with the first byte. Yields a function of the bytes received and their total."""
    columns = (
        TextColumn(
            printable(f"downloading {name}").replace("{", "{{").replace("}", "}}"), markup=False
        ),
        BarColumn(bar_width=None),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    progress = Progress(*columns, console=errors, transient=True)
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
def preparing_bar() -> Iterator[Callable[[float], None]]:
    """A progress bar that appears if structures are precomputed. Yields a function of the fraction that is done."""
    columns = (TextColumn("preparing graphs"), BarColumn(bar_width=None), TimeRemainingColumn())
    progress = Progress(*columns, console=errors, transient=True)
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
def graphs_bar(title: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar over graphs. Yields a function of the number of graphs to advance by."""
    columns = (
        TextColumn(title),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=errors) as progress:
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
        ("largest graph", f"{facts['max_nodes']:,} nodes"),
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


def describe(dataset: GraphDataset, method: Method) -> None:
    """Print the data set, and how the method differs from the paper."""
    outputs = (
        f"{dataset.num_outputs} targets" if dataset.regression else f"{dataset.num_classes} classes"
    )
    console.print(
        f"{dataset.name}: {len(dataset)} graphs, {outputs}, "
        f"{dataset.graphs.num_nodes / max(len(dataset), 1):.1f} nodes on average, at most {dataset.largest}; "
        f"features: {dataset.features}; on {dataset.x.device}"
    )
    paper = METHODS["diffpool"]
    changed = [
        f"{s.name} {s.show(method.value(s.name))}"
        for s in METHOD_SETTINGS.values()
        if method.value(s.name) != paper.value(s.name)
    ]
    if changed:
        console.print(f"{method.name}: {', '.join(changed)}; otherwise as in the paper")
