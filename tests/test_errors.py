"""The parts of error messages that are the same everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from diffpool.errors import MAX_SHOWN, cut, shortened


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "'a'"),
        ([1, 2], "[1, 2]"),
        ("two\nlines", r"'two\nlines'"),
        (10**5000, "an integer of 16610 bits"),
        ("x" * 500, "'" + "x" * (MAX_SHOWN - 2) + "…"),
    ],
    ids=["word", "list", "lines", "digits", "long"],
)
def test_a_value_is_shown_as_in_python(value: Any, text: str) -> None:
    assert shortened(value) == text


@pytest.mark.parametrize(
    "value",
    ["x" * 10**6, [[0] * 1000] * 1000, np.zeros((50, 50)), {str(i): i for i in range(999)}],
    ids=["word", "list", "array", "dictionary"],
)
def test_a_long_value_is_one_short_line(value: Any) -> None:
    shown = shortened(value)
    assert len(shown) <= MAX_SHOWN
    assert "\n" not in shown


def test_long_text_is_cut() -> None:
    assert cut("short") == "short"
    assert cut("several\n  lines") == "several lines"
    assert cut("x" * 999, 10) == "x" * 9 + "…"
