"""The paper's tables from records: ours next to the published numbers, one table for each protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diffpool.experiments.methods import METHOD_SETTINGS
from diffpool.experiments.protocol_names import KERNEL_PROTOCOL_SUMMARIES, PROTOCOL_SUMMARIES
from diffpool.experiments.reproduce.cells import (
    DATASETS,
    FOLDS,
    MEMBERS,
    PROTOCOLS,
    ROWS,
    SHOWN,
    TRIALS,
    Cell,
    Row,
    make_cell,
)
from diffpool.experiments.reproduce.found import (
    FoundRun,
    best_match,
    cells_folder,
    default_folder,
    read_runs,
    runs_of,
)
from diffpool.experiments.reproduce.published import (
    PAPER_SETS,
    PRINTED_GAINS,
    PUBLISHED,
    SOURCES,
    Published,
    mean_gain,
    published_gain,
    slips,
)
from diffpool.text import printable

NOT_RUN = "not run"
TITLES = {
    "table1": "Table 1 (classification accuracy)",
    "table2": "Table 2 (DiffPool on Structure2Vec)",
}


@dataclass(frozen=True)
class Entry:
    """A number of a table: ours, or why it is missing, and the published one."""

    run: FoundRun | None = None
    published: Published | None = None
    missing: str = ""  # in a word or two; empty if there is a number or no such cell
    reason: str = ""  # in a sentence
    remark: str = ""  # after the number

    @property
    def ours(self) -> str:
        if self.run is None:
            return self.missing or "–"
        repeats = f" ×{self.run.repeats}" if self.run.repeats > 1 else ""
        return f"{self.run.mean:.1f} ± {self.run.sd:.1f}{repeats}{self.remark}"

    @property
    def text(self) -> str:
        """Ours, and in parentheses the published number: `61.8 ± 4.7 (62.53)`."""
        return self.ours if self.published is None else f"{self.ours} ({self.published})"


@dataclass(frozen=True)
class TableRow:
    """A row: an entry for each data set, and the mean gain over GraphSAGE in points."""

    title: str
    kind: str
    entries: Mapping[str, Entry]
    gain: float | None = None
    gain_sets: int = 0
    published_gain: float | None = None

    @property
    def published(self) -> bool:
        """Whether a number of this row was published."""
        return any(entry.published for entry in self.entries.values())


@dataclass(frozen=True)
class Table:
    """A table of accuracies measured with one protocol."""

    name: str
    protocol: str
    caption: str
    datasets: tuple[str, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def header(self) -> list[str]:
        gains = ["gain"] if self.has_gains else []
        return ["method", *self.datasets, *gains]

    @property
    def has_gains(self) -> bool:
        return self.name == "table1" and self.protocol != "inner-cv"

    @property
    def lines(self) -> list[list[str]]:
        """The cells of every row as text."""
        return [
            [row.title, *(row.entries[name].text for name in self.datasets)]
            + ([_gain_text(row)] if self.has_gains else [])
            for row in self.rows
        ]

    @property
    def facts(self) -> list[dict[str, Any]]:
        """One flat record for each number, for CSV and JSON."""
        return [
            _facts(self, row, name, row.entries[name])
            for row in self.rows
            for name in self.datasets
        ]


def _facts(table: Table, row: TableRow, dataset: str, entry: Entry) -> dict[str, Any]:
    run, published = entry.run, entry.published
    return {
        "table": table.name,
        "protocol": table.protocol,
        "method": row.title,
        "kind": row.kind,
        "dataset": dataset,
        "mean": None if run is None else run.mean,
        "sd": None if run is None else run.sd,
        "folds": None if run is None else len(run.records) // run.repeats,
        "repeats": None if run is None else run.repeats,
        "published": None if published is None else published.mean,
        "published_sd": None if published is None else published.sd,
        "gain": row.gain,
        "gain_sets": row.gain_sets if row.gain is not None else None,
        "published_gain": row.published_gain,
        "missing": entry.reason,
        "remark": entry.remark.strip(),
        "device": None if run is None else run.first.device,
        "commit": None if run is None else run.first.commit,
        "key": None if run is None else run.first.key,
    }


def _gain_text(row: TableRow) -> str:
    text = "–" if row.gain is None else f"{row.gain:+.2f}"
    text += f" [{row.gain_sets}]" if row.gain is not None else ""
    return text if row.published_gain is None else f"{text} ({row.published_gain:+.2f})"


def accuracy_tables(
    name: str,
    protocols: Sequence[str] = PROTOCOLS,
    records: str | Path | None = None,
    datasets: Sequence[str] = SHOWN,
    methods: Sequence[str] = tuple(ROWS),
    changes: Mapping[str, Any] | None = None,
) -> list[Table]:
    """Table 1 or 2 (`table1`, `table2`) from the folder `records`: one table for each protocol, never mixed.

    - `methods`: names of rows; see `ROWS`.
    - `changes`: settings that replace the declared ones. The cells that they change then show the records of those
      settings only.
    """
    folder = default_folder() if records is None else Path(records)
    kinds = {False, bool(changes)}
    runs = {changed: read_runs(folder, changed) for changed in kinds}
    failures = {changed: read_failures(cells_folder(folder, changed)) for changed in kinds}
    tables = []
    for protocol in protocols:
        chosen = [row for row in ROWS.values() if row.table == name and row.name in methods]
        rows = [(row, _cells(row, protocol, datasets, changes)) for row in chosen]
        rows = [(row, cells) for row, cells in rows if any(cells.values())]
        if rows:
            tables.append(_table(name, protocol, datasets, rows, runs, failures, changes))
    return tables


def _cells(
    row: Row, protocol: str, datasets: Sequence[str], changes: Mapping[str, Any] | None
) -> dict[str, Cell | None]:
    return {dataset: make_cell(row, dataset, protocol, changes) for dataset in datasets}


def _table(
    name: str,
    protocol: str,
    datasets: Sequence[str],
    rows: list[tuple[Row, dict[str, Cell | None]]],
    all_runs: Mapping[bool, list[FoundRun]],
    failures: Mapping[bool, Mapping[str, str]],
    changes: Mapping[str, Any] | None,
) -> Table:
    """The table of one protocol. `all_runs` and `failures`: those of declared (False) and changed cells (True)."""
    runs = {
        changed: [run for run in runs if run.first.protocol == protocol]
        for changed, runs in all_runs.items()
    }
    base = {
        dataset: run.mean
        for dataset in datasets
        if (cell := make_cell(ROWS["graphsage"], dataset, protocol, changes))
        and (run := best_match(runs_of(cell, runs[bool(cell.changes)])))
    }
    found: list[TableRow] = []
    for row, cells in rows:
        entries = {
            dataset: Entry()
            if cell is None
            else _entry(cell, runs[bool(cell.changes)], failures[bool(cell.changes)])
            for dataset, cell in cells.items()
        }
        if row.kind == "kernel" and not row.node_labels:
            if not any(entry.run for entry in entries.values()):
                continue  # shown only where it was measured
            entries = {d: Entry(e.run) for d, e in entries.items()}
        means = {d: e.run.mean for d, e in entries.items() if e.run and d in PAPER_SETS}
        printed = published_gain(protocol, row.method) if row.kind in ("paper", "control") else None
        gain = None if row.name == "graphsage" else mean_gain(means, base)
        found.append(
            TableRow(row.title, row.kind, entries, gain, len(means.keys() & base), printed)
        )
    found += [] if changes else _other_settings(protocol, datasets, rows, runs[False])
    return Table(
        name,
        protocol,
        _caption(name, protocol, datasets, found, changes),
        tuple(datasets),
        tuple(found),
        tuple(_notes(name, protocol, found, changes)),
    )


def _entry(cell: Cell, runs: list[FoundRun], failures: Mapping[str, str]) -> Entry:
    candidates = runs_of(cell, runs)
    published = None
    if cell.row.ensemble == 1:
        published = PUBLISHED.get((cell.protocol, cell.row.method), {}).get(cell.dataset)
    if run := best_match(candidates):
        return Entry(run, published)
    if candidates:
        run = max(candidates, key=lambda r: len(r.records))
        share = f"{len(run.records)} of {FOLDS * cell.repeats} folds"
        return Entry(None, published, share, f"{share} are recorded: --run continues")
    if cell.name in failures:
        return Entry(None, published, "failed", f"failed: {failures[cell.name]}")
    if cell.data.needs:
        return Entry(None, published, "no data", cell.data.needs)
    if cell.lacks:
        return Entry(None, published, NOT_RUN, cell.lacks)
    return Entry(None, published, NOT_RUN, "no records with the declared settings: use --run")


def _other_settings(
    protocol: str,
    datasets: Sequence[str],
    rows: list[tuple[Row, dict[str, Cell | None]]],
    runs: list[FoundRun],
) -> list[TableRow]:
    """A row for each method that has records with other settings; its title says so.

    Under `paper` these are the best of several runs, chosen by the accuracy that is reported: tuned on test folds.
    """
    if protocol == "inner-cv":
        return []
    found = []
    for row, cells in rows:
        entries = {dataset: Entry() for dataset in datasets}
        for dataset, cell in cells.items():
            if cell is None:
                continue
            others = [
                run
                for run in runs
                if (run.first.dataset, run.first.method) == (dataset, cell.method_title)
                and run.complete
                and cell.has_folds(run.first)
                and not cell.fits(run.first)
            ]
            if others:
                best = max(others, key=lambda r: r.mean) if protocol == "paper" else others[-1]
                count = f", best of {len(others)}" if protocol == "paper" and others[1:] else ""
                entries[dataset] = Entry(best, remark=count)
        if any(entry.run for entry in entries.values()):
            what = "tuned on test folds" if protocol == "paper" else "another search space"
            found.append(TableRow(f"{row.title}, {what}", "other", entries))
    return found


def _caption(
    name: str,
    protocol: str,
    datasets: Sequence[str],
    rows: Sequence[TableRow],
    changes: Mapping[str, Any] | None,
) -> str:
    summary = {**PROTOCOL_SUMMARIES, **KERNEL_PROTOCOL_SUMMARIES}[protocol]
    published = (
        f", and in parentheses the published number ({SOURCES[protocol]})"
        if any(row.published for row in rows)
        else ""
    )
    sentences = [
        f"{TITLES[name]}, protocol {protocol}: {summary.rstrip('.')}",
        f"Accuracy in %: mean ± sd over {FOLDS} folds (×R: R repetitions){published}",
    ]
    data = [DATASETS[dataset] for dataset in datasets]
    if protocol == "paper":
        epochs = ", ".join(f"{d.name} {d.paper_epochs}" for d in data)
        sentences.append(f"Preset settings; epochs: {epochs}")
    if protocol == "nested":
        epochs = ", ".join(f"{d.name} {d.nested_epochs}/{d.nested_patience}" for d in data)
        others = [d.name for d in data if not d.published_folds]
        sentences.append(
            f"{TRIALS} points of one search space for every row; maximum number of epochs/patience: {epochs}; "
            f"published folds{', except ' + ', '.join(others) if others else ''}; ensembles have {MEMBERS} members"
        )
    if protocol != "inner-cv" and name == "table1":
        sentences.append(
            "Gain: mean difference from GraphSAGE in percentage points, over the [n] data sets of the paper for which "
            "both have a number; in parentheses, the same from the published numbers"
        )
    if changes:
        sentences.append(changed_text(changes))
    return ". ".join(sentences) + "."


def changed_text(changes: Mapping[str, Any]) -> str:
    """The sentence of a caption about a trial with other settings."""
    shown = ", ".join(f"{k}={METHOD_SETTINGS[k].show(v)}" for k, v in changes.items())
    return f"WITH OTHER SETTINGS THAN THE DECLARED ONES: {shown}"


def _notes(
    name: str, protocol: str, rows: Sequence[TableRow], changes: Mapping[str, Any] | None
) -> list[str]:
    notes = []
    reasons: dict[str, list[str]] = {}
    for row in rows:
        for dataset, entry in row.entries.items():
            if entry.missing:
                reasons.setdefault(entry.reason, []).append(f"{row.title} on {dataset}")
    for reason, where in reasons.items():
        shown = where[0] if len(where) == 1 else f"{len(where)} cells ({where[0]}, …)"
        notes.append(f"Missing: {shown}: {reason}.")
    if name == "table1" and protocol == "paper" and not changes:
        notes += [f"The paper's gain for {slip}." for slip in slips()]
        right = len(PRINTED_GAINS) - len(slips())
        notes.append(f"The other {right} printed gains agree with the table's own numbers.")
    if any(row.kind == "other" for row in rows) and protocol == "paper":
        notes.append(
            "Tuned on test folds: the settings were chosen by the accuracy that is reported, so it is too high."
        )
    if any(row.kind == "other" for row in rows) and protocol == "nested":
        notes.append(
            "Another search space: the last run on the same folds with other settings, another search space or another "
            "way of choosing."
        )
    devices: dict[str, list[float]] = {}  # seconds of each cell
    for row in rows:
        for entry in row.entries.values():
            if entry.run is not None:
                devices.setdefault(entry.run.first.device, []).append(entry.run.seconds)
    for device, seconds in devices.items():
        cells = f"{len(seconds)} {'cell' if len(seconds) == 1 else 'cells'}"
        notes.append(f"Computed on {device}: {cells}, {sum(seconds) / 60:,.0f} min in total.")
    return notes


def read_failures(folder: Path) -> dict[str, str]:
    """Why cells failed in the last `--run`, by the name of the cell."""
    return {
        path.stem: printable(" ".join(path.read_text("utf-8", "replace").split()))[:300]
        for path in sorted(folder.glob("*.failed"))
    }
