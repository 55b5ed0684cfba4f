"""The committed program of the page belongs to the sources in web/."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from diffpool.explorer.page import asset, assets, document

ROOT = Path(__file__).parent.parent.parent
WEB = ROOT / "web"
BESIDES = ("build.mjs", "package.json", "package-lock.json", "tsconfig.json")


def digest_of_sources() -> str:
    """As web/build.mjs computes it."""
    names = [f"src/{path.name}" for path in (WEB / "src").iterdir()] + list(BESIDES)
    digest = hashlib.sha256()
    for name in sorted(names):
        digest.update(f"{name}\n".encode())
        digest.update((WEB / name).read_bytes())
    return digest.hexdigest()


@pytest.mark.parametrize("name", ["page.js", "live.js", "results.js", "page.css", "results.css"])
def test_the_bundle_was_built_from_these_sources(name: str) -> None:
    found = re.match(r"/\* sources ([0-9a-f]{64})", asset(name))
    assert found
    assert found[1] == digest_of_sources(), "run `make page`, and commit diffpool/explorer/assets"


def test_the_bundle_cannot_end_its_element_and_carries_the_licenses() -> None:
    script, style = assets()
    assert "</script" not in script.lower()
    assert "<!--" not in script
    assert "</style" not in style.lower()
    for name in ("sigma", "graphology"):
        assert re.search(rf"^{name} \d+\.\d+\.\d+$", script, re.MULTILINE)
    assert script.count("Permission is hereby granted") >= 4


def test_the_program_runs_no_text_and_writes_no_markup() -> None:
    """In the sources, and no dynamic code in the bundle."""
    for path in (WEB / "src").glob("*.ts"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|new Function",
            path.read_text(),
        )
    script, _ = assets()
    assert not re.search(r"\beval\(|new Function|XMLHttpRequest|WebSocket|\bfetch\(", script)


def test_only_the_page_of_a_training_can_ask_a_server() -> None:
    assert asset("live.js").count("fetch(") == 1
    assert "connect-src 'self'" in document(live=True).policy
    assert "connect-src" not in document().policy


def test_modules_are_short() -> None:
    for path in (WEB / "src").glob("*.ts"):
        assert len(path.read_text().splitlines()) <= 230, path.name
