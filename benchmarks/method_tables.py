"""The tables of docs/methods.md: the cost of each method, Set2Set compared with DiffPool, and the embedded data."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks.embedded import ROWS
from benchmarks.methods import VARIANTS
from benchmarks.record import last, records_of, where
from diffpool.experiments import METHODS

SET2SET = ("graphsage", "set2set", "set2set-nodes")  # compared with DiffPool


def methods() -> str | None:
    """Parameters and speed of every method, from its last record with several models side by side."""
    found: dict[str, dict[str, Any]] = {}
    for record in records_of("methods"):
        for name, row in record["rows"].items():
            if row["models"] > 1:
                own = {"dataset": name, "models": row["models"], "record": record}
                found |= {method: {**own, **values} for method, values in row["methods"].items()}
    if not found:
        return None
    lines = [
        "| method | | parameters | graphs per second | ms per step |",
        "|---|---|---|---|---|",
    ]
    for method in [name for name in VARIANTS if name in found]:
        row = found[method]
        speed = (
            [f"{row['rate']:,.0f}", f"{row['ms']:.1f}"] if "rate" in row else [row["failed"], ""]
        )
        summary = METHODS[method].summary if method in METHODS else ""
        cells = [f"`{method}`", summary, f"{row['parameters']:,}", *speed]
        lines.append(f"| {' | '.join(cells)} |")
    records = {id(row["record"]): row for row in found.values()}
    origin = [
        f"{row['dataset']}, {row['models']} models side by side. {where(row['record'])}"
        for row in records.values()
    ]
    return "\n" + "\n".join([*lines, "", *origin]) + "\n"


def set2set() -> str | None:
    """Seconds per epoch of one model on each data set, and the ratio to DiffPool."""
    found: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
    for record in records_of("methods"):
        for name, row in record["rows"].items():
            if row["models"] == 1 and "epoch_s" in row["methods"].get("diffpool", {}):
                found[name] = row["methods"], record
    if not found:
        return None
    names = ["diffpool", *SET2SET]
    lines = [
        f"| seconds per epoch | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
    ]
    for dataset, (row, _) in found.items():
        base = row["diffpool"]["epoch_s"]
        cells = [f"{base:.2f}"]
        for name in SET2SET:
            own = row.get(name, {"failed": "–"})
            seconds = own.get("epoch_s")
            cells.append(
                own["failed"] if seconds is None else f"{seconds:.2f} ({seconds / base:.1f} ×)"
            )
        lines.append(f"| {dataset} | {' | '.join(cells)} |")
    record = next(reversed(found.values()))[1]
    return "\n" + "\n".join([*lines, "", where(record)]) + "\n"


def embedded() -> str | None:
    """The test accuracy of every method on the embedded data."""
    rows = {name: record for name in ROWS if (record := last("embedded", name)) is not None}
    if not rows:
        return None
    lines = [
        "| method | test accuracy, % | seeds | parameters | seconds per run, median |",
        "|---|---|---|---|---|",
    ]
    for name, record in rows.items():
        row = record[name]
        count = len(row["seconds"])
        lines.append(
            f"| `{name}` | {row['mean']:.1f} ± {row['sd']:.1f} | {count} | {row['parameters']:,} "
            f"| {median(row['seconds']):.0f} |"
        )
    origins = list(dict.fromkeys(where(record) for record in rows.values()))
    return "\n" + "\n".join([*lines, "", *origins]) + "\n"


def graclus(record: dict[str, Any]) -> str:
    """Normalized cuts of our Graclus, METIS and spectral clustering, and seconds for whole data sets."""
    who = ("ours", "metis", "spectral")
    lines = [
        "| mean normalized cut (ms per graph) | graphs | ours | METIS | spectral | ours / the better | at worst "
        "| all graphs, two levels, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in record["rows"].items():
        cells = [
            f"{row['cut'][w]:.3f} ({1e3 * row['seconds'][w] / row['graphs']:.0f})" for w in who
        ]
        whole = record["whole"].get(name.split()[0]) if name.endswith("0.25") else None
        last_cell = "" if whole is None else f"{whole['seconds']:.0f} ({whole['graphs']:,} graphs)"
        ends = [f"{row['relative']:.3f}", f"{row['worst']:.3f}", last_cell]
        lines.append(f"| {name} | {row['graphs']} | {' | '.join(cells + ends)} |")
    return "\n" + "\n".join([*lines, "", where(record)]) + "\n"
