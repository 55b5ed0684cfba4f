"""Splits into training, validation and test graphs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from diffpool.errors import DataError


@dataclass(frozen=True, eq=False, repr=False)
class Fold:
    """The indices of the graphs in each part."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray

    def __repr__(self) -> str:
        return f"Fold(train {len(self.train)}, validation {len(self.validation)}, test {len(self.test)})"


def _random_state(seed: int) -> int:
    """The seed for scikit-learn, which takes 32 bits; larger ones are hashed."""
    return seed if seed < 2**32 else int(np.random.SeedSequence(seed).generate_state(1)[0])


def single_split(
    y: Tensor | np.ndarray, seed: int, validation: float = 0.1, test: float = 0.1
) -> Fold:
    """One stratified split: all parts have the same class proportions. Targets [B, T] are split at random."""
    from sklearn.model_selection import train_test_split

    labels = np.asarray(y)
    groups = labels if labels.ndim == 1 else None
    rest, held_out = np.arange(len(labels)), np.empty(0, np.int64)
    try:
        if test > 0:
            rest, held_out = train_test_split(
                rest, test_size=test, stratify=groups, random_state=_random_state(seed)
            )
        train, chosen = train_test_split(
            rest,
            test_size=validation / (1 - test),
            stratify=None if groups is None else groups[rest],
            random_state=_random_state(seed),
        )
    except ValueError as error:
        if groups is None:
            raise DataError(
                f"{len(labels)} graphs are too few for training, validation and test. Add graphs."
            ) from error
        counts = np.bincount(labels).tolist() if len(labels) else []
        shown = f"graphs per class: {counts}"
        if len(counts) > 20:
            shown = f"the smallest of {len(counts)} classes has {min(counts)}"
        raise DataError(
            f"some classes have too few graphs for training, validation and test ({shown}). "
            "Add graphs, or remove small classes."
        ) from error
    return Fold(np.sort(train), np.sort(chosen), np.sort(held_out))


def hold_out(
    graphs: np.ndarray, y: Tensor | np.ndarray, seed: int | Sequence[int], share: float = 0.1
) -> tuple[np.ndarray, np.ndarray]:
    """Hold out a stratified share of the graphs, at least one; returns the rest and the share."""
    count = max(round(share * len(graphs)), 1)
    if len(graphs) <= count:
        raise DataError(
            f"{len(graphs)} graphs are too few to hold some out of training. Add graphs."
        )
    order = _by_class(graphs, np.asarray(y), seed)
    chosen = (np.arange(count) * 2 + 1) * len(order) // (2 * count)  # evenly spaced
    return np.sort(np.delete(order, chosen)), np.sort(order[chosen])


def stratified_folds(y: Tensor | np.ndarray, seed: int, count: int = 10) -> list[Fold]:
    """Stratified folds for cross-validation; a tenth of the graphs outside each test fold is used for validation."""
    labels = np.asarray(y)
    if len(labels) < max(count, 3):
        raise DataError(
            f"expected at least {max(count, 3)} graphs for {count} folds, got {len(labels)}. Add graphs."
        )
    order = _by_class(np.arange(len(labels)), labels, seed)
    folds = []
    for number in range(count):
        test = order[number::count]  # for every class, parts differ by at most one graph
        rest = np.setdiff1d(order, test)
        train, validation = hold_out(rest, labels, [seed, number + 1])
        folds.append(Fold(train, validation, np.sort(test)))
    return folds


def _by_class(graphs: np.ndarray, labels: np.ndarray, seed: int | Sequence[int]) -> np.ndarray:
    """The graphs in random order, grouped by class."""
    order = np.random.default_rng(seed).permutation(graphs)
    return order[np.argsort(labels[order], kind="stable")]


def read_folds(path: str | Path, num_graphs: int, count: int = 10) -> list[Fold]:
    """Read published folds: JSON with `test` and `model_selection` (`train` and `validation`) for each outer fold.

    This is the format of Errica et al. (2020). Graphs are numbered from 0, in the order of the TU files.
    """
    path = Path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: the folds file could not be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: the file is damaged ({error}). Download it again.") from error
    if not isinstance(content, list) or len(content) != count:
        got = f"{len(content)}" if isinstance(content, list) else type(content).__name__
        raise DataError(f"{path}: expected a list of {count} outer folds, got {got}.")
    folds = []
    for number, outer in enumerate(content):
        where = f"{path}: fold {number}"
        try:
            inner = outer["model_selection"][0]
            parts = {"test": outer["test"], **{k: inner[k] for k in ("train", "validation")}}
        except (KeyError, IndexError, TypeError) as error:
            raise DataError(
                f"{where}: expected `test` and `model_selection` with `train` and `validation`, "
                f"got {type(error).__name__} ({error})."
            ) from error
        numbers = {
            name: _numbers(part, f"{where}, {name}", num_graphs) for name, part in parts.items()
        }
        fold = Fold(numbers["train"], numbers["validation"], numbers["test"])
        _check_once(where, (fold.train, fold.validation, fold.test), num_graphs)
        folds.append(fold)
    _check_once(f"{path}: the test parts of all folds", [f.test for f in folds], num_graphs)
    return folds


def _numbers(part: Any, where: str, num_graphs: int) -> np.ndarray:
    if not isinstance(part, list) or not part or not all(type(n) is int for n in part):
        raise DataError(f"{where}: expected a list of graph numbers, got {str(part)[:40]!r}.")
    if min(part) < 0 or max(part) >= num_graphs:
        wrong = min(part) if min(part) < 0 else max(part)
        raise DataError(
            f"{where}: expected numbers from 0 to {num_graphs - 1}, one for each graph, got {wrong}. "
            "Is this the file of another data set?"
        )
    return np.sort(np.array(part, np.int64))


def _check_once(where: str, parts: Sequence[np.ndarray], num_graphs: int) -> None:
    times = np.bincount(np.concatenate(parts), minlength=num_graphs)
    if (times != 1).any():
        graph = int((times != 1).argmax())
        raise DataError(
            f"{where}: expected each of {num_graphs} graphs once, got graph {graph} {times[graph]} times. "
            "Is this the file of another data set?"
        )
