"""Write the tables of README.md and benchmarks/README.md from the last record of each benchmark."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.record import RECORDS

ROOT = Path(__file__).parent.parent


def last(name: str, row: str | None = None) -> dict[str, Any] | None:
    """The last record of a benchmark, or the last one that has this row."""
    path = RECORDS / f"{name}.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    records = [record for record in records if row is None or row in record]
    return records[-1] if records else None


def where(record: dict[str, Any]) -> str:
    hardware, versions = record["hardware"], record["versions"]
    names = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{hardware['cpu']}, {hardware['threads']} threads; {names}; commit {record['commit']}, {record['date']}."


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


def cross_validation(record: dict[str, Any]) -> str:
    lines = [
        "| | PyG dense | one model of ours | ratio | ten models at once | ratio | MiB: PyG | MiB: one of ours |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in record["rows"].items():
        lines.append(
            f"| {name} | {row['pyg']:,.0f} | {row['single']:,.0f} | {row['ratio_single']:.1f} × "
            f"| {row['cohort']:,.0f} | **{row['ratio']:.1f} ×** | {row['pyg_mib']:,.0f} | {row['single_mib']:,.0f} |"
        )
    gpu = record["hardware"]["gpu"]
    return "\n" + "\n".join([*lines, "", f"{gpu + '; ' if gpu else ''}{where(record)}"]) + "\n"


TABLES: dict[str, tuple[str, str | None, Callable[[dict[str, Any]], str]]] = {
    "embedded": ("embedded", "diffpool", embedded),
    "embedded_table": ("embedded", "diffpool", embedded_table),
    "large_graph": ("large_graph", None, large_graph),
    "cpu_step": ("cpu_step", None, cpu_step),
    "reading": ("reading", None, reading),
    "cross_validation_cpu": ("cross_validation_cpu", None, cross_validation),
    "cross_validation": ("cross_validation", None, cross_validation),
}


def results() -> str:
    """One row for each run in results/: mean ± sd over its folds."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for path in sorted((ROOT / "results").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            runs.setdefault(record["key"], []).append(record)
    lines = [
        "| data set | protocol | method | poolings | epochs, at most | accuracy, % | folds | device | commit |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for records in runs.values():
        first = records[0]
        settings = first["settings"]
        accuracies = [record["accuracy"] for record in records]
        lines.append(
            f"| {first['dataset']} | {first['protocol']} | {first['method']} "
            f"| {settings['architecture']['poolings']} | {settings['training']['epochs']} "
            f"| {mean(accuracies):.1f} ± {stdev(accuracies):.1f} | {len(records)} | {first['device']} "
            f"| {first['commit'][:7]} |"
        )
    return "\n" + "\n".join(lines) + "\n"


def filled(text: str) -> str:
    """The text with what stands between `<!-- generated: NAME -->` and `<!-- end -->` written anew."""
    for name, (source, row, table) in TABLES.items():
        record = last(source, row)
        if record is not None:
            pattern = rf"(<!-- generated: {name} -->).*?(<!-- end -->)"
            made = table(record)
            text = re.sub(pattern, lambda m, made=made: m[1] + made + m[2], text, flags=re.DOTALL)
    pattern = r"(<!-- generated: results -->).*?(<!-- end -->)"
    return re.sub(pattern, lambda m: m[1] + results() + m[2], text, flags=re.DOTALL)


PAGES = (ROOT / "README.md", ROOT / "benchmarks" / "README.md", ROOT / "results" / "README.md")


def main() -> None:
    for path in PAGES:
        path.write_text(filled(path.read_text()))


if __name__ == "__main__":
    main()
