"""The tables of `cross_validation`, `layer`, `scaling`, `reddit_shape` and `graph_kernels` from their records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from benchmarks.record import records_of, where

PEERS = {
    "pyg": "PyG dense",
    "pyg-float32": "PyG, float32",
    "pyg-compile": "PyG compiled",
    "pyg-loader": "PyG, workers",
    "tgp": "tgp batched",
    "tgp-unbatched": "tgp unbatched",
}
OURS = {"cohort": "ten models", "single": "one model"}
NOTHING = "–"


def cell(value: Any, form: str = ",.0f", unit: str = "") -> str:
    """A number, or a dash if it failed or was not measured, or is 0 MiB in an old CPU record."""
    measured = isinstance(value, int | float) and value > 0
    return f"{value:{form}}{unit}" if measured else NOTHING


def times(value: Any) -> str:
    return cell(value, ".1f", " ×")


def lines(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    titles = list(titles)
    table = [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles)]
    return table + [f"| {' | '.join(row)} |" for row in rows]


def page(table: list[str], notes: Iterable[str], origins: Iterable[str]) -> str:
    notes = list(notes)
    below = ["", "Not measured: " + "; ".join(notes) + "."] if notes else []
    return "\n" + "\n".join([*table, *below, "", *origins]) + "\n"


Found = dict[str, tuple[dict[str, Any], dict[str, Any]]]


def found_rows(source: str, part: str) -> Found:
    """For each data set, the last record that has this part of its row: the row and the record."""
    found: Found = {}
    for record in records_of(source):
        for name, row in record["rows"].items():
            if part in row:
                found[name] = row, record
    return found


def origins(found: Found) -> list[str]:
    """The origin of the rows, with the names of the data sets if they come from several runs."""
    names: dict[str, list[str]] = {}
    for name, (_, record) in found.items():
        workers = record.get("workers")
        origin = f"{workers} workers; {where(record)}" if workers else where(record)
        names.setdefault(origin, []).append(name)
    if len(names) == 1:
        return list(names)
    return [f"- {', '.join(sets)}: {origin}" for origin, sets in names.items()]


def failures(found: Found) -> list[str]:
    """Which competitor failed on which data set, and why."""
    return [
        f"{title} on {name} ({row[key]['failed']})"
        for name, (row, _) in found.items()
        for key, title in {**OURS, **PEERS}.items()
        if isinstance(row.get(key), dict)
    ]


def to_best_peer(row: dict[str, Any]) -> float | None:
    """Our ratio to the fastest peer, if there were at least two."""
    rates = [row[peer] for peer in PEERS if isinstance(row.get(peer), int | float)]
    if len(rates) < 2 or not isinstance(row["cohort"], int | float):
        return None
    return row["cohort"] / max(rates)


def throughput(source: str) -> str | None:
    """Training throughput in graphs per second."""
    found = found_rows(source, "cohort")
    if not found:
        return None
    rows = []
    for name, (row, _) in found.items():
        rows.append(
            [
                name if row["models"] == 10 else f"{name}, {row['models']} for ten",
                cell(row["cohort"]),
                cell(row["single"]),
                *(cell(row.get(peer)) for peer in PEERS),
                f"**{times(row.get('ratio'))}**",
                times(row.get("ratio_single")),
                times(to_best_peer(row)),
            ]
        )
    titles = ["graphs per second", *OURS.values(), *PEERS.values()]
    titles += ["ten / PyG dense", "one / PyG dense", "ten / best peer"]
    return page(lines(titles, rows), failures(found), origins(found))


def speed(source: str) -> str | None:
    """Training throughput of ours and of PyG dense only: a narrow table."""
    found = found_rows(source, "cohort")
    if not found:
        return None
    rows = []
    for name, (row, _) in found.items():
        one = f"{cell(row['single'])} ({times(row.get('ratio_single'))})"
        ten = f"{cell(row['cohort'])} ({times(row.get('ratio'))})"
        rows.append([name, cell(row.get("pyg")), one, ten])
    titles = ["graphs per second", "PyG dense", "one model", "ten models at once"]
    return page(lines(titles, rows), [], origins(found))


def ratio_ranges(source: str, others: str) -> str | None:
    """The smallest and largest ratio of ten models to PyG over several runs, in one line, for each data set."""
    found: dict[str, list[float]] = {}
    rows = [(name, row) for name, (row, _) in found_rows(source, "cohort").items()]
    for record in records_of(others):
        rows += record["rows"].items()
    for name, row in rows:
        if row.get("ratio"):
            found.setdefault(name, []).append(row["ratio"])
    texts = [
        f"{min(ratios):.0f} to {max(ratios):.0f} × ({name})"
        for name, ratios in found.items()
        if len(ratios) > 1
    ]
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]])) or None


def memory(source: str) -> str | None:
    """Peak memory during training."""
    found = found_rows(source, "cohort")
    if not found:
        return None
    who = {**OURS, **PEERS}
    rows = [
        [name, *(cell(row.get(f"{key}_mib")) for key in who)] for name, (row, _) in found.items()
    ]
    return page(lines(["MiB", *who.values()], rows), [], origins(found))


def inference(source: str) -> str | None:
    """Evaluation throughput of one model in graphs per second."""
    found = found_rows(source, "inference")
    if not found:
        return None
    batches = list(dict.fromkeys(size for row, _ in found.values() for size in row["inference"]))
    titles = ["graphs per second"]
    for size in batches:
        titles += [f"ours, batch {size}", f"PyG dense, batch {size}", "ratio"]
    rows = []
    for name, (row, _) in found.items():
        cells = [name]
        for size in batches:
            result = row["inference"].get(size, {})
            cells += [cell(result.get("ours")), cell(result.get("pyg"))]
            cells += [times(result.get("ratio"))]
        rows.append(cells)
    return page(lines(titles, rows), [], origins(found))


def sizes(record: dict[str, Any]) -> str:
    """The cost of a step by graph size."""
    rows, notes = [], []
    for row in record["sizes"]:
        ours, pyg = row["ours"], row["pyg"]
        rows.append(
            [
                f"{row['nodes']:,}",
                *(cell(who.get("ms"), ",.1f") for who in (ours, pyg)),
                times(row["ratio"]),
                *(cell(who.get("mib")) for who in (ours, pyg)),
            ]
        )
        for title, who in (("ours", ours), ("PyG dense", pyg)):
            if "failed" in who:
                notes.append(f"{title} with {row['nodes']:,} nodes ({who['failed']})")
    titles = ["nodes of each graph", "ms: ours", "ms: PyG dense", "ratio"]
    table = lines([*titles, "MiB: ours", "MiB: PyG dense"], rows)
    return page(table, notes, [where(record)])


def models(record: dict[str, Any]) -> str:
    """The cost of a step by number of models."""
    rows = [
        [
            str(row["models"]),
            cell(row.get("ms"), ",.2f"),
            cell(row.get("rate")),
            cell(row.get("mib")),
        ]
        for row in record["models"]
    ]
    notes = [f"{row['models']} ({row['failed']})" for row in record["models"] if "failed" in row]
    titles = ["models", "ms per step", "graphs per second", "MiB"]
    return page(lines(titles, rows), notes, [where(record)])


LAYER = {
    "pyg": "`dense_diff_pool`",
    "tgp": "torch-geometric-pool",
    "ours": "`DiffPooling`, our encoders",
    "ours-captured": "the same with `captured_step`",
    "ours-pyg": "`DiffPooling`, PyG's convolutions",
    "ours-reference": "`DiffPooling`, our encoders, plain PyTorch",
}


def layer(source: str) -> str | None:
    """Speed, memory and lines of code of the same model with each layer, from the last record of each data set."""
    found: Found = {}
    for record in records_of(source):
        for name, batches in record["rows"].items():
            for row in batches:
                found[f"{name}, batch {row['batch']}"] = row, record
    if not found:
        return None
    rows, notes = [], []
    for name, (row, _) in found.items():
        for model, title in LAYER.items():
            result = row["models"].get(model)
            if result is None:
                continue
            if "failed" in result:
                notes.append(f"{title} on {name} ({result['failed']})")
            ours = model.startswith("ours")
            rows.append(
                [
                    name,
                    title,
                    cell(result.get("rate")),
                    _bold(cell(result["ratio"], ".2f", " ×"), ours),
                    cell(result.get("mib")),
                    _bold(cell(result["memory"], ".3f", " ×"), ours),
                    "0" if result.get("reserved") == 0 else cell(result.get("reserved")),
                    str(result["lines"]),
                ]
            )
    titles = ["data set", "layer", "graphs per second", "/ PyG", "MiB", "/ PyG"]
    titles += ["MiB reserved", "lines of code"]
    return page(lines(titles, rows), notes, origins(found))


def layer_ratios(source: str, model: str) -> str | None:
    """The speed of a model relative to PyG's layer in one line, from the last record of each data set."""
    found: dict[str, float | None] = {}  # in the order of the table
    for record in records_of(source):
        for name, batches in record["rows"].items():
            for row in batches:
                ratio = row["models"].get(model, {}).get("ratio")
                found[name] = ratio or found.get(name)
    texts = [
        f"{ratio:.{2 if ratio < 2 else 1}f} × ({name})" for name, ratio in found.items() if ratio
    ]
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]])) or None


def _bold(text: str, ours: bool) -> str:
    return f"**{text}**" if ours and text != NOTHING else text


def reddit_shape(record: dict[str, Any]) -> str:
    """One epoch of ten folds."""
    data = record["data"]
    values = [
        f"{data['graphs']:,}",
        f"{data['mean_nodes']:,.1f}",
        f"{data['mean_edges']:,.1f}",
        f"{data['largest']:,}",
        str(record["folds"]),
        f"{record['graphs_trained']:,}",
        cell(record["seconds"], ",.1f"),
        cell(record["graphs_a_second"]),
        cell(record["mib"]),
        cell(record["mib_with_data"]),
    ]
    titles = ["graphs", "mean nodes", "mean edges", "largest", "folds", "graphs trained"]
    titles += ["seconds per epoch", "graphs per second", "MiB", "with the data"]
    return page(lines(titles, [values]), [], [where(record)])


def on_disk(source: str) -> str | None:
    """Seconds and memory of each step, from the last record of every number of graphs."""
    records = {record["graphs"]: record for record in records_of(source)}
    if not records:
        return None
    titles = ("graphs", "step", "seconds", "graphs per second", "private GiB", "mapped GiB")
    rows = [
        (
            f"{graphs:,}",
            row["step"],
            f"{row['seconds']:,.0f}",
            f"{graphs / row['seconds']:,.0f}",
            f"{row['private_gib']:.2f}",
            f"{row['mapped_gib']:.2f}",
        )
        for graphs, record in sorted(records.items())
        for row in record["rows"]
        if row["step"] != "generate"
    ]
    sizes = [
        f"{graphs:,} graphs take {record['disk_gib']['json_lines']:.2f} GiB as JSON lines and "
        f"{record['disk_gib']['stored']:.2f} GiB in the folder."
        for graphs, record in sorted(records.items())
    ]
    places = dict.fromkeys(where(record) for record in records.values())
    return page(lines(titles, rows), [], [" ".join(sizes), "", *places])


def kernels(source: str) -> str | None:
    """Seconds and MB of Gram matrices, from the last record with both ours and GraKeL, or else with ours."""
    found: Found = {}
    for record in records_of(source):
        for name, kernels in record["rows"].items():
            for kernel, row in kernels.items():
                key = f"{name} | {kernel}"
                better = "grakel" in row or "grakel" not in found.get(key, ({}, {}))[0]
                if "ours" in row and better:
                    found[key] = row, record
    if not found:
        return None
    rows, notes = [], []
    for name, (row, _) in found.items():
        ours, peer = row["ours"], row.get("grakel", {})
        rows.append(
            [name, *(_matrix(row.get(who)) for who in ("ours", "every_h", "grakel")), _gain(row)]
        )
        for title, who in (("ours", ours), ("GraKeL", peer)):
            if "failed" in who and "at_least" not in who:
                notes.append(f"{title}, {name.replace(' | ', ', ')} ({who['failed']})")
    titles = ["data set", "kernel", "ours", "ours, every h", "GraKeL", "GraKeL / ours"]
    named = {name.replace(" | ", " "): origin for name, origin in found.items()}
    return page(lines(titles, rows), notes, origins(named))


def _matrix(result: dict[str, Any] | None) -> str:
    """Seconds (MB), or "> limit" if it was stopped after that many seconds."""
    if result is None or "seconds" not in result:
        limit = (result or {}).get("at_least")
        return NOTHING if limit is None else f"> {limit:,.0f}"
    return f"{result['seconds']:,.2f} ({result['mb']:,.0f})"


def _gain(row: dict[str, Any]) -> str:
    ours, peer = row["ours"].get("seconds"), row.get("grakel", {})
    if not ours:
        return NOTHING
    if "at_least" in peer:
        return f"> {peer['at_least'] / ours:,.0f} ×"
    return f"**{peer['seconds'] / ours:,.1f} ×**" if "seconds" in peer else NOTHING
