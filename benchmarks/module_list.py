"""The list of all modules in docs/architecture.md, with the first line of each docstring."""

from __future__ import annotations

import ast
from pathlib import Path

import diffpool

PACKAGE = Path(diffpool.__file__).parent


def module_list() -> str:
    """A line for each module with a docstring."""
    lines = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if docstring := ast.get_docstring(ast.parse(path.read_text())):
            name = str(path.relative_to(PACKAGE))
            lines.append(f"{name:45} {docstring.splitlines()[0].rstrip('.:')}")
    return "\n".join(["", "```text", *lines, "```", ""])
