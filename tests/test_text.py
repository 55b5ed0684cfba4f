"""Text that a terminal must not obey."""

from __future__ import annotations

import io

import pytest

from diffpool.text import PrintableFile, printable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain, ü, 日本", "plain, ü, 日本"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("\x1b[2J\x07\r\x7f\x9b", "\\x1b[2J\\x07\\r\\x7f\\x9b"),
        ("a\u202eb\u2066", "a\\u202eb\\u2066"),
        ("\ud800", "\\ud800"),
    ],
)
def test_control_characters_are_escapes(text: str, expected: str) -> None:
    assert printable(text) == expected


def test_lines_for_a_terminal_end_as_they_should() -> None:
    text = io.StringIO()
    file = PrintableFile(text)
    for line in ("a,b\r\n", "\x1b,\r\r\n", "end\n", "no end"):
        file.write(line)
    file.flush()
    assert text.getvalue() == "a,b\n\\x1b,\\r\nend\nno end"
