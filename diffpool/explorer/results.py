"""The results page: tables from records, sortable and filtered, as one HTML file under the policy of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from diffpool.experiments.reproduce.render import Shown
from diffpool.explorer.page import Document, asset, embedded

ACCURACY = {
    "protocol",
    "method",
    "mean",
    "sd",
    "published",
}  # in the facts of a table of accuracies


def results_page(tables: Sequence[Shown]) -> str:
    """A page with these tables; it opens from disk, without a network.

    Tables of accuracies have error bars and the published numbers; the cells of the others are text.
    """
    found = Document((asset("results.js"),), asset("results.css"))
    values = [_values(table) for table in tables]
    data = f'<script type="application/json" id="tables">{embedded(values)}</script>\n'
    return "".join(found.parts("diffpool: results", [data]))


def _values(table: Shown) -> dict[str, Any]:
    accuracies = [fact for fact in table.facts if fact.keys() >= ACCURACY]
    caption = table.caption
    if accuracies:
        caption = caption.replace("in parentheses", "below it")
    return {
        "name": table.name,
        "caption": caption,
        "header": table.header,
        "lines": [] if accuracies else table.lines,
        "notes": list(table.notes),
        "facts": [
            {name: value for name, value in fact.items() if name != "key"} for fact in accuracies
        ],
    }
