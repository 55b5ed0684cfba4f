"""`diffpool reproduce`: print the tables of the paper from records, and compute missing cells."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.measure import Measurement
from rich.progress_bar import ProgressBar
from rich.table import Table as RichTable
from rich.text import Text

from diffpool.cli.completion import complete_settings
from diffpool.cli.display import LINE_SECONDS, PlainConsole, console, counted, progress_console
from diffpool.cli.durations import duration, max_time_option
from diffpool.cli.options import Cluster, DataDir, Devices, Quiet, Workers
from diffpool.errors import SettingError, did_you_mean
from diffpool.experiments.grid import parse_settings
from diffpool.experiments.reproduce.cells import (
    DATASETS,
    PROTOCOLS,
    ROWS,
    SHOWN,
    TABLES,
    USUAL_ROWS,
    choose,
)
from diffpool.experiments.reproduce.found import default_folder
from diffpool.experiments.reproduce.render import FORMATS, WRITERS, Shown

if TYPE_CHECKING:
    from diffpool.data import GraphDataset
    from diffpool.experiments.reproduce.cells import Cell
    from diffpool.experiments.reproduce.run import Outcome, Progress, Workspace

TARGETS = {
    "table1": "Table 1: accuracy of all methods",
    "table2": "Table 2: Structure2Vec with DiffPool",
    "time": "running time compared with Set2Set",
    "stability": "ten seeds with and without the link loss",
    "analysis": "section 4.4: whether its statements about the clusters hold",
    "figures": "accuracy, speed and numbers of clusters, drawn as files",
    "all": "all tables",
}
BAR = 30  # columns
PARALLEL = 64  # maximum of --jobs
MAX_WIDTH = 5000  # of a table in a file


def reproduce(
    what: Annotated[
        str,
        typer.Argument(
            help=f"One of {', '.join(f'`{name}`' for name in TARGETS)}.",
            autocompletion=lambda: list(TARGETS),
        ),
    ] = "all",
    protocol: Annotated[
        str | None,
        typer.Option(
            help=f"Show only this protocol: {', '.join(f'`{name}`' for name in PROTOCOLS)}.",
            metavar="NAME",
            show_default="all, a table for each",
            autocompletion=lambda: list(PROTOCOLS),
        ),
    ] = None,
    records: Annotated[
        Path | None,
        typer.Option(
            help="Folder with the records.", show_default="the folder results of the source tree"
        ),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help=f"Output format: {', '.join(f'`{name}`' for name in FORMATS)}.",
            metavar="NAME",
            autocompletion=lambda: list(FORMATS),
        ),
    ] = "text",
    datasets: Annotated[
        str | None,
        typer.Option(
            help="Only these data sets, separated by commas.",
            metavar="NAME,NAME",
            show_default="all",
        ),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Only these rows, separated by commas, such as `diffpool,graphsage,wl,diffpool-ensemble`.",
            metavar="NAME,NAME",
            show_default="all",
        ),
    ] = None,
    run: Annotated[
        bool,
        typer.Option(
            "--run",
            help="Compute missing cells first. After an interruption, run again to continue.",
        ),
    ] = False,
    dry: Annotated[
        bool, typer.Option("--list", help="Print the command of every missing cell, and stop.")
    ] = False,
    jobs: Annotated[
        int, typer.Option(help="For **--run**: number of cells to compute at the same time.")
    ] = 1,
    max_time: Annotated[
        float | None,
        max_time_option("For **--run**: interrupt the computation after this time.", plain="m"),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="For **--run**: `cpu`, `cuda`, `cuda:1`, or `auto`.",
            metavar="NAME",
            show_default="auto",
        ),
    ] = None,
    devices: Devices = None,
    cluster: Cluster = None,
    folds: Annotated[
        str | None,
        typer.Option(
            help="For **--run**: folder with the published folds, NAME_splits.json.",
            metavar="FOLDER",
            envvar="DIFFPOOL_FOLDS",
        ),
    ] = None,
    words: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            show_default=False,
            help="For trials: replace a declared setting in every cell. Such records are kept in a separate file.",
            autocompletion=complete_settings,
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="For `figures`: folder for the files.", metavar="FOLDER")
    ] = Path("figures"),
    data_dir: DataDir = None,
    quiet: Quiet = False,
) -> None:
    """Print the tables of the paper: our results from records, and the published numbers in parentheses.

    There is one table for each protocol: **paper** is for comparison with the paper, **nested** (Errica et al., 2020)
    has the same search space and budget for every row, and **inner-cv** is for kernels. A cell without records gives
    the reason. The records of this project are part of the source tree. With `--run`, missing cells are computed by
    `diffpool evaluate` and recorded in reproduce.jsonl in the folder of the records; after an interruption, the same
    command continues.

    **Examples**

    - `diffpool reproduce table1 --protocol nested`

    - `diffpool reproduce all --format html > results.html`

    - `diffpool reproduce table1 --datasets ENZYMES --methods diffpool,graphsage --run --jobs 2 --max-time 10m`

    - `diffpool reproduce figures --out figures`
    """
    _check(what, protocol, form, jobs)
    chosen_sets = list(SHOWN) if datasets is None else choose(datasets, DATASETS, "--datasets")
    rows = choose(methods, ROWS, "--methods")
    protocols = PROTOCOLS if protocol is None else (protocol,)
    changes = parse_settings(words or ())
    for name in ("ensemble", "seed"):
        if name in changes:
            raise SettingError(f"--set does not accept {name}: the rows of the table fix it")
    if changes and what not in (*TABLES, "stability", "all"):
        raise SettingError(
            f"expected no --set with {what}, got {', '.join(changes)}: it replaces settings of table1, table2 and "
            "stability only"
        )
    folder = default_folder() if records is None else records
    if records is not None and not (run or dry or records.exists()):
        raise SettingError(
            f"expected --records to be a folder with records, got {records}, which does not exist: choose another "
            "folder, or compute the records with --run"
        )
    tables = [name for name in TABLES if what in (name, "all")]

    from diffpool.experiments.reproduce.analysis import analysis_tables
    from diffpool.experiments.reproduce.cells import declared_cells
    from diffpool.experiments.reproduce.run import Workspace
    from diffpool.experiments.reproduce.running import time_table
    from diffpool.experiments.reproduce.stability import FIXED, stability_table
    from diffpool.experiments.reproduce.tables import accuracy_tables

    if fixed := [name for name in FIXED if name in changes and what == "stability"]:
        raise SettingError(f"--set does not accept {fixed[0]} for stability, which fixes it")
    where = None if data_dir is None else str(data_dir)
    if what == "figures":
        _draw(folder, out, None if datasets is None else chosen_sets, run or dry, quiet)
        return
    workers = Workers(devices, cluster)
    workers.check(device)
    if devices is not None:
        from diffpool.experiments.processes import parse_devices

        parse_devices(devices)  # report a mistake before the first cell
    if cluster is not None:
        from diffpool.experiments.ray_cluster import parse_cluster

        parse_cluster(cluster)
    workspace = Workspace(folder, device, where, folds or where, workers.words())
    computed = USUAL_ROWS if methods is None else rows
    cells = declared_cells(tables, protocols, chosen_sets, computed, changes)
    if dry:
        _list(cells, workspace)
        return
    others = [name for name in ("time", "stability") if what in (name, "all")]
    failed = False
    if run:
        shown = progress_console(quiet, stderr=True)
        start = time.monotonic()
        failed = bool(cells) and _run(cells, workspace, jobs, max_time, shown)
        deadline = None if max_time is None else start + max_time
        _measure(others, workspace, chosen_sets, changes, deadline, shown)
    found: list[Shown] = []
    for name in tables:
        found += accuracy_tables(name, protocols, folder, chosen_sets, rows, changes)
    if "time" in others:
        found.append(time_table(folder, chosen_sets))
    if "stability" in others:
        found.append(stability_table(folder, _stability_sets(chosen_sets), changes))
    if what in ("analysis", "all"):
        found += analysis_tables(folder, None if datasets is None else chosen_sets)
    if form == "text":
        for table in found:
            print_table(table)
    elif form == "html":
        from diffpool.explorer import results_page

        typer.echo(results_page(found), nl=False)
    else:
        typer.echo(WRITERS[form](found), nl=False)
    if failed:
        raise typer.Exit(1)


def _check(what: str, protocol: str | None, form: str, jobs: int) -> None:
    for given, known, name in (
        (what, TARGETS, "the table"),
        (protocol, PROTOCOLS, "--protocol"),
        (form, FORMATS, "--format"),
    ):
        if given is not None and given not in known:
            hint = did_you_mean(given, known)
            raise SettingError(
                f"expected {name} to be one of {', '.join(known)}, got {given!r}{hint}"
            )
    if not 1 <= jobs <= PARALLEL:
        raise SettingError(f"expected --jobs from 1 to {PARALLEL}, got {jobs}")


def _draw(folder: Path, out: Path, datasets: list[str] | None, computes: bool, quiet: bool) -> None:
    """Draw the figures of the records."""
    if computes:
        raise SettingError("expected no --run or --list with figures: compute the tables first")
    try:
        from diffpool.viz import draw_figures
    except ImportError as error:
        raise SettingError(str(error)) from error
    written, missing = draw_figures(folder, out, datasets)
    for path in written:
        progress_console(quiet, stderr=False).print(f"written: {path}", soft_wrap=True)
    for line in missing:
        progress_console(quiet, stderr=True).print(f"not drawn: {line}", soft_wrap=True)


def _list(cells: list[Cell], workspace: Workspace) -> None:
    """Print one command for each missing cell, with its priority or what it still needs."""
    from diffpool.experiments.reproduce.run import missing_cells

    for cell in missing_cells(cells, workspace):
        why = workspace.blocked(cell)
        remark = why or f"priority {cell.priority}, {counted(cell.models, 'model')}"
        typer.echo(f"diffpool {shlex.join(workspace.command(cell))}  # {remark}")


def _run(
    cells: list[Cell], workspace: Workspace, jobs: int, max_time: float | None, shown: Console
) -> bool:
    """Compute the missing cells; returns whether any failed."""
    from diffpool.experiments.reproduce.run import run_cells, terminated_like_interrupted

    try:
        with terminated_like_interrupted(), progress_display(shown) as watch:
            outcome = run_cells(cells, workspace, jobs, max_time, watch)
    except KeyboardInterrupt:
        shown.print("interrupted: the same command continues", soft_wrap=True)
        raise
    _summarize(outcome, shown)
    return bool(outcome.failed)


def _stability_sets(datasets: list[str]) -> list[str]:
    from diffpool.experiments.reproduce.stability import EPOCHS

    return [name for name in EPOCHS if name in datasets]


def _measure(
    tables: list[str],
    workspace: Workspace,
    datasets: list[str],
    changes: dict[str, Any],
    deadline: float | None,
    shown: Console,
) -> None:
    """Measure times and stability in this process, one after the other, so that nothing else runs meanwhile."""
    if not tables or (deadline is not None and time.monotonic() >= deadline):
        return
    from diffpool.cli.options import Device
    from diffpool.data import load_dataset
    from diffpool.experiments.reproduce.running import measure_times
    from diffpool.experiments.reproduce.stability import measure_stability

    device = Device(workspace.device or "auto").select()
    here = [n for n in datasets if not DATASETS[n].needs or workspace.has_data(n)]

    def load(name: str) -> GraphDataset:
        return load_dataset(name, workspace.data_dir)

    def report(line: str) -> None:
        shown.print(line, soft_wrap=True)

    if "time" in tables:
        measure_times(workspace.records, here, load, device, deadline, report)
    if "stability" in tables:
        sets = _stability_sets(here)
        measure_stability(workspace.records, sets, load, device, changes, deadline, report)


def _summarize(outcome: Outcome, shown: Console) -> None:
    counts = [f"{counted(len(outcome.complete), 'cell')} computed"]
    if outcome.open:
        counts.append(f"{len(outcome.open)} not finished: the same command continues")
    shown.print("; ".join(counts), soft_wrap=True)
    for name, why in outcome.failed.items():
        shown.print(f"failed: {name}: {why}", soft_wrap=True)
    reasons: dict[str, list[str]] = {}
    for name, why in outcome.blocked.items():
        reasons.setdefault(why, []).append(name)
    for why, names in reasons.items():
        shown.print(
            f"not computed: {counted(len(names), 'cell')} ({names[0]}…): {why}", soft_wrap=True
        )


@contextmanager
def progress_display(shown: Console) -> Iterator[Callable[[Progress], None]]:
    """One display over all cells: a live view in a terminal, otherwise a line every few seconds."""
    if shown.is_terminal:
        with Live("starting", console=shown, transient=True, refresh_per_second=4) as live:
            yield lambda progress: live.update(_view(progress))
        return
    last = time.monotonic()
    before = -1

    def print_line(progress: Progress) -> None:
        nonlocal last, before
        ended = progress.complete + progress.failed
        if ended != before or time.monotonic() - last >= LINE_SECONDS:
            last, before = time.monotonic(), ended
            shown.print(_line(progress), soft_wrap=True)

    yield print_line


def _line(progress: Progress) -> str:
    running = ", ".join(f"{job.name} {100 * job.share:.0f} %" for job in progress.running)
    return f"{_totals(progress)}; running: {running or 'none'}"


def _totals(progress: Progress) -> str:
    left = progress.seconds_left
    failed = f", {progress.failed} failed" if progress.failed else ""
    return (
        f"cells {progress.complete}/{progress.total}{failed}, {100 * progress.share:.1f} % of the work, "
        f"{duration(progress.seconds)} so far"
        + ("" if left is None else f", about {duration(left)} left")
    )


def _view(progress: Progress) -> Group:
    table = RichTable.grid(padding=(0, 2))
    for job in progress.running:
        bar = ProgressBar(total=1.0, completed=job.share, width=BAR)
        table.add_row(Text(job.name), bar, f"{100 * job.share:.0f} %")
    return Group(Text(_totals(progress)), table)


def print_table(table: Shown, to: PlainConsole = console) -> None:
    """Print a table: fitted to the width in a terminal, otherwise with one line for each row."""
    to.print(Text(table.caption, style="bold"), soft_wrap=not to.is_terminal)
    if table.header:
        shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        for title in table.header:
            shown.add_column(Text(title))
        for line in table.lines:
            shown.add_row(*map(Text, line))
        before = to.width
        if not to.is_terminal:
            to.width = Measurement.get(to, to.options.update(width=MAX_WIDTH), shown).maximum
        to.print(shown)
        to.width = before
    for note in table.notes:
        to.print(Text(f"- {note}"), soft_wrap=not to.is_terminal)
    to.print()
