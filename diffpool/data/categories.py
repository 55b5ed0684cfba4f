"""Named categories: labels of nodes and edges, and classes of graphs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_CATEGORIES = (
    50  # up to this many distinct strings in a column are never treated as names of its rows
)
Label = str | int | bool | float  # a class as it was given
TYPES: dict[str, type] = {"str": str, "int": int, "bool": bool, "float": float}
INTEGER = re.compile("0|-?[1-9][0-9]{0,17}")  # names that are written as numbers


@dataclass(frozen=True, eq=False, repr=False)
class Categories:
    """Columns of named categories: row i has `names[c][codes[i, c]]` in column c."""

    codes: np.ndarray  # [rows, columns] int32
    names: tuple[tuple[str, ...], ...]  # of each column
    type: str = "str"  # of the values that were given: a key of TYPES; matters for classes

    @classmethod
    def from_values(cls, values: np.ndarray) -> Categories:
        """The distinct values of each column [rows] or [rows, columns]; numbers in numerical order."""
        values = values[:, None] if values.ndim == 1 else values
        codes, names = np.empty(values.shape, np.int32), []
        for c in range(values.shape[1]):
            found, codes[:, c] = np.unique(values[:, c], return_inverse=True)
            names.append(tuple(str(name) for name in found.tolist()))
        kind = {"i": "int", "u": "int", "b": "bool"}.get(values.dtype.kind, "str")
        return cls(codes, tuple(names), kind)

    @classmethod
    def from_columns(
        cls, columns: Sequence[tuple[Names, np.ndarray]], type: str = "str"
    ) -> Categories:
        """From codes [rows] and their names, for each column; names are sorted by `numerical_order`."""
        codes, names = [], []
        for found, column in columns:
            ordered = sorted(found, key=numerical_order)
            new_code = np.empty(len(found), np.int32)
            new_code[[found[name] for name in ordered]] = np.arange(len(found), dtype=np.int32)
            codes.append(new_code[column])
            names.append(tuple(ordered))
        return cls(np.stack(codes, 1), tuple(names), type)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def columns(self) -> int:
        return len(self.names)

    def rows(self, index: np.ndarray | slice) -> Categories:
        return Categories(self.codes[index], self.names, self.type)

    def take_columns(self, index: Sequence[int]) -> Categories:
        """The columns with these indices, in this order."""
        return Categories(self.codes[:, index], tuple(self.names[c] for c in index), self.type)

    def words(self, column: int = 0) -> list[str]:
        """The category of every row in one column."""
        return [self.names[column][code] for code in self.codes[:, column]]

    def labels(self, column: int = 0) -> tuple[Label, ...]:
        """The names of a column as values of the type that was given: `1` and not `"1"` for integers."""
        if self.type == "bool":
            return tuple(name == "True" for name in self.names[column])
        return tuple(TYPES[self.type](name) for name in self.names[column])

    def __repr__(self) -> str:
        return f"Categories({len(self)} rows, {[len(n) for n in self.names]} categories)"


class Names(dict[str, int]):
    """A code for each name, in order of first appearance."""

    def __missing__(self, name: str) -> int:
        self[name] = code = len(self)
        return code

    def codes(self, names: Sequence[str]) -> np.ndarray:
        return np.fromiter(map(self.__getitem__, names), np.int32, len(names))


def label_array(labels: Sequence[Label]) -> np.ndarray:
    """The labels as an array; of objects where NumPy would change them, such as -1 and 2⁶³ to floats."""
    array = np.array(labels)
    found = array.tolist()
    if found != list(labels) or list(map(type, found)) != list(map(type, labels)):
        array = np.empty(len(labels), object)
        array[:] = labels
    return array


def looks_like_names(names: int, rows: int) -> bool:
    """Whether this number of distinct strings is close to the number of rows: names of the rows, not categories."""
    return names > MAX_CATEGORIES and 2 * names > rows


def common_type(values: Iterable[Any]) -> str:
    """The type of all these values, as in `Categories.type`; "str" for others."""
    found = {type(value).__name__ for value in values}
    return found.pop() if len(found) == 1 and found <= TYPES.keys() else "str"


def numerical_order(name: str) -> tuple[int, float, str]:
    """A sort key: numbers in numerical order, then other strings."""
    try:
        number = float(name)
    except ValueError:
        number = math.nan
    return (0, number, name) if math.isfinite(number) else (1, 0.0, name)
