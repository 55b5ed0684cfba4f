"""Tables as Markdown, CSV and JSON. The page is in `diffpool.explorer`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

FORMATS = ("text", "md", "csv", "json", "html")


class Shown(Protocol):
    """What a table needs to be written."""

    @property
    def name(self) -> str: ...
    @property
    def caption(self) -> str: ...
    @property
    def header(self) -> list[str]: ...
    @property
    def lines(self) -> list[list[str]]: ...
    @property
    def facts(self) -> list[dict[str, Any]]: ...
    @property
    def notes(self) -> Sequence[str]: ...


@dataclass(frozen=True)
class PlainTable:
    """A table whose cells are text."""

    name: str
    caption: str
    header: list[str]
    lines: list[list[str]]
    facts: list[dict[str, Any]] = field(default_factory=list)
    notes: tuple[str, ...] = ()


def as_markdown(tables: Sequence[Shown]) -> str:
    """The tables as GitHub Markdown, each between its caption and its notes."""
    parts = []
    for table in tables:
        lines = [f"**{_plain(table.caption)}**", ""] if table.caption else []
        if table.header:
            lines += [_md_row(table.header), "|" + "---|" * len(table.header)]
            lines += [_md_row(line) for line in table.lines]
        lines += ["", *(f"- {_plain(note)}" for note in table.notes)] if table.notes else []
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def as_csv(tables: Sequence[Shown]) -> str:
    """One line for each number."""
    facts = [fact for table in tables for fact in table.facts]
    names = list(dict.fromkeys(name for fact in facts for name in fact))
    file = io.StringIO()
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(facts)
    return file.getvalue()


def as_json(tables: Sequence[Shown]) -> str:
    """A list of tables, each with its caption, notes and numbers."""
    found = [
        {"name": t.name, "caption": t.caption, "notes": list(t.notes), "numbers": t.facts}
        for t in tables
    ]
    return json.dumps(found, allow_nan=False, ensure_ascii=False, indent=1) + "\n"


WRITERS = {"md": as_markdown, "csv": as_csv, "json": as_json}


def _md_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_plain, cells))} |"


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
