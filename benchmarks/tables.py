"""Write the tables of README.md, benchmarks/README.md and results/README.md from the records."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.comparison_tables import (
    inference,
    memory,
    models,
    reddit_shape,
    sizes,
    throughput,
)
from benchmarks.record import last, where

ROOT = Path(__file__).parent.parent


def embedded(record: dict[str, Any]) -> str:
    ours, flat = record["diffpool"], record["graphsage"]
    return f"DiffPool {ours['mean']:.1f} ± {ours['sd']:.1f} %, flat GraphSAGE {flat['mean']:.1f} ± {flat['sd']:.1f} %"


def embedded_table(record: dict[str, Any]) -> str:
    lines = ["| | test accuracy, % | seeds | parameters | seconds a run |", "|---|---|---|---|---|"]
    for name in ("diffpool", "graphsage", "diffpool-max", "graphsage-max"):
        source = last("embedded", name)
        if source is not None:
            row = source[name]
            count = len(row["seconds"])
            lines.append(
                f"| {name} | {row['mean']:.1f} ± {row['sd']:.1f} | {count} | {row['parameters']:,} "
                f"| {sum(row['seconds']) / count:.0f} |"
            )
    return "\n" + "\n".join([*lines, "", where(record)]) + "\n"


def large_graph(record: dict[str, Any]) -> str:
    lines = [
        "| nodes | edges | seconds | peak memory, GiB | before, GiB |",
        "|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        lines.append(
            f"| {row['nodes']:,} | {row['edges']:,} | {row['seconds']:.3f} | {row['peak_gib']:.2f} "
            f"| {row['start_gib']:.2f} |"
        )
    return "\n" + "\n".join([*lines, "", where(record)]) + "\n"


def cpu_step(record: dict[str, Any]) -> str:
    lines = [
        "| graphs a second | PyG dense | ours | ratio | ours, one C | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in record["rows"].items():
        lines.append(
            f"| {name} | {row['pyg']:,.1f} | {row['per_graph_clusters']:,.0f} | **{row['ratio']:.1f} ×** "
            f"| {row['one_c']:,.0f} | {row['ratio_one_c']:.1f} × |"
        )
    return "\n" + "\n".join([*lines, "", where(record)]) + "\n"


def reading(record: dict[str, Any]) -> str:
    lines = [
        "| seconds (peak MB) | cold | cached | PyG | PyG / cold | PyG / cached |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in record["rows"].items():
        cells = [f"{r['seconds']:.2f} ({r['peak_mb']:,})" for r in row.values()]
        ratios = [row["pyg"]["seconds"] / row[mode]["seconds"] for mode in ("cold", "cached")]
        lines.append(f"| {name} | {' | '.join(cells)} | {ratios[0]:.0f} × | {ratios[1]:.0f} × |")
    return "\n" + "\n".join([*lines, "", where(record)]) + "\n"


Table = Callable[[], str | None]  # None: nothing was measured


def from_last(source: str, table: Callable[[dict[str, Any]], str], row: str | None = None) -> Table:
    """The table of the last record of a benchmark (that has this row)."""

    def made() -> str | None:
        record = last(source, row)
        return None if record is None else table(record)

    return made


TABLES: dict[str, Table] = {
    "embedded": from_last("embedded", embedded, "diffpool"),
    "embedded_table": from_last("embedded", embedded_table, "diffpool"),
    "large_graph": from_last("large_graph", large_graph),
    "cpu_step": from_last("cpu_step", cpu_step),
    "reading": from_last("reading", reading),
    "cross_validation": lambda: throughput("cross_validation"),
    "cross_validation_cpu": lambda: throughput("cross_validation_cpu"),
    "memory": lambda: memory("cross_validation"),
    "inference": lambda: inference("cross_validation"),
    "inference_cpu": lambda: inference("cross_validation_cpu"),
    "scaling_sizes": from_last("scaling", sizes, "sizes"),
    "scaling_models": from_last("scaling", models, "models"),
    "reddit_shape": from_last("reddit_shape", reddit_shape),
}
NOT_MEASURED = "\nNot measured yet.\n"


# What was published under a protocol, percent: Tables 1 and 2 of the paper, and Errica et al. (2020) for `nested`.
PUBLISHED: dict[tuple[str, str], dict[str, float]] = {
    ("paper", "diffpool"): {"ENZYMES": 62.53, "DD": 80.64, "COLLAB": 75.48, "PROTEINS": 76.25},
    ("nested", "diffpool"): {"ENZYMES": 59.5, "DD": 75.0, "COLLAB": 68.9, "PROTEINS": 73.7},
    ("inner-cv", "graphlet"): {"ENZYMES": 41.03, "DD": 74.85, "COLLAB": 64.66, "PROTEINS": 72.91},
    ("inner-cv", "shortest-path"): {
        "ENZYMES": 42.32,
        "DD": 78.86,
        "COLLAB": 59.1,
        "PROTEINS": 76.43,
    },
    ("inner-cv", "wl"): {"ENZYMES": 53.43, "DD": 74.02, "COLLAB": 78.61, "PROTEINS": 73.76},
    ("inner-cv", "wl-oa"): {"ENZYMES": 60.13, "DD": 79.04, "COLLAB": 80.74, "PROTEINS": 75.26},
}


def results() -> str:
    """A table for each protocol, one row for each run in results/: mean ± sd over its folds."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for path in sorted((ROOT / "results").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            runs.setdefault(record["key"], []).append(record)
    tables = []
    for protocol in ("paper", "tenfold", "nested", "inner-cv"):
        rows = [_result(r) for r in runs.values() if r[0]["protocol"] == protocol]
        if rows:
            head = [
                f"Protocol `{protocol}`:\n",
                "| data set | method | settings | accuracy, % | folds | published | device | commit |",
                "|---|---|---|---|---|---|---|---|",
            ]
            tables.append("\n".join([*head, *sorted(rows)]))
    return "\n" + "\n\n".join(tables) + "\n"


def _result(records: list[dict[str, Any]]) -> str:
    first = records[0]
    accuracies = [record["accuracy"] for record in records]
    published = PUBLISHED.get((first["protocol"], first["method"]), {}).get(first["dataset"])
    cells = [
        first["dataset"],
        first["method"],
        _settings(first),
        f"{mean(accuracies):.1f} ± {stdev(accuracies):.1f}",
        str(len(records)),
        "–" if published is None else f"{published:g}",
        first["device"],
        first["commit"][:7],
    ]
    return f"| {' | '.join(cells)} |"


def _settings(record: dict[str, Any]) -> str:
    """What a row must say of its settings."""
    settings = record["settings"]
    if "kernel" in settings:
        return record["features"]
    poolings, epochs = settings["architecture"]["poolings"], settings["training"]["epochs"]
    return f"{poolings} {'pooling' if poolings == 1 else 'poolings'}, at most {epochs} epochs"


def filled(text: str) -> str:
    """The text with what stands between `<!-- generated: NAME -->` and `<!-- end -->` written anew."""
    for name, table in {**TABLES, "results": results}.items():
        before, start, rest = text.partition(f"<!-- generated: {name} -->")
        if start:
            _, end, after = rest.partition("<!-- end -->")
            text = before + start + (table() or NOT_MEASURED) + end + after
    return text


PAGES = (ROOT / "README.md", ROOT / "benchmarks" / "README.md", ROOT / "results" / "README.md")


def main() -> None:
    for path in PAGES:
        path.write_text(filled(path.read_text()))


if __name__ == "__main__":
    main()
