"""Tables of numbers: the syntax, the line of every fault, and a fast parser that agrees with the slow one."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from diffpool.data import table
from diffpool.data.table import (
    Kind,
    line_of_row,
    parse_fast,
    parse_slowly,
    read_table,
)
from diffpool.errors import DataError


def parse_table(text: bytes, file: str, kind: Kind, columns: int | None = None) -> np.ndarray:
    return read_table(io.BytesIO(text).read, file, kind, columns)


GOOD: dict[str, tuple[bytes, Kind, list[list[float]]]] = {
    "commas": (b"1,2\n3,4\n", "int", [[1, 2], [3, 4]]),
    "commas and blanks": (b"1, 2\n3 ,\t4\n", "int", [[1, 2], [3, 4]]),
    "blanks": (b"1 2\n3\t 4\n", "int", [[1, 2], [3, 4]]),
    "blanks at both ends": (b"  1, 2 \t\n\t3,4\n", "int", [[1, 2], [3, 4]]),
    "line ends of Windows": (b"1,2\r\n3,4\r\n", "int", [[1, 2], [3, 4]]),
    "no last line end": (b"1,2\n3,4", "int", [[1, 2], [3, 4]]),
    "half a line end of Windows": (b"1,2\n3,4\r", "int", [[1, 2], [3, 4]]),
    "blank lines": (b"\n \n1,2\n\t\n\r\n3,4\n\n\n", "int", [[1, 2], [3, 4]]),
    "a byte order mark": (b"\xef\xbb\xbf1,2\n3,4\n", "int", [[1, 2], [3, 4]]),
    "signs": (b"-1, +2\n-0, 007\n", "int", [[-1, 2], [0, 7]]),
    "integers with a point": (b"1.0\n-2.\n3.000\n", "int", [[1], [-2], [3]]),
    "the ends of 64 bits": (
        b"9223372036854775807\n-9223372036854775808\n",
        "int",
        [[2**63 - 1], [-(2**63)]],
    ),
    "many zeros": (b"0" * 5000 + b"7\n", "int", [[7]]),
    "a million digits": (b"0." + b"5" * 10**6 + b"\n", "float", [[5 / 9]]),
    "a million blanks": (b"1" + b" " * 10**6 + b"2" + b" " * 10**6 + b"\n", "int", [[1, 2]]),
    "nothing": (b"", "int", []),
    "blank lines only": (b"\n\n \n", "int", []),
    "reals": (b" 1.5, -2\n.5, 3e1\n", "float", [[1.5, -2], [0.5, 30]]),
    "reals of all forms": (b"+1. -.5E+2 1e-3 0e999\n", "float", [[1.0, -50.0, 0.001, 0.0]]),
    "reals beyond the exact path": (
        b"0.1234567890123456789\n1e38\n5e-324\n340282346638528859e21\n9007199254740993\n1e-999\n",
        "float",
        [[0.12345678901234568], [1e38], [5e-324], [3.4028234663852886e38], [2.0**53], [0.0]],
    ),
}


@pytest.mark.parametrize("case", GOOD)
def test_numbers_are_read_as_they_are_written(case: str) -> None:
    text, kind, expected = GOOD[case]
    numbers = parse_table(text, "X.txt", kind)
    assert numbers.tolist() == expected
    assert numbers.dtype == (np.int64 if kind == "int" else np.float64)
    assert numbers.ndim == 2


def test_the_sign_of_zero_is_kept() -> None:
    assert math.copysign(1, parse_table(b"-0.0\n", "X.txt", "float")[0, 0]) == -1


BAD: dict[str, tuple[bytes, Kind, str]] = {
    "a word": (b"1, 2\nx, 3\n", "int", "line 2: expected 2 integers, got 'x, 3'. Correct"),
    "a word in the first line": (b"a\n1\n", "int", "line 1: expected 1 integer, got 'a'"),
    "a word after blank lines": (b"\n1\n\n\nx\n", "int", "line 5: expected 1 integer"),
    "a fraction": (b"1.5\n", "int", "line 1: expected 1 integer, got '1.5'"),
    "a power of ten": (b"1e3\n", "int", "line 1: expected 1 integer, got '1e3'"),
    "fewer numbers": (b"1,2\n3\n", "int", "line 2: expected 2 integers, got '3' with 1"),
    "more numbers": (b"1\r\n2 3\r\n", "float", "line 2: expected 1 number, got '2 3' with 2"),
    "not a number": (b"0.5\nnan\n", "float", "line 2: expected 1 number, got 'nan' with nan. Repl"),
    "infinity": (
        b"0 -Inf\n",
        "float",
        "line 1: expected 2 numbers, got '0 -Inf' with -Inf. Replace",
    ),
    "a real beyond all": (
        b"1e999\n",
        "float",
        "line 1: expected 1 number within the range of float32",
    ),
    "an integer beyond 64 bits": (
        b"9223372036854775808\n",
        "int",
        "line 1: expected 1 integer within 64 bits, got '9223372036854775808'",
    ),
    "an integer below 64 bits": (b"-9223372036854775809\n", "int", "line 1: .*64 bits"),
    "thousands of digits": (b"1" * 5000, "int", "line 1: .*64 bits, got '1{60}…'"),
    "a million digits and a letter": (b"1" * 10**6 + b"x\n", "float", "line 1: expected 1 number"),
    "a million blanks and a letter": (b"1" + b" " * 10**6 + b"x\n", "int", "line 1: expected 2"),
    "an empty field": (b"1,,2\n", "int", "line 1: expected 3 .*got '1,,2' with an empty field"),
    "a comma at the end": (b"1,2\n1,2,\n", "int", "line 2: expected 2 .*'1,2,' with an empty"),
    "a comma at the start": (b"1,2\n,2\n", "int", "line 2: expected 2 .*',2' with an empty field"),
    "two commas": (b"1 2\n1 , , 2\n", "int", "line 2: .* with an empty field"),
    "letters outside ASCII": (
        b"1\n\xe9\n",
        "int",
        "line 2: .* with bytes that are not ASCII. Is this",
    ),
    "a byte order mark inside": (b"1\n\xef\xbb\xbf2\n", "int", "line 2: .* not ASCII"),
    "a zero byte": (b"1\n2\x003\n", "int", "line 2: expected 1 integer, got '2"),
    "a carriage return inside": (b"1\n2\r3\n", "int", "line 2: expected 1 integer, got '2"),
    "an underscore": (b"1_000\n", "int", "line 1: expected 1 integer, got '1_000'"),
    "another base": (b"0x10\n", "float", "line 1: expected 1 number, got '0x10'"),
    "a lonely sign": (b"1\n-\n", "int", "line 2: expected 1 integer, got '-'"),
    "a lonely point": (b"1\n.\n", "float", "line 2: expected 1 number, got '.'"),
    "half a power of ten": (b"1\n1e\n", "float", "line 2: expected 1 number, got '1e'"),
    "two points": (b"1.2.3\n", "float", "line 1: expected 1 number, got '1.2.3'"),
    "a semicolon": (b"1; 2\n", "int", "line 1: expected 2 integers, got '1; 2'"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_fault_is_an_error_with_the_file_and_the_line(case: str) -> None:
    text, kind, message = BAD[case]
    with pytest.raises(DataError, match=rf"^X\.txt, {message}"):
        parse_table(text, "X.txt", kind)


def test_the_number_of_columns_can_be_required() -> None:
    assert parse_table(b"", "X.txt", "int", columns=2).shape == (0, 2)
    with pytest.raises(DataError, match=r"X.txt, line 2: expected 2 integers, got '7' with 1"):
        parse_table(b"\n7\n8\n", "X.txt", "int", columns=2)


# --- the fast parser agrees with the slow one

PIECES = ["1", "23", "-4", "+5", "0", "6.0", "7.5", ".5", "1e3", "2E-30", "9" * 19, "9" * 25]
PIECES += ["nan", "inf", "x", "1e400", "-", ".", "e", "", "0.1234567890123456789", "1e22", "1e23"]
GLUE = [",", ", ", " ", "\t", " ,", ",,", "", "\n", "\n", "\r\n", "\r", "\n\n", " \n", "\0", "\xe9"]
texts = st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(GLUE)), max_size=12).map(
    lambda pairs: "".join(a + b for a, b in pairs).encode("latin-1")
)
regular = st.tuples(  # read by the fastest path, unless a number has too many digits
    st.integers(1, 3),
    st.sampled_from([",", ", ", " ", " ,", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
).flatmap(
    lambda form: st.lists(
        st.lists(
            st.integers(0, 10**19) | st.integers(0, 99), min_size=form[0], max_size=form[0]
        ).map(lambda row: form[1].join(map(str, row)) + form[2]),
        max_size=6,
    ).map(lambda lines: "".join(lines).encode())
)
rows = st.integers(1, 3).flatmap(
    lambda columns: st.lists(
        st.lists(st.sampled_from(PIECES[:10]), min_size=columns, max_size=columns).map(", ".join),
        max_size=6,
    ).map(lambda lines: "".join(line + "\n" for line in lines).encode())
)


def changed(text: bytes) -> st.SearchStrategy[bytes]:
    """The text with one byte replaced, inserted or removed."""
    return st.tuples(
        st.integers(0, len(text)), st.integers(0, 1), st.sampled_from([*",; \t\r\n-+.0a", ""])
    ).map(lambda edit: text[: edit[0]] + edit[2].encode() + text[edit[0] + edit[1] :])


@settings(max_examples=1000)
@given(
    text=texts | rows | regular | regular.flatmap(changed) | st.binary(max_size=12),
    kind=st.sampled_from(["int", "float"]),
    columns=st.integers(1, 3),
)
@example(text=b"1,2", kind="int", columns=1)
@example(text=b"1\n2\n", kind="int", columns=2)
@example(text=b"1\n2 3\n4\n", kind="int", columns=2)
@example(text=b"1 2\n3 4\n", kind="int", columns=1)
@example(text=b"999999999999999999\n9999999999999999999\n", kind="int", columns=1)
@example(text=b"1\r", kind="int", columns=1)
@example(text=b"1\r\r\n", kind="int", columns=1)
def test_the_fast_parser_agrees_with_the_slow_one(text: bytes, kind: Kind, columns: int) -> None:
    expected, got = parse_slowly(text, kind, columns), parse_fast(text, kind, columns)
    assert got.lines == expected.lines
    if expected.numbers is None:
        assert got.numbers is None
    else:
        assert got.numbers is not None
        assert got.numbers.dtype == expected.numbers.dtype
        assert got.numbers.shape == expected.numbers.shape
        assert got.numbers.tobytes() == expected.numbers.tobytes()


@settings(max_examples=300)
@given(
    numbers=st.lists(st.floats(-1e38, 1e38), min_size=1, max_size=8),
    form=st.sampled_from(["{!r}", "{:.3f}", "{:.17e}", "{:.6g}", "{:.25f}"]),
)
def test_a_real_is_the_nearest_to_its_digits(numbers: list[float], form: str) -> None:
    words = [form.format(number) for number in numbers]
    parsed = parse_fast("".join(word + "\n" for word in words).encode(), "float", 1).numbers
    assert parsed is not None
    assert parsed[:, 0].tobytes() == np.array([float(word) for word in words]).tobytes()


@settings(max_examples=200)
@given(text=texts | rows, sizes=st.tuples(st.integers(1, 9), st.integers(0, 9)))
@example(text=b"\xef\xbb\xbf1\n2\n", sizes=(4, 1))
def test_the_size_of_blocks_does_not_change_the_result(text: bytes, sizes: tuple[int, int]) -> None:
    def outcome() -> str:
        try:
            return str(read_table(io.BytesIO(text).read, "X.txt", "int").tolist())
        except DataError as error:
            return str(error)

    whole = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "READ", sizes[0])
        patch.setattr(table, "BLOCK", sizes[1])
        assert outcome() == whole


def test_blocks_of_32_and_64_bits_can_be_joined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table, "READ", 4)
    monkeypatch.setattr(table, "BLOCK", 1)
    numbers = [1, 2, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**62, 3]
    text = "".join(f"{number}\n" for number in numbers).encode()
    assert parse_table(text, "X.txt", "int")[:, 0].tolist() == numbers


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"1\n2\n3\n", [1, 2, 3, 4]),
        (b"\n1\n \n\r\n2\n\n3", [2, 5, 7, 8]),
        (b"\xef\xbb\xbf\n1\n", [2, 3]),
        (b"", [1]),
    ],
)
def test_the_line_of_a_row_counts_blank_lines(text: bytes, lines: list[int]) -> None:
    """The last number is for the row after the end."""
    assert [line_of_row(text, row) for row in range(len(lines))] == lines
