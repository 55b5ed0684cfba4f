"""Settings are declared once, as fields of dataclasses.

A field made by `setting` carries its default, help and valid values. Checks, command-line options, estimator
parameters, `--set`, `--grid` and docs/settings.md are generated from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from functools import lru_cache
from numbers import Integral, Real
from types import NoneType
from typing import Any, get_args, get_type_hints

from diffpool.errors import SettingError, did_you_mean

_KEY = "setting"
MAX_ITEMS = 100  # maximum length of a list; guards against damaged files


def setting(default: Any, **details: Any) -> Any:
    """A dataclass field that is a setting. `details` are the attributes of `Setting`, such as `help` and `low`."""
    return field(default=default, metadata={_KEY: details})


@dataclass(frozen=True)
class Setting:
    """The name, type, default, valid values and help of a field."""

    name: str
    type: Any
    default: Any
    help: str
    low: float | None = None  # inclusive; applies to a number or to each number in a list
    high: float | None = None  # inclusive
    above: float | None = None  # exclusive
    below: float | None = None  # exclusive
    choices: tuple[str, ...] = ()  # valid values of a string or of each string in a list
    option: str = ""  # command-line option; derived from the name unless given
    none: str = ""  # meaning of None
    group: str = ""  # heading under which it is listed; "Advanced" if it is rarely changed
    searchable: bool = True  # allowed in a grid
    max_items: int = MAX_ITEMS  # maximum length of a list

    def __post_init__(self) -> None:
        if not self.option:
            object.__setattr__(self, "option", "--" + self.name.replace("_", "-"))

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types that a value may have: bool, int, float, str, tuple[int, ...] or tuple[str, ...]."""
        if isinstance(self.type, type) or _item(self.type):
            return (self.type,)
        return tuple(kind for kind in get_args(self.type) if kind is not NoneType)

    @property
    def optional(self) -> bool:
        return NoneType in get_args(self.type)

    def check(self, value: Any) -> Any:
        """The value as the dataclass stores it; an error if it is not valid.

        Lists become tuples and NumPy numbers become Python numbers.
        """
        value = _plain(value)
        if value is None and self.optional:
            return None
        if not any(_is(kind, value) for kind in self.kinds):
            raise SettingError(f"expected {self.name} to be {self.type_text()}, got {value!r}")
        items = value if isinstance(value, tuple) else (value,)
        if len(items) > self.max_items:
            raise SettingError(
                f"expected {self.name} to have at most {self.max_items} items, got {len(items)}"
            )
        if not all(self._allows(item) for item in items):
            expected = f"to be {self.type_text()}"
            if _is_number(value):
                expected = self.range_text() or "to be finite"
            raise SettingError(f"expected {self.name} {expected}, got {value!r}{self._hint(value)}")
        return value

    def parse(self, text: str) -> Any:
        """The value from text: `0.01`, `true`, `gumbel`, or a list such as `64,32`."""
        for kind in self.kinds:
            try:
                value = _parse(kind, text.strip())
            except ValueError:
                continue
            if kind is not str or not self.choices or value in self.choices:
                return self.check(value)
        hint = self._hint(text)
        raise SettingError(f"expected {self.name} to be {self.type_text()}, got {text!r}{hint}")

    def _hint(self, value: Any) -> str:
        """A suggestion for a string that is not one of the choices."""
        words = value if isinstance(value, tuple) else (value,)
        wrong = [w for w in words if isinstance(w, str) and w not in self.choices]
        return did_you_mean(wrong[0], self.choices) if wrong else ""

    def _allows(self, value: Any) -> bool:
        """Whether a number, or a number in a list, is in the range, and whether a string is one of the choices."""
        if isinstance(value, str):
            return not self.choices or value in self.choices
        return (
            _is_finite(value)
            and (self.low is None or value >= self.low)
            and (self.high is None or value <= self.high)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def type_text(self) -> str:
        """The type in words, with choices and the range of numbers in a list: `one of sum, mean, max`."""
        names = ", ".join(self.choices)
        choice = f"one of {names}" if len(self.choices) > 1 else names
        words: dict[Any, str] = {
            bool: "true or false",
            int: "an integer",
            float: "a number",
            str: choice or "text",
            tuple[str, ...]: f"a list of {names or 'strings'}",
            tuple[int, ...]: f"a list of integers {self.range_text()}".strip(),
        }
        return ", or ".join(words[kind] for kind in self.kinds)

    def range_text(self) -> str:
        """The range of a number in words: `of at least 0 and below 1`; empty if every number is valid."""
        if self.low is not None and self.high is not None:
            return f"from {self.low} to {self.high}"
        limits = {"of at least": self.low, "above": self.above}
        limits |= {"at most": self.high, "below": self.below}
        return " and ".join(
            f"{word} {limit}" for word, limit in limits.items() if limit is not None
        )

    def show(self, value: Any) -> str:
        """The value as it is written on the command line."""
        return self.none if value is None else show_value(value)


def show_value(value: Any) -> str:
    """A value other than None as it is written on the command line."""
    if isinstance(value, tuple | list):
        return ",".join(map(str, value)) or "empty"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


@lru_cache
def list_settings(kind: type) -> tuple[Setting, ...]:
    """The settings of a dataclass, in the order of its fields."""
    types = get_type_hints(kind)
    return tuple(
        Setting(f.name, types[f.name], f.default, **{"group": kind.__name__, **f.metadata[_KEY]})
        for f in fields(kind)
        if _KEY in f.metadata
    )


def check_settings(instance: Any) -> None:
    """Check every setting of a dataclass instance, in its `__post_init__`."""
    for known in list_settings(instance.__class__):
        value = getattr(instance, known.name)
        object.__setattr__(instance, known.name, known.check(value))


def _item(kind: Any) -> Any:
    """The type of the items of a tuple; None for other types."""
    arguments = get_args(kind)
    return arguments[0] if Ellipsis in arguments else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that is too large for a float
        return False


def _is(kind: Any, value: Any) -> bool:
    if item := _item(kind):
        return isinstance(value, tuple) and all(_is(item, v) for v in value)
    if kind is float:
        return _is_number(value)
    return type(value) is kind


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_plain(v) for v in value)
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value


def _parse(kind: Any, text: str) -> Any:
    if item := _item(kind):
        return tuple(_parse(item, part.strip()) for part in text.split(",") if part.strip())
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError
        return text.lower() == "true"
    if kind is float:
        try:
            return int(text)  # integers stay integers, because records and run keys contain them
        except ValueError:
            return float(text)
    return kind(text)
