"""Explanations as files: JSON lines with everything, or CSV with one score per row."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from diffpool.attribution.explanation import Explanation
from diffpool.errors import SettingError
from diffpool.files import atomic_write
from diffpool.text import csv_cell

FORMS = (".jsonl", ".csv")
COLUMNS = ("graph", "target", "output", "level", "what", "node", "other", "score", "share")


def check_explanations_file(path: Path) -> None:
    """Raise an error unless explanations can be written to this file."""
    if path.suffix not in FORMS:
        raise SettingError(
            f"expected --out to end in {' or '.join(FORMS)}, got {path}: write {path.with_suffix('.jsonl')}"
        )
    if path.is_dir() or not path.resolve().parent.is_dir():
        raise SettingError(
            f"expected --out to be a file in a folder that exists, got {path}: create the folder first"
        )


def write_explanations(explanations: Iterable[Explanation], path: str | Path) -> list[Explanation]:
    """Write each explanation as it is computed and return all; the file appears when it is complete."""
    path = Path(path)
    check_explanations_file(path)
    found = []
    with atomic_write(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        if path.suffix == ".csv":
            rows.writerow(COLUMNS)
        for explanation in explanations:
            found.append(explanation)
            if path.suffix == ".csv":
                rows.writerows(_rows(explanation))
            else:
                file.write(json.dumps(explanation.to_json()) + "\n")
    return found


def _rows(explanation: Explanation) -> Iterator[tuple[object, ...]]:
    """A row for each node, cluster and edge."""
    own = explanation
    name = own.target if own.target_name is None else own.target_name
    first = (own.graph, csv_cell(name), f"{own.output:.6g}")
    for number, level in enumerate(own.levels):
        what = "cluster" if number else "node"
        for node, (score, share) in enumerate(zip(level.nodes, level.shares, strict=True)):
            yield (*first, number, what, node, "", f"{score:.6g}", f"{share:.6g}")
        for (source, target), score in zip(level.edges.T.tolist(), level.edge_scores, strict=True):
            yield (*first, number, "edge", source, target, f"{score:.6g}", "")
