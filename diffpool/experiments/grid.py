"""Settings to choose from, as data: names of fields of `Architecture` or `Training`, and the values of each."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from diffpool.architecture import Architecture
from diffpool.errors import SettingError
from diffpool.training import Training

Grid = tuple[tuple[str, tuple[Any, ...]], ...]

# They change no shape, so all points of all folds are trained side by side.
DEFAULT_GRID: Grid = (("learning_rate", (3e-3, 1e-3, 3e-4)), ("weight_decay", (0.0, 1e-3)))

NOT_SEARCHED = ("seed", "epochs", "patience")


def points(grid: Grid) -> list[dict[str, Any]]:
    """Every combination, the last name changing fastest; one without changes for an empty grid."""
    names = [name for name, _ in grid]
    return [
        dict(zip(names, values, strict=True)) for values in itertools.product(*(v for _, v in grid))
    ]


def make_grid(values: Mapping[str, Sequence[Any]]) -> Grid:
    """A grid from names and their values, checked."""
    known = {f.name: f for kind in (Architecture, Training) for f in fields(kind)}
    allowed = [name for name in known if name not in NOT_SEARCHED]
    for name, choices in values.items():
        if name not in allowed:
            raise SettingError(
                f"expected a setting of {', '.join(allowed)} in the grid, got {name!r}"
            )
        if not choices:
            raise SettingError(f"expected at least one value of {name} in the grid, got none")
    return tuple((name, tuple(choices)) for name, choices in values.items())


def parse_grid(words: Iterable[str]) -> Grid:
    """The grid of words such as `learning_rate=0.001,0.0003` and `hidden=32,64`."""
    values: dict[str, list[Any]] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not text:
            raise SettingError(
                f"expected --grid NAME=VALUE,VALUE, such as learning_rate=0.001,0.0003, got {word!r}"
            )
        name = name.strip().replace("-", "_")
        values[name] = [_value(part.strip()) for part in text.split(",")]
    return make_grid(values)


def parse_settings(words: Iterable[str]) -> dict[str, Any]:
    """The settings of words such as `assignment=gumbel`, `head=64,32` and `concat=true`."""
    known = {f.name: f.default for kind in (Architecture, Training) for f in fields(kind)}
    values: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or name not in known:
            raise SettingError(
                f"expected --set NAME=VALUE with a setting of {', '.join(known)}, got {word!r}"
            )
        if isinstance(known[name], bool):
            if text not in ("true", "false"):
                raise SettingError(f"expected {name}=true or {name}=false, got {word!r}")
            values[name] = text == "true"
        elif isinstance(known[name], tuple) or "," in text:
            values[name] = tuple(_value(part.strip()) for part in text.split(",") if part.strip())
        else:
            values[name] = _value(text.strip())
    return values


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
