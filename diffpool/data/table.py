"""Lines of numbers separated by commas or blanks: the one syntax of all files of the TU collection."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Literal, NamedTuple

import numpy as np

from diffpool.backends.select import kernels
from diffpool.errors import DataError

Kind = Literal["int", "float"]
DTYPE = {"int": np.int64, "float": np.float64}
WHAT = {"int": "whole number", "float": "number"}

READ = 1 << 16  # bytes asked for at once: LZMA may give 7000 times as many
BLOCK = 1 << 22  # bytes parsed at once: numbers and text stay in the processor's cache
BOM = b"\xef\xbb\xbf"
# Possessive, so that a megabyte of digits or blanks is looked at once.
SEPARATOR = rb"(?:[ \t]*+,[ \t]*+|[ \t]++)"
INTEGER = rb"[+-]?[0-9]++(?:\.0*+)?+"  # some files have labels such as 1.0
REAL = rb"[+-]?(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+"
NUMBER = {"int": re.compile(INTEGER), "float": re.compile(REAL)}


def parse_table(text: bytes, file: str, kind: Kind, columns: int | None = None) -> np.ndarray:
    """[rows, columns]: the numbers of all lines that are not blank, int64 or float64.

    Every line has as many as the first one, or `columns`. Anything else is a DataError with the file and the line.
    """
    return read_table(io.BytesIO(text).read, file, kind, columns)


def read_table(
    read: Callable[[int], bytes], file: str, kind: Kind, columns: int | None = None
) -> np.ndarray:
    """`parse_table` of what `read` gives piece by piece, so that the text is never in memory as a whole."""
    parse = parse_with_numpy if kernels is None else parse_fast
    parts, lines = [], 0
    for text in _whole_lines(read):
        columns = columns or _columns(text)
        if not columns:  # nothing but blank lines so far
            lines += text.count(b"\n")
            continue
        numbers, here = parse(text, kind, columns)
        lines += here
        if numbers is None:
            line = text.split(b"\n", here)[here - 1]
            raise DataError(f"{file}, line {lines}: {_fault(line, kind, columns)}")
        parts.append(_compact(numbers))
    return _joined(parts, columns or 1, kind)


def line_of_row(text: bytes, row: int) -> int:
    """The number, from 1, of the line with this row, from 0; for a row too many the line after the last."""
    last = 0
    for number, line in enumerate(io.BytesIO(text.removeprefix(BOM)), 1):
        if line.strip(b" \t\r\n"):
            last = number
            row -= 1
        if row < 0:
            return number
    return last + 1


def _whole_lines(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """The text in blocks that end with a line, without the byte order mark at its start."""
    pieces, size = [read(READ).removeprefix(BOM)], 0
    while piece := read(READ):
        cut = piece.rfind(b"\n") + 1 if size >= BLOCK else 0
        if cut:
            yield b"".join([*pieces, piece[:cut]])
            pieces, size = [], 0
        pieces.append(piece[cut:])
        size += len(piece) - cut
    yield b"".join(pieces)


def _compact(numbers: np.ndarray) -> np.ndarray:
    """In half the memory where the numbers allow it, while the rest is read."""
    limits = np.iinfo(np.int32)
    small = numbers.dtype == np.int64 and (
        limits.min <= numbers.min(initial=0) and numbers.max(initial=0) <= limits.max
    )
    return numbers.astype(np.int32) if small else numbers.copy()  # of a larger array


def _joined(parts: list[np.ndarray], columns: int, kind: Kind) -> np.ndarray:
    """[rows, columns] of all parts; of integers, which are used by column, each column lies together."""
    rows = np.cumsum([0, *map(len, parts)])
    table = np.empty((rows[-1], columns), DTYPE[kind], order="F" if kind == "int" else "C")
    for start, part in zip(rows[:-1], parts, strict=True):
        table[start : start + len(part)] = part
    return table


# --- parsers of whole lines: all agree ---------------------------------------------------------------------------


class Parsed(NamedTuple):
    """`numbers` [rows, columns] and the lines they were in, or None and the line of the first fault."""

    numbers: np.ndarray | None
    lines: int


def parse_fast(text: bytes, kind: Kind, columns: int) -> Parsed:
    """With the C kernel: COLLAB's 24.6 million lines in 0.7 s."""
    assert kernels is not None
    room = (len(text) + 1) // 2  # a number and its separator are two bytes at least
    out = np.empty(room, DTYPE[kind])
    rows, lines = kernels.parse_lines(text, columns, kind == "float", out.ctypes.data, room)
    return Parsed(None if rows < 0 else out[: rows * columns].reshape(rows, columns), lines)


def parse_with_numpy(text: bytes, kind: Kind, columns: int) -> Parsed:
    """With NumPy, which accepts too much, where a pattern says that every line is as it should be: COLLAB in 8 s."""
    if not text.endswith(b"\n") or not _regular(kind, columns).fullmatch(text):
        return parse_slowly(text, kind, columns)
    flat: np.ndarray = np.fromstring(text.replace(b",", b" "), dtype=DTYPE[kind], sep=" ")
    if not np.isfinite(flat).all():
        return parse_slowly(text, kind, columns)
    return Parsed(flat.reshape(-1, columns), text.count(b"\n"))


def parse_slowly(text: bytes, kind: Kind, columns: int) -> Parsed:
    """Line by line: the definition of the syntax."""
    rows = []
    lines = text.removesuffix(b"\n").split(b"\n") if text else []
    for number, line in enumerate(lines, 1):
        fields = _fields(line)
        if not fields:
            continue
        values = [_value(field, kind) for field in fields]
        if len(values) != columns or None in values:
            return Parsed(None, number)
        rows.append(values)
    return Parsed(np.array(rows, DTYPE[kind]).reshape(-1, columns), len(lines))


def _fields(line: bytes) -> list[bytes]:
    line = line.removesuffix(b"\r").strip(b" \t")
    return re.split(SEPARATOR, line) if line else []


def _value(field: bytes, kind: Kind) -> int | float | None:
    """The number, or None if it is none or does not fit."""
    if not NUMBER[kind].fullmatch(field):
        return None
    if kind == "float":
        number = float(field)
        return number if np.isfinite(number) else None
    digits = field.split(b".")[0].lstrip(b"+-0")
    if len(digits) > 19:  # Python refuses thousands of them
        return None
    value = int(digits or b"0") * (-1 if field.startswith(b"-") else 1)
    return value if -(2**63) <= value < 2**63 else None


@cache
def _regular(kind: Kind, columns: int) -> re.Pattern[bytes]:
    """Lines without blank ones among them, with integers that fit in any case."""
    number = rb"[+-]?[0-9]{1,18}" if kind == "int" else REAL
    row = rb"[ \t]*+" + number + rb"(?:" + SEPARATOR + number + rb"){%d}" % (columns - 1)
    return re.compile(rb"(?:" + row + rb"[ \t]*+\r?\n)*+")


def _columns(text: bytes) -> int:
    """How many numbers there are in the first line that is not blank; 0 without one."""
    found = re.search(rb"[^ \t\r\n][^\n]*", text)
    return len(_fields(found[0])) if found else 0


# --- messages ----------------------------------------------------------------------------------------------------


def _fault(line: bytes, kind: Kind, columns: int) -> str:
    """What is wrong with the line."""
    what = f"{columns} {WHAT[kind]}{'s' if columns > 1 else ''}"
    shown = line.decode("ascii", "replace").strip()
    got = f"got {shown[:60] + '…' if len(shown) > 60 else shown!r}"
    mend = "correct the line or get the file again"
    if not line.isascii():
        return f"expected {what}, {got} with bytes that are not ASCII: is it another kind of file?"
    fields = _fields(line)
    wrong = next((f.decode() for f in fields if _value(f, kind) is None), None)
    if wrong is None:
        return f"expected {what}, {got} with {len(fields)}: {mend}"
    if wrong == "":
        return f"expected {what}, {got} with an empty field: {mend}"
    if re.fullmatch(r"[+-]?(nan|inf|infinity)", wrong, re.IGNORECASE):
        return f"expected {what}, {got} with {wrong}: replace what is not finite"
    if NUMBER[kind].fullmatch(wrong.encode()):
        limit = "64 bits" if kind == "int" else "the range of float64"
        return f"expected {what} within {limit}, {got}: {mend}"
    return f"expected {what}, {got}: {mend}"
