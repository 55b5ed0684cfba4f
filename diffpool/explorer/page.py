"""The page as one HTML file: program, style and data, under a policy that permits nothing else.

Data cannot become markup or script. It is JSON in which `<` is written as an escape, or compressed and in base64; the
program inserts it as text only. The policy names the program and the style by their SHA-256 and forbids everything
else: other scripts, images, and any access to a network.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from diffpool.text import printable


@dataclass(frozen=True)
class Document:
    """A page without its data: scripts, style, and the policy that permits these."""

    scripts: tuple[str, ...]
    style: str
    connects: bool = False  # to where it comes from

    @property
    def policy(self) -> str:
        scripts = " ".join(f"'sha256-{_digest(script)}'" for script in self.scripts)
        connect = "connect-src 'self'; " if self.connects else ""
        return (
            f"default-src 'none'; script-src {scripts}; style-src 'sha256-{_digest(self.style)}'; "
            f"{connect}base-uri 'none'; form-action 'none'"
        )

    def parts(self, title: str, data: Iterable[str]) -> Iterator[str]:
        """The parts of the file. `data`: elements with data, which are not escaped."""
        yield (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{self.policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="referrer" content="no-referrer">\n'
            f"<title>{html.escape(printable(title))}</title>\n<style>{self.style}</style>\n</head>\n<body>\n"
            '<div id="app"><noscript>This page needs JavaScript, which is part of the file.</noscript></div>\n'
        )
        yield from data
        for script in self.scripts:
            yield f"<script>{script}</script>\n"
        yield "</body>\n</html>\n"


def asset(name: str) -> str:
    """One of the files that web/ is bundled into."""
    file = files("diffpool.explorer") / "assets" / name
    return file.read_text("utf-8").replace("\r\n", "\n")


def assets() -> tuple[str, str]:
    """The program and the style of the page."""
    return asset("page.js"), asset("page.css")


def page(title: str, overview: dict[str, Any], graphs: Iterable[str | None]) -> Iterator[str]:
    """The parts of the file. `graphs` are the details of each graph, as `packed` returns them."""
    yield from document().parts(title, _elements(overview, graphs))


def document(live: bool = False) -> Document:
    """The page; `live`: with the program that asks the server for changes."""
    script, style = assets()
    return Document((asset("live.js"), script) if live else (script,), style, connects=live)


def overview_element(overview: dict[str, Any]) -> str:
    """The element with the overview of all graphs."""
    return f'<script type="application/json" id="overview">{embedded(overview)}</script>\n'


def _elements(overview: dict[str, Any], graphs: Iterable[str | None]) -> Iterator[str]:
    yield overview_element(overview)
    for number, graph in enumerate(graphs):
        if graph is not None:
            yield f'<script type="text/plain" id="graph-{number}">{graph}</script>\n'


def embedded(values: Any) -> str:
    """The values as JSON that cannot end the element that it is in."""
    found = json.dumps(values, allow_nan=False, separators=(",", ":"))  # ASCII only
    return found.replace("<", "\\u003c")


def packed(values: Any) -> str:
    """The values as JSON, compressed by zlib, in base64."""
    found = json.dumps(values, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(found.encode(), 6)).decode()


def _digest(content: str) -> str:
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
