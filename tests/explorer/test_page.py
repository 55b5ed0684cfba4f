"""The HTML file: one document, a strict policy, and data that stays data."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from html.parser import HTMLParser
from typing import Any

import pytest

from diffpool.explorer.page import embedded, packed, page

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "<img src=x onerror=alert(1)>",
    "\"'><svg/onload=alert(1)>",
    "\u2028\u2029\x00\ud800",
    "&lt;b&gt; {{constructor}} ${alert(1)} javascript:alert(1)",
)


class Elements(HTMLParser):
    """The start tags of a document, and the text of its elements."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.texts.append("")
        self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.texts[-1] += data


def document(title: str, overview: dict[str, Any], graphs: list[str | None]) -> Elements:
    return Elements("".join(page(title, overview, graphs)))


def test_strings_in_the_data_add_no_element() -> None:
    plain = document("a", {"names": ["b"]}, [packed("c"), None])
    hostile = document(HOSTILE[0], {"names": HOSTILE}, [packed(HOSTILE), None])
    assert [tag for tag, _ in plain.tags] == [tag for tag, _ in hostile.tags]
    assert [attributes.get("id") for _, attributes in hostile.tags][-3:] == [
        "overview",
        "graph-0",
        None,
    ]


@pytest.mark.parametrize("text", HOSTILE)
def test_strings_survive_both_forms(text: str) -> None:
    assert json.loads(embedded([text])) == [text]
    assert "<" not in embedded({text: text})
    found = packed([text])
    assert re.fullmatch("[A-Za-z0-9+/=]*", found)
    assert json.loads(zlib.decompress(base64.b64decode(found))) == [text]


def test_the_policy_permits_this_script_and_style_and_nothing_else() -> None:
    found = document("a", {}, [])
    policy = next(
        attributes["content"]
        for _, attributes in found.tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    for (tag, attributes), text in zip(found.tags, found.texts, strict=True):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        if tag == "style":
            assert parts.pop("style-src") == f"'sha256-{digest}'"
        elif tag == "script" and not attributes:
            assert parts.pop("script-src") == f"'sha256-{digest}'"
    assert parts == {"default-src": "'none'", "base-uri": "'none'", "form-action": "'none'"}


def test_the_document_loads_nothing_and_has_no_inline_style_or_handler() -> None:
    for _, attributes in document("a", {"b": 1}, [packed(1)]).tags:
        assert not {"src", "href", "style"} & attributes.keys()
        assert not [name for name in attributes if name.startswith("on")]


def test_the_title_is_text() -> None:
    found = document("<b>&amp;", {}, [])
    index = next(i for i, (tag, _) in enumerate(found.tags) if tag == "title")
    assert found.texts[index].strip() == "<b>&amp;"


def test_numbers_that_json_lacks_are_an_error() -> None:
    with pytest.raises(ValueError, match="JSON"):
        packed([float("nan")])
