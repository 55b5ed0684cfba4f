"""Text that a terminal must not obey."""

from __future__ import annotations

import io

import pytest

from diffpool.text import PrintableFile, csv_cell, printable


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


def test_text_that_a_spreadsheet_program_would_execute_gets_an_apostrophe() -> None:
    words = ("=x", "+x", "@x", "-x", "\tx", "\rx")
    assert [csv_cell(word) for word in words] == [f"'{word}" for word in words]
    others = ("-1", "+1e5", "a=b", "", -1.0, None)
    assert [csv_cell(value) for value in others] == list(others)


def test_lines_for_a_terminal_end_as_they_should() -> None:
    text = io.StringIO()
    file = PrintableFile(text)
    for line in ("a,b\r\n", "\x1b,\r\r\n", "end\n", "no end"):
        file.write(line)
    file.flush()
    assert text.getvalue() == "a,b\n\\x1b,\\r\nend\nno end"
