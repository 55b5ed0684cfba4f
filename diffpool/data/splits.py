"""Splits of a data set into training, validation and test graphs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from diffpool.errors import DataError


@dataclass(frozen=True, eq=False, repr=False)
class Fold:
    """Numbers of the graphs in each part."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray

    def __repr__(self) -> str:
        return f"Fold(train {len(self.train)}, validation {len(self.validation)}, test {len(self.test)})"


def single_split(
    y: Tensor | np.ndarray, seed: int, validation: float = 0.1, test: float = 0.1
) -> Fold:
    """One split, stratified: every part has the classes in the same proportions. Targets [B, T] are not stratified."""
    from sklearn.model_selection import train_test_split

    labels = np.asarray(y)
    groups = labels if labels.ndim == 1 else None
    rest, held_out = np.arange(len(labels)), np.empty(0, np.int64)
    try:
        if test > 0:
            rest, held_out = train_test_split(
                rest, test_size=test, stratify=groups, random_state=seed
            )
        train, chosen = train_test_split(
            rest,
            test_size=validation / (1 - test),
            stratify=None if groups is None else groups[rest],
            random_state=seed,
        )
    except ValueError as error:
        if groups is None:
            raise DataError(
                f"expected enough graphs for training, validation and test, got {len(labels)}: add graphs"
            ) from error
        counts = np.bincount(labels).tolist() if len(labels) else []
        raise DataError(
            f"expected enough graphs of every class for training, validation and test, got {counts} by class: "
            "add graphs or leave small classes out"
        ) from error
    return Fold(np.sort(train), np.sort(chosen), np.sort(held_out))
