"""A browser for the tests of the page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
REQUIRED = "DIFFPOOL_REQUIRE_BROWSER"  # if it is set, a missing browser is an error


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """An installed Chromium, driven by Playwright; WebGL is computed on the CPU."""
    executable = next(filter(None, map(shutil.which, NAMES)), None)
    missing = "Chromium" if executable is None else "Playwright"
    if executable is None or find_spec("playwright") is None:
        if os.environ.get(REQUIRED):
            pytest.fail(f"{REQUIRED} is set, but {missing} is not installed")
        pytest.skip(f"{missing} is not installed")
    from playwright.sync_api import sync_playwright

    options = ["--no-sandbox", "--enable-unsafe-swiftshader"]
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=executable, args=options)
        yield opened
        opened.close()
