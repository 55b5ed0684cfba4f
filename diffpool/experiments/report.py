"""The report of a trained model: scores, split, settings, versions and time, as report.json and report.md."""

from __future__ import annotations

import contextlib
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffpool.architecture import Architecture
from diffpool.experiments.advice import class_counts
from diffpool.experiments.provenance import device_name, versions
from diffpool.files import atomic_write, write_json
from diffpool.settings import Setting, list_settings
from diffpool.text import printable
from diffpool.training import Training

if TYPE_CHECKING:
    from diffpool.experiments.single_run import Outcome

FILES = ("report.json", "report.md")
PARTS = ("train", "validation", "test")
LARGEST_MATRIX = 30  # maximum number of classes of a confusion matrix in report.md


def make_report(outcome: Outcome) -> dict[str, Any]:
    """Everything needed to judge and reproduce a trained model, as plain values."""
    card, dataset, fold = outcome.card, outcome.dataset, outcome.fold
    parts = {part: getattr(fold, part) for part in PARTS}
    split: dict[str, Any] = {part: len(graphs) for part, graphs in parts.items()}
    split["validation_graphs"] = (
        fold.validation.tolist()
    )  # numbered from 0; all other graphs are training graphs
    split["test_graphs"] = fold.test.tolist()
    report: dict[str, Any] = {
        "method": card.method,
        "dataset": card.dataset,
        "task": "regression" if card.regression else "classification",
        "graphs": len(dataset),
        "features": dataset.features,
        "seed": card.training.seed,
        "split": split,
        "epochs": len(outcome.epochs),
        "best_epoch": outcome.best_epoch.epoch,
        "best_epochs": list(outcome.best_epochs),  # of each member
        "interrupted": outcome.interrupted,
        "stopped_early": outcome.stopped_early,
        "stopped_by_callback": outcome.stopped_by_callback,
        "members": card.members,
        "parameters": sum(p.numel() for p in outcome.model.parameters()),
    }
    if not card.regression:
        report["classes"] = list(card.class_names)
        report["class_counts"] = {part: class_counts(dataset, g) for part, g in parts.items()}
    for part in ("validation", "test"):
        report[part] = outcome.metrics(part)
    return report | {
        "settings": {
            "architecture": asdict(card.architecture),
            "training": asdict(card.training),
            "directed": card.directed,
        },
        "seconds": round(outcome.seconds, 3),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": device_name(dataset.device),
        "system": platform.platform(),
        "versions": versions("numpy"),
    }


def write_report(out: str | Path, outcome: Outcome) -> None:
    """Write report.json and report.md to the model directory."""
    report = make_report(outcome)
    as_json, page = (Path(out) / name for name in FILES)
    write_json(as_json, report)
    with atomic_write(page) as temporary:
        temporary.write_text(as_markdown(report), encoding="utf-8")


def remove_report(out: str | Path) -> None:
    """Remove the report from the model directory, if there is one."""
    for name in FILES:
        with contextlib.suppress(OSError):
            (Path(out) / name).unlink(missing_ok=True)


def as_markdown(report: dict[str, Any]) -> str:
    """The report as a Markdown page."""
    split = report["split"]
    sizes = ", ".join(f"{split[part]} {part}" for part in PARTS)
    lines = [
        f"# {report['method']} on {_plain(report['dataset'])}",
        "",
        f"{report['graphs']} graphs: {sizes}; seed {report['seed']}. Features: {_plain(report['features'])}.",
        f"{_epochs(report)}.{_ending(report)} {report['seconds']:.1f} s on "
        f"{report['device']}; {report['parameters']:,} parameters; finished {report['finished']}.",
        "",
        "## Scores",
        "",
    ]
    names = ("accuracy", "balanced_accuracy", "macro_f1", "roc_auc", "mae", "rmse", "r2")
    columns = [name for name in names if name in (report["test"] or report["validation"] or {})]
    lines += _table(
        ["graphs", *columns],
        {
            part: [report[part]["graphs"], *(_number(report[part][name]) for name in columns)]
            for part in ("validation", "test")
            if report[part] is not None
        },
    )
    if report["task"] == "classification":
        lines += ["", "## Graphs per class", ""]
        counts = {
            part: list(counts_of_part.values())
            for part, counts_of_part in report["class_counts"].items()
        }
        lines += _table([str(name) for name in report["classes"]], counts)
        matrix = report["test"] and report["test"]["confusion"]
        if matrix and len(report["classes"]) <= LARGEST_MATRIX:
            lines += ["", "## Confusion matrix on the test graphs", ""]
            lines += ["Rows are true classes, columns are predicted classes.", ""]
            names_of_rows = [str(name) for name in report["classes"]]
            rows = dict(zip(names_of_rows, matrix, strict=True))
            lines += _table(names_of_rows, rows)
    lines += ["", "## Settings", ""]
    for kind in (Architecture, Training):
        group = kind.__name__.lower()
        shown = [f"{s.name} {_shown(s, report['settings'][group])}" for s in list_settings(kind)]
        lines.append(f"- {group}: {', '.join(shown)}")
    lines.append("- versions: " + ", ".join(f"{k} {v}" for k, v in report["versions"].items()))
    return "\n".join(lines) + "\n"


def _epochs(report: dict[str, Any]) -> str:
    best = report["best_epochs"]
    if len(best) == 1:
        return f"Best epoch: {best[0]} of {report['epochs']}"
    return (
        f"Ensemble of {len(best)} models; best epochs: {min(best)} to {max(best)} of {report['epochs']}. "
        "Each validation graph is predicted by the members that did not train on it"
    )


def early_stop(epochs: int, patience: int, monitor: str) -> str:
    """Why training stopped before its last epoch."""
    waited = "1 epoch" if patience == 1 else f"{patience} epochs"
    better = "lower validation loss" if monitor == "loss" else "higher validation accuracy"
    return f"stopped after epoch {epochs}: no {better} for {waited}"


def _ending(report: dict[str, Any]) -> str:
    """A sentence about training that ended before its last epoch."""
    training = report["settings"]["training"]
    if report["interrupted"]:
        return (
            f" Interrupted after epoch {report['epochs']} of {training['epochs']}: the best model so far. "
            "The same command with --resume continues."
        )
    if report["stopped_by_callback"]:
        return f" Stopped after epoch {report['epochs']} by a callback."
    if report["stopped_early"]:
        reason = early_stop(report["epochs"], training["patience"], training["monitor"])
        return f" {reason.capitalize()}."
    return ""


def _table(columns: list[str], rows: dict[str, list[Any]]) -> list[str]:
    lines = ["| | " + " | ".join(map(_plain, columns)) + " |", "|---" * (len(columns) + 1) + "|"]
    return lines + [
        f"| {_plain(name)} | " + " | ".join(map(str, row)) + " |" for name, row in rows.items()
    ]


def _shown(setting: Setting, values: dict[str, Any]) -> str:
    value = values[setting.name]
    if setting.name == "ratio":
        used = values["poolings"] > 0 and isinstance(values["clusters"], str)
        return f"{Architecture(**values).cluster_ratio:g}" if used else "not used"
    return setting.show(tuple(value) if isinstance(value, list) else value)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _plain(value: Any) -> str:
    """The value as text that can neither break a Markdown table nor control a terminal."""
    return printable(" ".join(str(value).split())).replace("|", "\\|")
