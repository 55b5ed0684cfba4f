"""The tables of docs/explain.md: fidelity, and how often the truth is found."""

from __future__ import annotations

from typing import Any

from benchmarks.record import last_with, where

METHODS = {"diffpool": "DiffPool", "graphsage": "flat"}
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
        "| fall of the probability, % | test accuracy, % | 10 % of the nodes: gradients | GNNExplainer | random "
        "| 20 %: gradients | GNNExplainer | random | highest cluster | random cluster | s per graph |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, (row, _) in rows.items():
        for method, title in METHODS.items():
            if method not in row:
                continue
            own = row[method]
            cells = [f"{name}, {title}", f"{own['test']:.1f}"]
            for share in ("0.1", "0.2"):
                cells += [
                    _percent(own[how][share]) for how in ("gradients", "gnn_explainer", "random")
                ]
            clusters = own.get("clusters", {})
            cells += [_percent(clusters.get(how)) for how in ("highest", "random")]
            lines.append(f"| {' | '.join(cells)} | {own['gradients_s']:.2f} |")
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
        "| embedded data | marked nodes among the 8 highest, % | by chance, % | marked ends found, % "
        "| highest node is marked, % |",
        "|---|---|---|---|---|",
    ]
    for method, title in METHODS.items():
        if method not in row:
            continue
        own = row[method]["truth"]
        cells = [_percent(own[key]) for key in ("nodes", "chance", "ends", "first")]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n" + "\n".join(lines) + "\n"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}".replace("-", "−")
