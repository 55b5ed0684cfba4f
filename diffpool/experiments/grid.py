"""Settings from the command line: grids (`--grid`) and single values (`--set`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from diffpool.errors import SettingError, did_you_mean
from diffpool.experiments.methods import METHOD_SETTINGS
from diffpool.settings import Setting

# Names of settings and the values to try.
Grid = tuple[tuple[str, tuple[Any, ...]], ...]

# These do not change any shape, so all points of all folds are trained side by side.
DEFAULT_GRID: Grid = (("learning_rate", (3e-3, 1e-3, 3e-4)), ("weight_decay", (0.0, 1e-3)))


def points(grid: Grid) -> list[dict[str, Any]]:
    """Every combination of values; the last name changes fastest. An empty grid has one point without changes."""
    names = [name for name, _ in grid]
    return [
        dict(zip(names, values, strict=True)) for values in itertools.product(*(v for _, v in grid))
    ]


def make_grid(values: Mapping[str, Sequence[Any]]) -> Grid:
    """A grid from names and their values."""
    grid = []
    for name, choices in values.items():
        setting = _searchable(name)
        if not choices:
            raise SettingError(f"expected at least one value for {name} in the grid, got none")
        checked = [setting.check(choice) for choice in choices]
        grid.append((name, tuple(dict.fromkeys(checked))))  # each value once
    return tuple(grid)


def parse_grid(words: Iterable[str]) -> Grid:
    """The grid from words such as `learning_rate=0.001,0.0003` and `hidden=32,64`."""
    values: dict[str, list[Any]] = {}
    for word in words:
        name, text = _split(word)
        if not text:
            raise SettingError(
                f"expected --grid NAME=VALUE,VALUE, such as learning_rate=0.001,0.0003, got {word!r}"
            )
        setting = _searchable(name)
        values[setting.name] = [setting.parse(part) for part in text.split(",")]
    return make_grid(values)


def parse_settings(words: Iterable[str]) -> dict[str, Any]:
    """The settings from words such as `assignment=gumbel`, `head=64,32` and `concat=true`."""
    values: dict[str, Any] = {}
    for word in words:
        name, text = _split(word)
        setting = _NAMES.get(name)
        if setting is None or text is None:
            hint = did_you_mean(name, METHOD_SETTINGS) if setting is None else ""
            raise SettingError(
                f"expected --set NAME=VALUE, where NAME is one of {', '.join(METHOD_SETTINGS)}, got {word!r}{hint}"
            )
        values[setting.name] = setting.parse(text)
    return values


# A setting is found by its name and by the name of its option.
_NAMES = METHOD_SETTINGS | {
    s.option.removeprefix("--").replace("-", "_"): s for s in METHOD_SETTINGS.values()
}


def _split(word: str) -> tuple[str, str | None]:
    name, equals, text = word.partition("=")
    return name.strip().replace("-", "_"), text if equals else None


def _searchable(name: str) -> Setting:
    setting = _NAMES.get(name)
    if setting is None or not setting.searchable:
        known = [s.name for s in METHOD_SETTINGS.values() if s.searchable]
        hint = did_you_mean(name, known) if setting is None else ""
        raise SettingError(
            f"expected each setting in the grid to be one of {', '.join(known)}, got {name!r}{hint}"
        )
    return setting
