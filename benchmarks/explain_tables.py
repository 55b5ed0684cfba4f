"""The tables of docs/explain.md: fidelity, and how often the truth is found."""

from __future__ import annotations

from typing import Any

from benchmarks.record import last_with, where

MODELS = {"diffpool": "DiffPool", "graphsage": "flat"}
SCORES = {
    "gradients": "`gradients`",
    "leave-out": "`leave-out`",
    "keep": "`keep`",
    "gnn_explainer": "GNNExplainer",
    "random": "random",
}
DATASETS = ("embedded", "ENZYMES", "molecules")


def _rows() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """The latest row of every data set, and its record."""
    found = {name: last_with("explain", name) for name in DATASETS}
    return {name: (record["rows"][name], record) for name, record in found.items() if record}


def fidelity() -> str | None:
    """The fall of the probability without the nodes with the highest scores, or without the highest cluster."""
    rows = _rows()
    if not rows:
        return None
    lines = [
        "| model (test accuracy, %) | scores | without 10 % of the nodes | without 20 % | without the highest cluster "
        "| s per graph |",
        "|---|---|---|---|---|---|",
    ]
    for name, (row, _) in rows.items():
        for method, title in MODELS.items():
            if method not in row:
                continue
            own = row[method]
            for how, label in SCORES.items():
                if how not in own:
                    continue
                found = own[how]
                falls = [_percent(found["nodes"][share]) for share in ("0.1", "0.2")]
                seconds = f"{found['seconds']:.2g}" if "seconds" in found else ""
                cells = [f"{name}, {title} ({own['test']:.1f})", label, *falls]
                lines.append(f"| {' | '.join([*cells, _percent(found.get('cluster')), seconds])} |")
    origins = [
        f"{name}: {row['explained']} test graphs. {where(record)}"
        for name, (row, record) in rows.items()
    ]
    return "\n" + "\n".join([*lines, "", *(f"- {origin}" for origin in origins)]) + "\n"


def truth() -> str | None:
    """How often the marks of the embedded data are found."""
    rows = _rows()
    if "embedded" not in rows:
        return None
    row, _ = rows["embedded"]
    lines = [
        "| embedded data | scores | all marked nodes found, % of graphs | both marks found, % of graphs "
        "| highest node is marked, % of graphs | marked among the 8 highest nodes, % | by chance, % |",
        "|---|---|---|---|---|---|---|",
    ]
    for method, title in MODELS.items():
        for how, label in SCORES.items():
            if "truth" not in row.get(method, {}).get(how, {}):
                continue
            own = row[method][how]["truth"]
            cells = [_percent(own[key]) for key in ("all", "both", "first", "nodes", "chance")]
            lines.append(f"| {title} | {label} | {' | '.join(cells)} |")
    return "\n" + "\n".join(lines) + "\n"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}".replace("-", "−")
