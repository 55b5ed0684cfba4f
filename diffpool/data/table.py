"""Tables of numbers separated by commas or spaces: the syntax of every file of the TU collection."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Literal, NamedTuple

import numpy as np

from diffpool.data.raw import MAX_FLOAT
from diffpool.errors import DataError

Kind = Literal["int", "float"]
DTYPE = {"int": np.int64, "float": np.float64}
WHAT = {"int": "integer", "float": "number"}

READ = 1 << 16  # bytes requested at once, because LZMA can expand them 7000 times
BLOCK = 1 << 20  # bytes parsed at once: the arrays of a block fit into the processor's cache
BOM = b"\xef\xbb\xbf"
# Possessive quantifiers, so that a megabyte of digits or blanks takes linear time.
SEPARATOR = rb"(?:[ \t]*+,[ \t]*+|[ \t]++)"
INTEGER = rb"[+-]?[0-9]++(?:\.0*+)?+"  # some files have labels such as 1.0
REAL = rb"[+-]?(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+"
NUMBER = {"int": re.compile(INTEGER), "float": re.compile(REAL)}


def read_table(
    read: Callable[[int], bytes], file: str, kind: Kind, columns: int | None = None
) -> np.ndarray:
    """[rows, columns]: the numbers of all lines that are not blank, as int64 or float64.

    `read` returns the text in pieces, so that it is never entirely in memory. Every line must have as many numbers as
    the first one, or `columns`. Anything else raises a DataError that names the file and the line.
    """
    parts, lines = [], 0
    for text in _whole_lines(read):
        columns = columns or _columns(text)
        if not columns:  # only blank lines so far
            lines += text.count(b"\n")
            continue
        numbers, here = parse_fast(text, kind, columns)
        lines += here
        if numbers is None:
            line = text.split(b"\n", here)[here - 1]
            raise DataError(f"{file}, line {lines}: {_fault(line, kind, columns)}")
        parts.append(_compact(numbers))
    return _joined(parts, columns or 1, kind)


def line_of_row(text: bytes, row: int) -> int:
    """The line number (from 1) of a row (from 0); for a row past the end, the number of the line after the last."""
    last = 0
    for number, line in enumerate(io.BytesIO(text.removeprefix(BOM)), 1):
        if line.strip(b" \t\r\n"):
            last = number
            row -= 1
        if row < 0:
            return number
    return last + 1


def _whole_lines(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """The text in blocks of whole lines, without the byte order mark at its start."""
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
    """The same numbers as int32 if they fit, to save memory while the rest is read."""
    limits = np.iinfo(np.int32)
    fits = numbers.dtype == np.int64 and (
        limits.min <= numbers.min(initial=0) and numbers.max(initial=0) <= limits.max
    )
    return numbers.astype(np.int32) if fits else numbers


def _joined(parts: list[np.ndarray], columns: int, kind: Kind) -> np.ndarray:
    """[rows, columns] of all parts. Integers are stored by column, because they are used by column."""
    rows = np.cumsum([0, *map(len, parts)])
    table = np.empty((rows[-1], columns), DTYPE[kind], order="F" if kind == "int" else "C")
    for start, part in zip(rows[:-1], parts, strict=True):
        table[start : start + len(part)] = part
    return table


# --- parsing whole lines: `parse_slowly` defines the syntax, `parse_fast` agrees with it


class Parsed(NamedTuple):
    """The numbers [rows, columns] and the count of lines; or None and the line number of the first fault."""

    numbers: np.ndarray | None
    lines: int


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


def parse_fast(text: bytes, kind: Kind, columns: int) -> Parsed:
    """The same, with NumPy where the lines are regular, as in most files."""
    numbers = _unsigned_integers(text, columns) if kind == "int" else None
    if numbers is None and text.endswith(b"\n") and _regular(kind, columns).fullmatch(text):
        # `fromstring` alone would accept too much
        flat: np.ndarray = np.fromstring(text.replace(b",", b" "), DTYPE[kind], sep=" ")
        fits = kind == "int" or bool((np.abs(flat) <= MAX_FLOAT).all())
        numbers = flat.reshape(-1, columns) if fits else None
    if numbers is None:
        return parse_slowly(text, kind, columns)
    return Parsed(numbers, text.count(b"\n"))


def _unsigned_integers(text: bytes, columns: int) -> np.ndarray | None:
    """The integers of lines such as `12, 3`, without signs or blank lines; None for any other text.

    Four times as fast as the regular expression: COLLAB has 24.6 million lines.
    """
    chars = np.frombuffer(text, np.uint8)
    digits = chars - np.uint8(ord("0"))  # others wrap around to more than 9
    is_digit = digits < 10
    if not text.endswith(b"\n") or not is_digit[0]:
        return None
    edges = np.flatnonzero(is_digit[1:] != is_digit[:-1]) + 1
    end, after = edges[0::2], np.append(edges[1::2], len(chars))  # of each number and its gap
    if len(end) % columns:
        return None
    length = end - np.concatenate([[0], after[:-1]])
    if length.max() > 18:  # may exceed 64 bits
        return None
    gap, first, last = (
        values.reshape(-1, columns) for values in (after - end, chars[end], chars[after - 1])
    )
    comma, blank, carriage_return, newline = b", \r\n"
    one, two = gap == 1, gap == 2
    separated = (one & ((first == comma) | (first == blank))) | (
        two & (first == comma) & (last == blank)
    )
    ended = (last == newline) & (one | (two & (first == carriage_return)))
    if not separated[:, :-1].all() or not ended[:, -1].all():
        return None
    numbers = np.zeros(len(end), np.int64)
    for power in range(length.max()):
        # the factor (length > power) excludes characters before a shorter number
        numbers += digits[end - 1 - power] * (length > power) * np.int64(10**power)
    return numbers.reshape(-1, columns)


def _fields(line: bytes) -> list[bytes]:
    line = line.removesuffix(b"\r").strip(b" \t")
    return re.split(SEPARATOR, line) if line else []


def _value(field: bytes, kind: Kind) -> int | float | None:
    """The number, or None if the field is not a number or out of range."""
    if not NUMBER[kind].fullmatch(field):
        return None
    if kind == "float":
        number = float(field)
        return number if abs(number) <= MAX_FLOAT else None
    digits = field.split(b".")[0].lstrip(b"+-0")
    if len(digits) > 19:  # Python refuses to parse thousands of digits
        return None
    value = int(digits or b"0") * (-1 if field.startswith(b"-") else 1)
    return value if -(2**63) <= value < 2**63 else None


@cache
def _regular(kind: Kind, columns: int) -> re.Pattern[bytes]:
    """Lines of numbers, none of them blank; integers are short enough to fit into 64 bits."""
    number = rb"[+-]?[0-9]{1,18}" if kind == "int" else REAL
    row = rb"[ \t]*+" + number + rb"(?:" + SEPARATOR + number + rb"){%d}" % (columns - 1)
    return re.compile(rb"(?:" + row + rb"[ \t]*+\r?\n)*+")


def _columns(text: bytes) -> int:
    """The number of fields in the first line that is not blank; 0 if there is none."""
    found = re.search(rb"[^ \t\r\n][^\n]*", text)
    return len(_fields(found[0])) if found else 0


# --- messages


def _fault(line: bytes, kind: Kind, columns: int) -> str:
    """The message about a line."""
    what = f"{columns} {WHAT[kind]}{'s' if columns > 1 else ''}"
    shown = line.decode("ascii", "replace").strip()
    got = f"got {shown[:60] + '…' if len(shown) > 60 else shown!r}"
    fix = "Correct the line, or download the file again."
    if not line.isascii():
        return (
            f"expected {what}, {got} with bytes that are not ASCII. Is this another kind of file?"
        )
    fields = _fields(line)
    wrong = next((f.decode() for f in fields if _value(f, kind) is None), None)
    if wrong is None:
        return f"expected {what}, {got} with {len(fields)}. {fix}"
    if wrong == "":
        return f"expected {what}, {got} with an empty field. {fix}"
    if re.fullmatch(r"[+-]?(nan|inf|infinity)", wrong, re.IGNORECASE):
        return f"expected {what}, {got} with {wrong}. Replace values that are not finite."
    if NUMBER[kind].fullmatch(wrong.encode()):
        limit = "64 bits" if kind == "int" else "the range of float32"
        return f"expected {what} within {limit}, {got}. {fix}"
    return f"expected {what}, {got}. {fix}"
