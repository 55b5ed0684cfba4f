"""The tables of section 4.4, from the records of `python -m benchmarks.clusters`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from diffpool.errors import DataError, shortened
from diffpool.experiments.reproduce.claims import CLAIMS, Claim
from diffpool.experiments.reproduce.found import SOURCE_TREE
from diffpool.experiments.reproduce.measurements import machine
from diffpool.experiments.reproduce.render import PlainTable
from diffpool.experiments.reproduce.rules import OBJECTIVES, USUAL, Data, show
from diffpool.files import json_lines

FILE = "clusters.jsonl"
COLUMNS = {"graphs", "analyzed", "seeds", "epochs", "models", "variants", "structure"}
TITLES = {
    "hierarchy": "Hierarchical cluster structure",
    "density": "Dense and sparse subgraphs",
    "similarity": "Nodes with similar representations",
    "numbers": "The number of clusters",
}
# Title, name in the records, format.
MEASURES = (
    ("clusters used", "used", ".1f"),
    ("entropy / log k", "entropy", ".2f"),
    ("ARI, planted", "planted_ari", ".2f"),
    ("ARI, Louvain", "louvain_ari", ".2f"),
    ("modularity", "modularity", ".2f"),
    ("dense parts", "dense_spread", ".2f"),
    ("sparse parts", "sparse_spread", ".2f"),
    ("distant pairs", "far_ratio", ".2f"),
    ("their difference", "far_alike", ".2f"),
)


def clusters_file(records: Path) -> Path:
    """The measurements in a folder of records, or otherwise those of the source tree."""
    path = records / FILE
    return path if path.is_file() else SOURCE_TREE / "benchmarks" / "records" / FILE


def read_data(path: Path) -> list[Data]:
    """The last record of every data set; none if there is no file."""
    if not path.is_file():
        return []
    found: dict[str, Data] = {}
    for record, where in json_lines(path.read_bytes(), path, "a record of benchmarks.clusters"):
        try:
            by_name = {name: Data(name, row, record) for name, row in record["rows"].items()}
            complete = all(data.row.keys() >= COLUMNS for data in by_name.values())
        except (KeyError, TypeError, AttributeError):
            complete = False
        if not complete:
            raise DataError(
                f"{where}: expected a record of benchmarks.clusters, got {shortened(record)}: remove the line"
            )
        found |= by_name
    return list(found.values())


def analysis_tables(records: Path, datasets: Sequence[str] | None = None) -> list[PlainTable]:
    """Whether the sentences of section 4.4 hold, and the measurements by number of clusters and by objective."""
    data = read_data(clusters_file(records))
    if datasets is not None:
        data = [dataset for dataset in data if dataset.name in datasets]
    if not data:
        note = "Missing: no measurements. `python -m benchmarks.clusters` in the source tree makes them."
        return [PlainTable("analysis", "Section 4.4: the learned clusters.", [], [], [], (note,))]
    tables = [claims_table(name, data) for name in CLAIMS]
    return [*tables, sizes_table(data), objectives_table(data)]


def claims_table(group: str, data: Sequence[Data]) -> PlainTable:
    """One line for each sentence: the quote, what is measured, the figures of every data set, and where it holds."""
    lines, facts = [], []
    for claim in CLAIMS[group]:
        found = [("–", []) if claim.rule is None else claim.rule(dataset) for dataset in data]
        verdict = "–" if claim.rule is None else verdict_of([decided for _, decided in found])
        figures = [f"{figure}{_mark(decided)}" for figure, decided in found]
        lines.append([f"“{claim.quote}”", claim.measured, *figures, verdict])
        facts += [
            {"table": "analysis", "claim": claim.quote, "measured": claim.measured}
            | {
                "dataset": dataset.name,
                "figure": figure,
                "seeds": len(decided),
                "holds": sum(decided),
            }
            for dataset, (figure, decided) in zip(data, found, strict=True)
            if claim.rule is not None
        ]
    header = ["the paper", "measured", *(dataset.name for dataset in data), "holds"]
    caption = f"Section 4.4, {TITLES[group].lower()}: ✓ holds in all seeds, ~ in some, ✗ in none."
    return PlainTable(f"analysis-{group}", caption, header, lines, facts)


def summary(data: Sequence[Data]) -> str:
    """How many sentences hold."""
    counts = {"yes": 0, "no": 0, "other": 0}
    for group in CLAIMS.values():
        for verdict in (_verdict_on(claim, data) for claim in group if claim.rule is not None):
            if verdict != "not measured":
                counts[verdict if verdict in counts else "other"] += 1
    return (
        f"Statements that were measured: {sum(counts.values())}. Hold on every data set on which they can be measured: "
        f"{counts['yes']}; on none: {counts['no']}; on some, or in some seeds: {counts['other']}."
    )


def _verdict_on(claim: Claim, data: Sequence[Data]) -> str:
    assert claim.rule is not None
    return verdict_of([claim.rule(dataset)[1] for dataset in data])


def verdict_of(decided: Sequence[Sequence[bool]]) -> str:
    """Whether a sentence holds, from its seeds on each data set: yes, no, on some data sets, in some seeds."""
    known = [seeds for seeds in decided if seeds]
    if not known:
        return "not measured"
    held = sum(all(seeds) for seeds in known)
    if held == len(known):
        return "yes"
    if not any(any(seeds) for seeds in known):
        return "no"
    return f"on {held} of {len(known)}" if held else "in some seeds"


def _mark(decided: Sequence[bool]) -> str:
    """A mark after the figure of a data set: whether the claim holds for all, no or some seeds."""
    if not decided:
        return ""
    return " ✓" if all(decided) else " ~" if any(decided) else " ✗"


def sizes_table(data: Sequence[Data]) -> PlainTable:
    """Accuracy, clusters used and time by the maximum number of clusters, with and without the link loss."""
    header = ["data set", "C", "used of allowed, link 1", "link 0"]
    header += ["test accuracy, link 1", "link 0", "ms per epoch and model", "parameters"]
    lines, facts = [], []
    for dataset in data:
        for variant, result in dataset.row["variants"].items():
            if "failed" in result:
                lines.append([dataset.name, variant, result["failed"], *[""] * 5])
                continue
            cells = [dataset.name, variant]
            for objective in ("link 1", "link 0"):
                used, allowed = (
                    dataset.values(n, objective, variant) for n in ("used", "clusters")
                )
                cells.append(f"{show(used, '.1f')} of {show(allowed, '.1f')}")
            tests = [dataset.values("test", o, variant) for o in ("link 1", "link 0")]
            time = result["epoch_s"]
            cells += [*map(_spread, tests), "–" if time is None else f"{1e3 * time:,.0f}"]
            lines.append([*cells, f"{result['parameters']:,}"])
            facts.append(_fact("sizes", dataset, variant, "link 1") | {"epoch_s": time})
    caption = "Section 4.4, accuracy and used clusters by the maximum number of clusters C (mean ± sd over seeds)."
    return PlainTable("analysis-sizes", caption, header, lines, facts)


def objectives_table(data: Sequence[Data]) -> PlainTable:
    """The main measures with each objective, and before training."""
    header = ["data set", "objective", "test accuracy, %", *(title for title, *_ in MEASURES)]
    lines, facts = [], []
    for dataset in data:
        for objective in ("untrained", *OBJECTIVES):
            if dataset.models(USUAL, objective):
                cells = [show(dataset.values(name, objective), form) for _, name, form in MEASURES]
                name = "before training" if objective == "untrained" else objective
                lines.append(
                    [dataset.name, name, _spread(dataset.values("test", objective)), *cells]
                )
                facts.append(_fact("objectives", dataset, USUAL, objective))
    caption = f"Section 4.4, measures by objective, C = {USUAL} (mean over seeds)."
    return PlainTable("analysis-objectives", caption, header, lines, facts, tuple(origins(data)))


def _fact(table: str, data: Data, variant: str, objective: str) -> dict[str, Any]:
    """The means of all measures of a group of models."""
    fact: dict[str, Any] = {"table": f"analysis-{table}", "dataset": data.name}
    fact |= {"variant": variant, "objective": objective}
    for name in ("test", *(name for _, name, _ in MEASURES)):
        values = data.values(name, objective, variant)
        fact[name] = mean(values) if values else None
    return fact


def _spread(values: Sequence[float]) -> str:
    """Mean ± sd."""
    if not values:
        return "–"
    return f"{mean(values):.1f} ± {stdev(values):.1f}" if len(values) > 1 else f"{values[0]:.1f}"


def origins(data: Sequence[Data]) -> list[str]:
    """What was trained on each data set, and where."""
    lines = []
    for dataset in data:
        row = dataset.row
        lines.append(
            f"{dataset.name}: {row['graphs']:,} graphs, {row['analyzed']} analyzed for each seed; number of seeds: "
            f"{row['seeds']}; at most {row['epochs']} epochs, {row['models']} models side by side."
        )
    return [*lines, *dict.fromkeys(machine(dataset.record) for dataset in data)]
