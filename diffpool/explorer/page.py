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
from importlib.resources import files
from typing import Any

POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; "
    "base-uri 'none'; form-action 'none'"
)


def assets() -> tuple[str, str]:
    """The program and the style of the page."""
    folder = files("diffpool.explorer") / "assets"
    script, style = (
        (folder / name).read_text("utf-8").replace("\r\n", "\n") for name in ("page.js", "page.css")
    )
    return script, style


def page(title: str, overview: dict[str, Any], graphs: Iterable[str | None]) -> Iterator[str]:
    """The parts of the file. `graphs` are the details of each graph, as `packed` returns them."""
    script, style = assets()
    policy = POLICY.format(script=_digest(script), style=_digest(style))
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{html.escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<div id="app"><noscript>This page needs JavaScript, which is part of the file.</noscript></div>\n'
        f'<script type="application/json" id="overview">{embedded(overview)}</script>\n'
    )
    for number, graph in enumerate(graphs):
        if graph is not None:
            yield f'<script type="text/plain" id="graph-{number}">{graph}</script>\n'
    yield f"<script>{script}</script>\n</body>\n</html>\n"


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
