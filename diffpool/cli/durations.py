"""Durations on the command line: how they are given and how they are shown."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import typer

from diffpool.errors import SettingError, shortened

UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600}  # in seconds
PLAIN = {"s": "seconds", "m": "minutes"}  # units of a number without one


def max_time_option(text: str, plain: str) -> Any:
    """The option `--max-time`, in seconds; a number without a unit is in the unit `plain`."""
    return typer.Option(
        "--max-time",
        help=f"{text} For example `90s`, `15m` or `2h`; a number alone is in {PLAIN[plain]}.",
        metavar="TIME",
        show_default="no limit",
        parser=duration_parser("--max-time", plain),
    )


def duration_parser(option: str, plain: str) -> Callable[[str], float]:
    """A function that reads the duration given to an option and returns it in seconds."""

    def parse(text: str) -> float:
        number, unit = re.fullmatch(r"(.*?)\s*(s|m|min|h)?\s*", text, re.I | re.S).groups()  # type: ignore[union-attr]
        try:
            seconds = float(number) * UNITS[(unit or plain).lower()]
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < math.inf:
            raise SettingError(
                f"expected {option} to be a time above 0, such as 90s, 15m or 2h (a number alone is in "
                f"{PLAIN[plain]}), got {shortened(text)}"
            )
        return seconds

    return parse


def duration(seconds: float) -> str:
    """The duration in the largest unit that suits it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
