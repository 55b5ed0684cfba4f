"""Text that is safe to show: names in the data must not control the terminal or a spreadsheet program."""

from __future__ import annotations

import re
from typing import Any, TextIO

# Control characters, and characters that reverse the direction of text: a terminal would act on them.
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """The text with control characters as escapes such as \\x1b."""
    return UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], text)


def csv_cell(value: Any) -> Any:
    """The value; text that a spreadsheet program would execute as a formula is prefixed with an apostrophe."""
    if not isinstance(value, str) or value[:1] not in ("=", "+", "-", "@", "\t", "\r"):
        return value
    try:
        float(value)  # -1 and +0.5 are numbers
    except ValueError:
        return f"'{value}"
    return value


class PrintableFile:
    """Writes lines to a terminal, with control characters as escapes. A line ends with \\n or \\r\\n."""

    def __init__(self, file: TextIO):
        self.file = file

    def write(self, line: str) -> int:
        body = line.removesuffix("\n")
        end = line[len(body) :]
        return self.file.write(printable(body.removesuffix("\r") if end else body) + end)

    def flush(self) -> None:
        self.file.flush()
