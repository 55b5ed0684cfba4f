"""Write the tables in README.md, benchmarks/README.md, results/README.md and docs/ from the records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks import cluster_tables, method_tables
from benchmarks.comparison_tables import (
    inference,
    kernels,
    memory,
    models,
    reddit_shape,
    sizes,
    throughput,
)
from benchmarks.record import last, where
from diffpool.experiments import METHODS

ROOT = Path(__file__).parent.parent


def embedded(record: dict[str, Any]) -> str:
    ours, flat = record["diffpool"], record["graphsage"]
    return f"DiffPool {ours['mean']:.1f} ± {ours['sd']:.1f} %, flat GraphSAGE {flat['mean']:.1f} ± {flat['sd']:.1f} %"


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
        "| graphs per second | PyG dense | ours | ratio | one thread | without the C kernels: one thread, all "
        "| one C for all graphs | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in record["rows"].items():
        plain = f"{row['reference_one_thread']:,.0f}, {row['reference']:,.0f}"
        lines.append(
            f"| {name} | {row['pyg']:,.1f} | {row['default']:,.0f} | **{row['ratio']:.1f} ×** "
            f"| {row['one_thread']:,.0f} | {plain} | {row['one_c']:,.0f} | {row['ratio_one_c']:.1f} × |"
        )
    return "\n" + "\n".join([*lines, "", where(record)]) + "\n"


def busy(record: dict[str, Any]) -> str:
    lines = [
        "| seconds for an epoch of ENZYMES | one thread | default | one thread, busy | default, busy "
        "| default / one thread | busy / one thread, undisturbed |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in record["rows"].items():
        cells = [
            f"{row[case]:.2f}"
            for case in ("one_thread", "default", "one_thread_busy", "default_busy")
        ]
        ratios = [f"{row[key]:.2f}" for key in ("default / one thread", "busy / one thread")]
        lines.append(f"| {name} | {' | '.join(cells + ratios)} |")
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


Table = Callable[[], str | None]  # returns None if nothing was measured


def from_last(source: str, table: Callable[[dict[str, Any]], str], row: str | None = None) -> Table:
    """The table of the last record of a benchmark, or of the last record with this row."""

    def table_from_record() -> str | None:
        record = last(source, row)
        return None if record is None else table(record)

    return table_from_record


TABLES: dict[str, Table] = {
    "embedded": from_last("embedded", embedded, "diffpool"),
    "embedded_table": method_tables.embedded,
    "methods": method_tables.methods,
    "set2set": method_tables.set2set,
    "graclus": from_last("graclus", method_tables.graclus),
    "large_graph": from_last("large_graph", large_graph),
    "cpu_step": from_last("cpu_step", cpu_step),
    "busy": from_last("busy", busy),
    "reading": from_last("reading", reading),
    "cross_validation": lambda: throughput("cross_validation"),
    "cross_validation_cpu": lambda: throughput("cross_validation_cpu"),
    "memory": lambda: memory("cross_validation"),
    "inference": lambda: inference("cross_validation"),
    "inference_cpu": lambda: inference("cross_validation_cpu"),
    "scaling_sizes": from_last("scaling", sizes, "sizes"),
    "scaling_models": from_last("scaling", models, "models"),
    "reddit_shape": from_last("reddit_shape", reddit_shape),
    "kernels": lambda: kernels("kernels"),
    "claims_summary": cluster_tables.summary,
    "claims_hierarchy": lambda: cluster_tables.claims(cluster_tables.HIERARCHY),
    "claims_density": lambda: cluster_tables.claims(cluster_tables.DENSITY),
    "claims_similarity": lambda: cluster_tables.claims(cluster_tables.SIMILARITY),
    "claims_numbers": lambda: cluster_tables.claims(cluster_tables.NUMBERS),
    "cluster_numbers": cluster_tables.sizes,
    "cluster_objectives": cluster_tables.objectives,
}
NOT_MEASURED = "\nNot measured yet.\n"


# Published accuracies in % by protocol: Tables 1 and 2 of the paper, and Errica et al. (2020) for `nested`.
SETS = ("ENZYMES", "DD", "COLLAB", "PROTEINS")
_PUBLISHED: dict[str, dict[str, tuple[float | None, ...]]] = {
    "inner-cv": {
        "graphlet": (41.03, 74.85, 64.66, 72.91),
        "graphlet-degree": (41.03, 74.85, 64.66, 72.91),
        "shortest-path": (42.32, 78.86, 59.10, 76.43),
        "wl": (53.43, 74.02, 78.61, 73.76),
        "wl-oa": (60.13, 79.04, 80.74, 75.26),
    },
    "paper": {
        "patchy-san": (None, 76.27, 72.60, 75.00),
        "graphsage": (54.25, 75.42, 68.25, 70.48),
        "ecc": (53.50, 74.10, 67.79, 72.65),
        "set2set": (60.15, 78.12, 71.75, 74.29),
        "sortpool": (57.12, 79.37, 73.76, 75.54),
        "diffpool-det": (58.33, 75.47, 82.13, 75.62),
        "diffpool-nolp": (61.95, 79.98, 75.58, 76.22),
        "diffpool": (62.53, 80.64, 75.48, 76.25),
        "s2v": (61.10, 78.92, None, None),
        "s2v-diffpool-1": (62.86, 80.75, None, None),
        "s2v-diffpool-2": (63.33, 82.07, None, None),
    },
    "nested": {
        "structure-blind": (65.2, 78.4, 70.2, 75.8),
        "sortpool": (38.9, 76.6, 71.2, 72.9),
        "diffpool": (59.5, 75.0, 68.9, 73.7),
        "ecc": (29.5, 72.6, None, 72.3),
        "gin": (59.6, 75.3, 75.6, 73.3),
        "graphsage": (58.2, 72.9, 73.9, 73.0),
    },
}
PUBLISHED: dict[tuple[str, str], dict[str, float]] = {
    (protocol, method): {n: v for n, v in zip(SETS, values, strict=True) if v is not None}
    for protocol, rows in _PUBLISHED.items()
    for method, values in rows.items()
}


TUNING = "tuning.jsonl"  # runs that were used to choose settings


def results() -> str:
    """One table per protocol, with a row for each run in results/: mean ± sd over its folds."""
    return _tables(runs())


def tuning() -> str:
    """The same for the runs that were used to choose settings."""
    return _tables(_runs([ROOT / "results" / TUNING]))


def nested() -> str | None:
    """DiffPool with the protocol `nested`, next to the numbers of Errica et al."""
    found = {
        run[0]["dataset"]: _accuracy(run)
        for run in runs()
        if (run[0]["protocol"], run[0]["method"]) == ("nested", "diffpool")
    }
    if not found:
        return None
    published = PUBLISHED["nested", "diffpool"]
    rows = [f"| {name} | {found[name]} | {published[name]:g} |" for name in SETS if name in found]
    head = ["| test accuracy, % | ours | Errica et al. 2020 |", "|---|---|---|"]
    return "\n" + "\n".join([*head, *rows]) + "\n"


def ensembles() -> str | None:
    """Ensembles next to their members: accuracy, expected calibration error, and how well the entropy sorts errors."""
    rows = []
    for run in runs():
        if "members" in run[0]["details"]:
            found = [record["details"] for record in run]
            members = [mean(own["member_accuracies"]) for own in found]
            errors = [mean(own["member_calibration_errors"]) for own in found]
            cells = [
                run[0]["dataset"],
                f"{run[0]['method']}, {run[0]['protocol']}",
                f"{mean(members):.1f}",
                _accuracy(run),
                f"{mean(errors):.3f}",
                f"{mean(own['calibration_error'] for own in found):.3f}",
                f"{mean(own['certain_half'] for own in found):.1f}",
                f"{mean(own['uncertain_half'] for own in found):.1f}",
            ]
            rows.append(f"| {' | '.join(cells)} |")
    if not rows:
        return None
    head = [
        "| data set | method | one member, % | ensemble, % | calibration error, one | ensemble "
        "| certain half, % | the rest, % |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return "\n" + "\n".join([*head, *sorted(rows)]) + "\n"


def reliability() -> str | None:
    """The picture that `python -m benchmarks.reliability` draws, if records have its counts."""
    if any("reliability" in record["details"] for run in runs() for record in run):
        return "\n![Accuracy by confidence, of single models and of ensembles](reliability.png)\n"
    return None


def runs() -> list[list[dict[str, Any]]]:
    """The records of each run in results/, except those that were used to choose settings."""
    paths = sorted((ROOT / "results").glob("*.jsonl"))
    return _runs([path for path in paths if path.name != TUNING])


def _runs(paths: list[Path]) -> list[list[dict[str, Any]]]:
    """The records of each run; a run that was repeated counts as two runs."""
    runs: dict[tuple[str, int], list[dict[str, Any]]] = {}
    seen: Counter[tuple[str, int, int]] = Counter()
    for path in paths:
        for line in path.read_text().splitlines():
            record = json.loads(line)
            fold = record["key"], record["repeat"], record["fold"]
            runs.setdefault((record["key"], seen[fold]), []).append(record)
            seen[fold] += 1
    return list(runs.values())


def _tables(runs: list[list[dict[str, Any]]]) -> str:
    tables = []
    for protocol in ("paper", "tenfold", "nested", "inner-cv"):
        rows = [_result(run) for run in runs if run[0]["protocol"] == protocol]
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
    published = PUBLISHED.get((first["protocol"], first["method"]), {}).get(first["dataset"])
    cells = [
        first["dataset"],
        first["method"],
        _settings(records),
        f"{_accuracy(records)}{_of_repeats(records)}",
        str(len(records)),
        "–" if published is None else f"{published:g}",
        first["device"],
        first["commit"][:7],
    ]
    return f"| {' | '.join(cells)} |"


# Settings that have their own column or words in a row, or that depend on the data.
NOT_LISTED = ("poolings", "epochs", "patience", "seed", "ensemble", "sorted_nodes", "field_count")


def _accuracy(records: list[dict[str, Any]]) -> str:
    accuracies = [record["accuracy"] for record in records]
    return f"{mean(accuracies):.1f} ± {stdev(accuracies):.1f}"


def _of_repeats(records: list[dict[str, Any]]) -> str:
    """The sd of the means of the repeats, if there are several."""
    repeats: dict[int, list[float]] = {}
    for record in records:
        repeats.setdefault(record["repeat"], []).append(record["accuracy"])
    means = [mean(own) for own in repeats.values()]
    return f" ({len(means)} repeats: ± {stdev(means):.1f})" if len(means) > 1 else ""


def _settings(records: list[dict[str, Any]]) -> str:
    """The settings of a row: features, poolings, epochs, and whatever differs from the method's defaults."""
    first = records[0]
    if "kernel" in first["settings"]:
        return str(first["features"])
    poolings = first["settings"]["architecture"]["poolings"]
    epochs = first["settings"]["training"]["epochs"]
    counted = f"{poolings} {'pooling' if poolings == 1 else 'poolings'}, at most {epochs} epochs"
    words = [first["features"], counted]
    method, chosen = METHODS[first["method"].split(",")[0]], []  # without ", ensemble of N"
    for part, usual in (("architecture", method.architecture), ("training", method.training)):
        for name, default in json.loads(json.dumps(asdict(usual))).items():
            values = [record["settings"][part].get(name, default) for record in records]
            if name in NOT_LISTED:
                continue
            if any(value != values[0] for value in values):
                chosen.append(name)
            elif values[0] != default:
                value = ", ".join(map(str, values[0])) if isinstance(values[0], list) else values[0]
                words.append(f"{name} {value}")
    words += [f"each fold's own {' and '.join(chosen)}"] if chosen else []
    return "; ".join(words)


def filled(text: str) -> str:
    """Replace everything between `<!-- generated: NAME -->` and `<!-- end -->` by the current table."""
    for name, table in {
        **TABLES,
        "results": results,
        "tuning": tuning,
        "nested": nested,
        "ensembles": ensembles,
        "reliability": reliability,
    }.items():
        before, start, rest = text.partition(f"<!-- generated: {name} -->")
        if start:
            _, end, after = rest.partition("<!-- end -->")
            text = before + start + (table() or NOT_MEASURED) + end + after
    return text


PAGES = (
    ROOT / "README.md",
    ROOT / "benchmarks" / "README.md",
    ROOT / "docs" / "analysis.md",
    ROOT / "docs" / "ensembles.md",
    ROOT / "docs" / "methods.md",
    ROOT / "results" / "README.md",
)


def main() -> None:
    for path in PAGES:
        path.write_text(filled(path.read_text()))


if __name__ == "__main__":
    main()
