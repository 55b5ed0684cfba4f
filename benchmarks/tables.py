"""Write the generated parts of README.md, benchmarks/README.md, results/README.md and docs/."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks import explain_tables, method_tables, scale_tables
from benchmarks.comparison_tables import (
    inference,
    kernels,
    layer,
    layer_ratios,
    memory,
    models,
    on_disk,
    ratio_ranges,
    reddit_shape,
    sizes,
    speed,
    throughput,
)
from benchmarks.module_list import module_list
from benchmarks.record import last, records_of, where
from diffpool.experiments import METHODS
from diffpool.experiments.reproduce import (
    PUBLISHED,
    accuracy_tables,
    as_markdown,
    stability_table,
    time_table,
)
from diffpool.experiments.reproduce.analysis import (
    claims_table,
    clusters_file,
    objectives_table,
    read_data,
    sizes_table,
    summary,
)
from diffpool.experiments.reproduce.cells import PROTOCOLS, SHOWN
from diffpool.experiments.reproduce.found import CHANGED, MERGED
from diffpool.experiments.reproduce.render import PlainTable
from diffpool.experiments.reproduce.rules import Data
from diffpool.experiments.reproduce.stability import SHOWN as STABILITY_SETS

ROOT = Path(__file__).parent.parent


def embedded(record: dict[str, Any]) -> str:
    ours, flat = record["diffpool"], record["graphsage"]
    return f"DiffPool {ours['mean']:.1f} ± {ours['sd']:.1f} %, flat GraphSAGE {flat['mean']:.1f} ± {flat['sd']:.1f} %"


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


def cpu_ratios(record: dict[str, Any]) -> str:
    """The ratios to PyG dense in one line."""
    ratios = [f"{row['ratio']:.1f} × ({name})" for name, row in record["rows"].items()]
    return f"{', '.join(ratios[:-1])} and {ratios[-1]}"


def ensemble(record: dict[str, Any]) -> str:
    lines = [
        f"| {record['graphs']:,} small graphs | one model, s | ensemble of {record['members']}, s | ratio "
        "| epochs | test accuracy, % |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in record["rows"].items():
        one, several = row["one"], row["ensemble"]
        cells = [f"{one['median']:.2f}", f"{several['median']:.2f}", f"**{row['ratio']:.2f} ×**"]
        if "epochs" in one:
            cells += [_both(one, several, "epochs"), _both(one, several, "accuracy")]
        else:
            cells += ["–", "–"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n" + "\n".join([*lines, "", where(record)]) + "\n"


def ensemble_ratio(record: dict[str, Any]) -> str:
    return f"{next(iter(record['rows'].values()))['ratio']:.1f}"


def _both(one: dict[str, Any], several: dict[str, Any], name: str) -> str:
    """The mean of a value for one model and for the ensemble."""
    means = [
        mean(own[name]) if isinstance(own[name], list) else own[name] for own in (one, several)
    ]
    return ", ".join(f"{value:.0f}" if name == "epochs" else f"{value:.1f}" for value in means)


def busy(record: dict[str, Any]) -> str:
    lines = [
        "| seconds per epoch of ENZYMES | one thread | default | one thread, busy | default, busy "
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


def explore() -> str | None:
    """The last page of each data set."""
    records = {name: record for record in records_of("explore") for name in record["rows"]}
    if not records:
        return None
    lines = [
        "| page | graphs | size, MB | written in, s | first view, s | largest graph: nodes, edges "
        "| frames/s while panning | longest frame, ms |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, record in records.items():
        row = record["rows"][name]
        lines.append(
            f"| {name} | {row['graphs']:,} | {row['megabytes']:.1f} | {row['writing']:.0f} | {row['first_view']:.2f} "
            f"| {row['largest_nodes']:,}, {row['largest_edges']:,} | {row['frames']:.0f} | {row['longest_ms']:.0f} |"
        )
    origins = [
        f"- {name}: {record['browser']}; {where(record)}" for name, record in records.items()
    ]
    return "\n" + "\n".join([*lines, "", *origins]) + "\n"


Table = Callable[[], str | None]  # returns None if nothing was measured


def from_last(
    source: str, table: Callable[[dict[str, Any]], str | None], row: str | None = None
) -> Table:
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
    "large_graph": from_last("large_graph", scale_tables.large_graph),
    "large_graph_memory": from_last("large_graph", scale_tables.large_graph_memory),
    "data_parallel": from_last("data_parallel", scale_tables.data_parallel),
    "imbalance": from_last("data_parallel", scale_tables.imbalance),
    "hundred_gpus": scale_tables.hundred_gpus,
    "ray_cluster": from_last("ray_cluster", scale_tables.ray_cluster),
    "cpu_step": from_last("cpu_step", cpu_step),
    "cpu_ratios": from_last("cpu_step", cpu_ratios),
    "busy": from_last("busy", busy),
    "ensemble": from_last("ensemble", ensemble),
    "ensemble_ratio": from_last("ensemble", ensemble_ratio),
    "reading": from_last("reading", reading),
    "speed": lambda: speed("cross_validation"),
    "cross_validation": lambda: throughput("cross_validation"),
    "ratio_ranges": lambda: ratio_ranges("cross_validation", "cross_validation_pyg_only"),
    "cross_validation_cpu": lambda: throughput("cross_validation_cpu"),
    "memory": lambda: memory("cross_validation"),
    "inference": lambda: inference("cross_validation"),
    "inference_cpu": lambda: inference("cross_validation_cpu"),
    "scaling_sizes": from_last("scaling", sizes, "sizes"),
    "scaling_models": from_last("scaling", models, "models"),
    "reddit_shape": from_last("reddit_shape", reddit_shape),
    "layer": lambda: layer("layer"),
    "layer_cpu": lambda: layer("layer_cpu"),
    "layer_eager": lambda: layer_ratios("layer", "ours"),
    "layer_captured": lambda: layer_ratios("layer", "ours-captured"),
    "layer_pyg": lambda: layer_ratios("layer", "ours-pyg"),
    "layer_cpu_eager": lambda: layer_ratios("layer_cpu", "ours"),
    "layer_cpu_pyg": lambda: layer_ratios("layer_cpu", "ours-pyg"),
    "kernels": lambda: kernels("kernels"),
    "on_disk": lambda: on_disk("on_disk"),
    "explain_fidelity": explain_tables.fidelity,
    "explain_truth": explain_tables.truth,
    "explore": explore,
    "claims_summary": lambda: f"\n{summary(clusters())}\n" if clusters() else None,
    "claims_hierarchy": lambda: bare(claims_table("hierarchy", clusters())),
    "claims_density": lambda: bare(claims_table("density", clusters())),
    "claims_similarity": lambda: bare(claims_table("similarity", clusters())),
    "claims_numbers": lambda: bare(claims_table("numbers", clusters())),
    "cluster_numbers": lambda: bare(sizes_table(clusters())),
    "cluster_objectives": lambda: bare(objectives_table(clusters())),
}
NOT_MEASURED = "\nNot measured yet.\n"


SETS = ("ENZYMES", "DD", "COLLAB", "PROTEINS")

TUNING = "tuning.jsonl"  # runs that were used to choose settings
ELSEWHERE = (TUNING, MERGED, CHANGED)  # files whose runs have tables of their own


def clusters() -> list[Data]:
    """The last record of `benchmarks.clusters` on every data set."""
    return read_data(clusters_file(ROOT / "results"))


def bare(table: PlainTable) -> str | None:
    """A table without its caption, which the page replaces."""
    return f"\n{as_markdown([replace(table, caption='')])}" if table.lines else None


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
    rows = [
        f"| {name} | {found[name]} | {published[name].mean:g} |" for name in SETS if name in found
    ]
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
                run[0]["settings"]["training"].get("monitor", "loss"),
                "; ".join(filter(None, [_listed(_chosen(run)), *_search(run[0])])),
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
        "| data set | method | stopped by | chosen in each fold | one member, % | ensemble, % "
        "| calibration error, one | ensemble | certain half, % | the rest, % |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    return "\n" + "\n".join([*head, *sorted(rows)]) + "\n"


def evaluation_times() -> str | None:
    """How long the ensembles took, and how long PyG would take to train on the same graphs at its speed."""
    rows = []
    for run in runs():
        if "members" not in run[0]["details"] or "H200" not in str(run[0]["device"]):
            continue
        name = run[0]["dataset"]
        speeds = [r["rows"][name] for r in records_of("cross_validation") if name in r["rows"]]
        if not speeds or run[0]["settings"]["training"].get("monitor") != "accuracy":
            continue
        seconds = sum(record["seconds"] for record in run)
        graphs = sum(record["seconds"] * record["graphs_per_second"] for record in run)
        peer = graphs / speeds[-1]["pyg"]
        cells = [
            name,
            run[0]["method"],
            f"{graphs / 1e6:.1f}",
            f"{seconds / 60:.1f}",
            f"{peer / 3600:.1f}" if "diffpool" in run[0]["method"] else "–",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    head = [
        "| data set | method | graphs trained, millions | minutes, shared GPU | hours of PyG dense, extrapolated |",
        "|---|---|---|---|---|",
    ]
    return "\n" + "\n".join([*head, *sorted(rows)]) + "\n" if rows else None


def _chosen(run: list[dict[str, Any]]) -> list[str]:
    """The settings that the members of the ensembles of a run do not all share."""
    points = [point for record in run for point in record["details"].get("chosen_points", ())]
    names = list(points[0]) if points else []
    return [name for name in names if any(point[name] != points[0][name] for point in points)]


def _listed(names: list[str]) -> str:
    """The names as in a sentence: "a, b and c"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _search(record: dict[str, Any]) -> list[str]:
    """How the settings of a fold were chosen, where that differs from a hold-out with all points trained to the end."""
    search = record["details"].get("search", {})
    words = ["with `--tune`"] if search.get("halving") else []
    if (folds := search.get("inner_folds", 1)) > 1:
        words.append(f"{folds} inner folds")
    return words


def reliability() -> str | None:
    """The picture that `python -m benchmarks.reliability` draws, if records have its counts."""
    if any("reliability" in record["details"] for run in runs() for record in run):
        return "\n![Accuracy by confidence, of single models and of ensembles](reliability.png)\n"
    return None


def reproduced(name: str, protocol: str) -> str:
    """A table of `diffpool reproduce`."""
    return "\n" + as_markdown(accuracy_tables(name, [protocol], ROOT / "results"))


def running_time() -> str:
    return "\n" + as_markdown([time_table(ROOT / "results", SHOWN)])


def stability() -> str:
    return "\n" + as_markdown([stability_table(ROOT / "results", STABILITY_SETS)])


def runs() -> list[list[dict[str, Any]]]:
    """The records of each run in results/, except those that have tables of their own."""
    paths = sorted((ROOT / "results").glob("*.jsonl"))
    return _runs([path for path in paths if path.name not in ELSEWHERE])


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
        "–" if published is None else f"{published.mean:g}",
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
    poolings = sorted({record["settings"]["architecture"]["poolings"] for record in records})
    epochs = first["settings"]["training"]["epochs"]
    number = " or ".join(map(str, poolings))
    counted = f"{number} {'pooling' if poolings == [1] else 'poolings'}, at most {epochs} epochs"
    words = [first["features"], counted]
    grid = first["details"].get("search", {}).get("grid", {})  # older records do not have it
    method, chosen = METHODS[first["method"].split(",")[0]], []  # without ", ensemble of N"
    for part, usual in (("architecture", method.architecture), ("training", method.training)):
        for name, default in json.loads(json.dumps(asdict(usual))).items():
            values = [record["settings"][part].get(name, default) for record in records]
            if name in NOT_LISTED:
                continue
            if name in grid or any(value != values[0] for value in values):
                chosen.append(name)
            elif values[0] != default:
                value = ", ".join(map(str, values[0])) if isinstance(values[0], list) else values[0]
                words.append(f"{name} {value}")
    words += [f"each fold's own {_listed(chosen)}"] if chosen else []
    return "; ".join(words + _search(first))


def filled(text: str) -> str:
    """Replace everything between `<!-- generated: NAME -->` and `<!-- end -->` by the current table."""
    for name, table in {
        **TABLES,
        "results": results,
        "tuning": tuning,
        "nested": nested,
        "ensembles": ensembles,
        "evaluation_times": evaluation_times,
        "reliability": reliability,
        "modules": module_list,
        **{
            f"reproduce {name} {protocol}": partial(reproduced, name, protocol)
            for name in ("table1", "table2")
            for protocol in PROTOCOLS
        },
        "reproduce time": running_time,
        "reproduce stability": stability,
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
    ROOT / "docs" / "architecture.md",
    ROOT / "docs" / "commands.md",
    ROOT / "docs" / "demo.md",
    ROOT / "docs" / "ensembles.md",
    ROOT / "docs" / "explain.md",
    ROOT / "docs" / "explore.md",
    ROOT / "docs" / "methods.md",
    ROOT / "docs" / "migration.md",
    ROOT / "docs" / "own-model.md",
    ROOT / "docs" / "reproduce.md",
    ROOT / "docs" / "scale.md",
    ROOT / "results" / "README.md",
)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    for path in PAGES:
        path.write_text(filled(path.read_text()))


if __name__ == "__main__":
    main()
