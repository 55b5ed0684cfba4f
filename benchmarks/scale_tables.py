"""The tables of docs/scale.md: data-parallel training, large graphs, and an estimate for a hundred GPUs."""

from __future__ import annotations

from statistics import median
from typing import Any

import torch

from benchmarks.comparison_tables import cell, found_rows, lines
from benchmarks.record import where
from diffpool.architecture import Architecture
from diffpool.builder import build
from diffpool.nn import BatchNorm

# Assumptions of the estimate.
GPUS, PER_MACHINE = 100, 8
LATENCY = 40e-6  # seconds of an all-reduce of a few kB over a hundred GPUs
BANDWIDTH = 50e9  # bytes per second and GPU between machines: 400 Gbit/s
# The data sets of the estimate: features, classes, nodes of the largest graph.
SHAPES = {"ENZYMES": (21, 6, 126), "DD": (89, 2, 5748)}
MEMORY = (4, 8, 16, 32, 64, 128)  # GiB


def large_graph(record: dict[str, Any]) -> str | None:
    """Seconds and peak memory by the size of the graph."""
    modes = ("training", "prediction", "checkpointing")
    found: dict[int, dict[str, dict[str, Any]]] = {}
    for row in record["rows"]:
        found.setdefault(row["nodes"], {})[row.get("mode", "")] = row
    if any(mode not in row for row in found.values() for mode in modes):
        return None
    titles = ["nodes", "edges", "before, GiB", "training step, s", "peak, GiB"]
    titles += ["prediction, s", "peak, GiB", "with checkpointing, s", "peak, GiB"]
    rows = []
    for nodes, row in found.items():
        first = row["training"]
        cells = [f"{nodes:,}", f"{first['edges']:,}", f"{first['start_gib']:.2f}"]
        for mode in modes:
            cells += [f"{row[mode]['seconds']:.2f}", f"{row[mode]['peak_gib']:.2f}"]
        rows.append(cells)
    return "\n" + "\n".join([*lines(titles, rows), "", where(record)]) + "\n"


def large_graph_memory(record: dict[str, Any]) -> str | None:
    """The largest graph that fits into a given memory, from the memory per node of the largest measured graph."""
    rows = {(row["nodes"], row.get("mode", "")): row for row in record["rows"]}
    nodes = max(size for size, _ in rows)
    training, prediction = rows.get((nodes, "training")), rows.get((nodes, "prediction"))
    if training is None or prediction is None:
        return None
    base = min(row["start_gib"] for row in record["rows"])
    table = []
    for memory in MEMORY:
        counts = [
            (memory - base) / (row["peak_gib"] - base) * nodes for row in (training, prediction)
        ]
        table.append([f"{memory} GiB", *(f"{count / 1e6:.1f} million" for count in counts)])
    return "\n" + "\n".join(lines(["memory", "training", "prediction"], table)) + "\n"


def data_parallel(record: dict[str, Any]) -> str:
    """Throughput and CPU time of two processes."""
    titles = [
        f"{record['data']}, batches of {record['batch']}",
        "graphs per second",
        "CPU seconds per 1000 graphs",
    ]
    rows = [
        [case, f"{row['graphs_per_second']:.0f}", f"{row['cpu_seconds']:.1f}"]
        for case, row in record["rows"].items()
    ]
    load = f"Load average before the run: {record['load_before']:.1f} on {record['hardware']['cores']} cores."
    return "\n" + "\n".join([*lines(titles, rows), "", load, "", where(record)]) + "\n"


def imbalance(record: dict[str, Any]) -> str:
    """The largest part divided by the mean, by the rule that divides batches."""
    columns = [(what, size) for size in (2, 8) for what in ("nodes", "edges", "seconds")]
    titles = ["divided by", *(f"{what}, {size} processes" for what, size in columns)]
    rows = [
        [rule, *(f"{row[f'{what}, {size}']:.2f}" for what, size in columns)]
        for rule, row in record["imbalance"].items()
    ]
    return "\n" + "\n".join(lines(titles, rows)) + "\n"


def hundred_gpus() -> str:
    """An estimate for one model on a hundred GPUs, from measured steps and the assumptions above."""
    found = found_rows("cross_validation", "cohort_ms")
    titles = [
        "data set",
        "graphs per GPU and step",
        "parameters, MB",
        "step, ms",
        "sums, ms: synchronized",
    ]
    titles += ["shard", "graphs per second, million: synchronized", "shard", "ten models per GPU"]
    rows = []
    for name, shape in SHAPES.items():
        row, _ = found[name]
        size, layers = _parameters(*shape)
        transfer = 2 * (GPUS - 1) / GPUS * size / BANDWIDTH
        sums = (transfer + (2 * layers + 1) * LATENCY, transfer + LATENCY)
        for graphs, milliseconds in ((20, row["single_ms"]), (200, row["cohort_ms"])):
            rates = [GPUS * graphs / (milliseconds / 1e3 + seconds) / 1e6 for seconds in sums]
            cells = [name, str(graphs), f"{size / 1e6:.1f}", f"{milliseconds:.1f}"]
            cells += [f"{seconds * 1e3:.1f}" for seconds in sums]
            cells += [f"{rate:.2f}" for rate in rates]
            rows.append([*cells, cell(GPUS * row["cohort"] / 1e6, ".1f")])
    return "\n" + "\n".join(lines(titles, rows)) + "\n"


def _parameters(features: int, classes: int, largest: int) -> tuple[int, int]:
    """Bytes of the parameters of the measured model, and its number of batch normalizations."""
    architecture = Architecture(
        poolings=2,
        layers_before=3,
        layers_after=3,
        ratio=0.25,
        concat=True,
        assignment_linear=True,
        readout="mean",
        head=(64,),
    )
    with torch.device("meta"):
        model = build(architecture, features, classes, largest)
    norms = sum(isinstance(module, BatchNorm) for module in model.modules())
    return 4 * sum(p.numel() for p in model.parameters()), norms


def ray_cluster(record: dict[str, Any]) -> str:
    found, names = record["overhead"], ("one process", "`--devices cpu,cpu`", "`--cluster ray`")
    lines = ["| | seconds | CPU seconds of all processes |", "|---|---|---|"]
    for key, name in zip(found["seconds"], names, strict=True):
        seconds, cpu = median(found["seconds"][key]), median(found["cpu_seconds"][key])
        lines.append(f"| {name} | {seconds:.0f} | {cpu:.0f} |")
    lines += ["", f"Ray took {median(found['start']):.0f} s to start, which is included."]
    if found["equal"]:
        lines[-1] += " The records of all runs are equal."
    if "long" in record:
        wall, busy = record["long"]["seconds"], record["long"]["cpu_seconds"]
        lines[-1] += (
            f" A run of {record['long']['epochs']} epochs took {median(wall['processes']):.0f} s and "
            f"{median(busy['processes']):.0f} CPU seconds with `--devices cpu,cpu`; with Ray, "
            f"{median(wall['ray']):.0f} s and {median(busy['ray']):.0f} CPU seconds."
        )
    lines += ["", "| three nodes, one is killed | seconds | result |", "|---|---|---|"]
    for command in ("evaluate", "tune"):
        run = record[command]
        result = "equal" if run["equal"] else "different"
        lines.append(f"| `{command}` | {run['killed']:.0f} | {result}; {'; '.join(run['lost'])} |")
    lines += [
        "",
        f"{record['epochs']} epochs; load of the machine {record['load']:.0f}. {where(record)}",
    ]
    return "\n" + "\n".join(lines) + "\n"
