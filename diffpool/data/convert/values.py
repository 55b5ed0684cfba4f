"""Checks and conversions shared by all graph formats: classes, targets, tables of numbers, weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Sized
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from diffpool.data.categories import Categories, Label, Names, common_type
from diffpool.data.raw import MAX_FLOAT, RawGraphs
from diffpool.errors import DataError, shortened

MAX_NAME = 4000  # characters of a class: Python does not write longer integers


def with_y(raw: RawGraphs, y: Any) -> RawGraphs:
    """The graphs with these classes or targets, which replace their own; `y` as in `as_raw`."""
    values = _listed(y)
    check_count(values, len(raw))
    tables: dict[str, Any] = {"classes": None, "targets": None} | parse_y(values)
    columns = {k: v for k, v in raw.columns.items() if k not in ("label", "target")}
    return replace(raw, columns=columns, **tables)


def check_count(values: Sized, graphs: int) -> None:
    if len(values) != graphs:
        raise DataError(
            f"expected one y for each of {graphs} graphs, got {len(values)}. Are some missing?"
        )


def given_classes(y: Any) -> list[Label]:
    """The classes in an array, a tensor, a table or a list. Floats are classes, too, as in scikit-learn."""
    values: list[Label] = []
    for g, value in enumerate(_listed(y)):
        row = row_of_y(value)
        if (
            len(row) != 1
            or type(row[0]) not in (str, int, bool, float)
            or (type(row[0]) is float and not math.isfinite(row[0]))
        ):
            raise DataError(
                f"graph {g}: expected a class, got {shortened(value)}. Leave graphs without a class out."
            )
        values.append(row[0])
    if {type(value) for value in values} == {int, float} and all(map(_is_exact, values)):
        values = [float(value) for value in values]
    check_one_type(values)
    return [value + 0.0 if type(value) is float else value for value in values]  # 0.0 is -0.0


def given_targets(y: Any) -> np.ndarray:
    """The targets in an array, a tensor, a table or a list: [B, T]. Integers and booleans are numbers, too."""
    return targets([[_as_float(value) for value in row_of_y(row)] for row in _listed(y)])


def check_one_type(values: Sequence[Label]) -> None:
    """Raise a DataError unless all classes have one type: 1 and "1" would become the same class."""
    for g, value in enumerate(values):
        if type(value) is not type(values[0]):
            raise DataError(
                f"graph {g}: expected classes of one type, like {shortened(values[0])} of graph 0, "
                f"got {shortened(value)}. Use strings, integers or booleans only."
            )


def _listed(y: Any) -> list[Any]:
    """One plain value for each graph."""
    given = y
    if isinstance(y, torch.Tensor):
        y = as_array("y", y)
    y = (
        y.to_numpy() if hasattr(y, "to_numpy") else y
    )  # a list of a table has the names of its columns
    y = _unmasked("y", y).tolist() if hasattr(y, "tolist") else y
    if isinstance(y, str | bytes | dict) or not isinstance(y, Iterable):
        raise DataError(
            f"expected y as a list or array, got {type_name(given)}. Give one value for each graph."
        )
    return list(map(plain, y))


def _is_exact(value: Label) -> bool:
    """Whether a number is the same as a float."""
    try:
        return float(value) == value
    except OverflowError:
        return False


def _as_float(value: Any) -> Any:
    """A number as a float, unless it is too large; other values as they are."""
    try:
        return float(value) if type(value) in (int, bool, float) else value
    except OverflowError:
        return value


def parse_y(values: list[Any]) -> dict[str, Any]:
    """`classes` from strings, integers and booleans, or `targets` from floats; one plain value for each graph."""
    rows = [row_of_y(value) for value in values]
    types = {type(value) for row in rows for value in row}
    if float in types and types <= {int, float}:
        return {"targets": targets(rows)}
    for g, row in enumerate(rows):
        if len(row) != 1 or type(row[0]) not in (str, int, bool):
            raise DataError(
                f"graph {g}: expected a class (a string or an integer) or, for every graph, floats as targets, "
                f"got {shortened(values[g])}. Use classes or targets for all graphs."
            )
    return {"classes": classes([row[0] for row in rows])}


def row_of_y(value: Any) -> list[Any]:
    """The classes or targets of one graph as a list."""
    while isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]  # [[a, b]], as PyG stores several targets of a graph
    return value if isinstance(value, list) else [value]


def classes(values: list[Any]) -> Categories:
    """Classes from strings, integers and booleans."""
    check_one_type(values)
    words = [_class_name(g, value) for g, value in enumerate(values)]
    names = Names()
    return Categories.from_columns([(names, names.codes(words))], common_type(values))


def _class_name(g: int, value: Any) -> str:
    try:
        name = str(value)
        name.encode()
    except (ValueError, UnicodeError):  # thousands of digits, or an unpaired surrogate
        name = ""
    if not name or len(name) > MAX_NAME:
        raise DataError(
            f"graph {g}: expected a class of 1 to {MAX_NAME} valid characters, got {shortened(value)}. "
            "Choose a shorter name."
        )
    return name


def targets(rows: list[list[Any]]) -> np.ndarray:
    """[B, T]"""
    for g, row in enumerate(rows):
        # NaN fails the comparison, too
        if not row or not all(type(v) in (int, float) and abs(v) <= MAX_FLOAT for v in row):
            raise DataError(
                f"graph {g}: expected finite numbers as targets, at most {MAX_FLOAT:.1e} (float32), "
                f"got {shortened(row)}. Remove the graph."
            )
        if len(row) != len(rows[0]):
            raise DataError(
                f"graph {g}: expected {len(rows[0])} targets, as in graph 0, got {len(row)}. Add or remove some."
            )
    return np.array(rows, np.float64)


def all_or_none(what: str, values: Sequence[Any]) -> bool:
    """Whether every graph has a value; an error if only some do."""
    has = [value is not None for value in values]
    if any(has) and not all(has):
        raise DataError(
            f"graph {has.index(False)}: expected {what} in every graph or in none, but graph {has.index(True)} has it "
            "and this one does not. Add it where it is missing, or remove it everywhere."
        )
    return all(has)


def stacked(what: str, values: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """The rows [·, columns] of all graphs; None if no graph has any."""
    if not all_or_none(what, values):
        return None
    tables = [value for value in values if value is not None]
    filled = [g for g, table in enumerate(tables) if len(table)]
    for g in filled:
        expected, got = tables[filled[0]].shape[1], tables[g].shape[1]
        if got != expected:
            raise DataError(
                f"graph {g}: expected {expected} columns of {what}, as in graph {filled[0]}, got {got}. "
                "Give all graphs the same columns."
            )
    return np.concatenate([tables[g] for g in filled]) if filled else tables[0]


def numbers(g: int, what: str, value: Any, rows: int) -> np.ndarray:
    """[rows, columns] float64"""
    table = as_array(f"graph {g}: {what}", value.toarray() if hasattr(value, "toarray") else value)
    if table.ndim not in (1, 2) or len(table) != rows or table.dtype.kind not in "biuf":
        raise DataError(
            f"graph {g}: expected {what} as numbers [{rows}, columns], got {table.dtype} {list(table.shape)}. "
            "Give one row for each."
        )
    table = table[:, None] if table.ndim == 1 else table
    if table.size and not (table.min() >= -MAX_FLOAT and table.max() <= MAX_FLOAT):  # or NaN
        raise DataError(
            f"graph {g}: expected finite {what}, got NaN, infinity or numbers above {MAX_FLOAT:.1e} (float32). "
            "Remove or rescale them."
        )
    return table.astype(np.float64)


def weights(g: int, values: np.ndarray) -> np.ndarray:
    """Edge weights, checked: one for each edge, at least 0."""
    if values.shape[1:] not in ((), (1,)):
        raise DataError(
            f"graph {g}: expected one weight for each edge, got {values.shape[1]}. Use edge_attr for several numbers."
        )
    if (values < 0).any():
        raise DataError(
            f"graph {g}: expected edge weights of at least 0, got {values.min()}. Shift or remove them."
        )
    return values


def as_array(what: str, value: Any) -> np.ndarray:
    """An array from an array, a tensor or lists; ragged lists become an array without dimensions.

    Sparse and quantized tensors are converted. `what` is named in errors about values that are masked or not stored.
    """
    if hasattr(value, "detach"):
        try:
            value = value.detach()
            value = value.dequantize() if value.is_quantized else value
            value = value.to_dense() if value.layout is not torch.strided else value
            value = value.cpu().resolve_conj().resolve_neg()
            value = value.double() if value.is_floating_point() else value  # NumPy has no bfloat16
            return np.asarray(value)
        except (RuntimeError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise DataError(
                f"{what}: expected a tensor that can be converted to NumPy ({reason}). Convert it first."
            ) from error
    try:
        return np.asarray(_unmasked(what, value))
    except ValueError:
        return np.array(None)


def _unmasked(what: str, value: Any) -> Any:
    """The same value; an error if it is an array in which some values are masked."""
    if np.ma.is_masked(value):
        raise DataError(f"{what}: expected no masked values, got some. Fill or remove them.")
    return value


def plain(value: Any) -> Any:
    """Values of NumPy and PyTorch as Python numbers, strings and lists."""
    if isinstance(value, torch.Tensor):
        value = as_array("tensor", value)
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list | tuple):
        return [member.tolist() if hasattr(member, "tolist") else member for member in value]
    return value


def type_name(value: Any) -> str:
    return type(value).__name__
