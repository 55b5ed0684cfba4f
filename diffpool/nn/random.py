"""Counter-based random numbers for training M models side by side.

A number is a function of the seed of its model, the number of steps that the model has taken, the layer, and the row
and column within the model's batch. It does not depend on other models, the device, or previous draws. So a model draws
the same numbers in a cohort as it does alone, and different ones in every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

# SplitMix64 (Steele, Lea and Flood, 2014). The constants are signed: int64 products wrap around.
GOLDEN = 0x9E3779B97F4A7C15 - 2**64
FIRST = 0xBF58476D1CE4E5B9 - 2**64
SECOND = 0x94D049BB133111EB - 2**64


class BatchRows(Protocol):
    """Which rows of the whole batch the rows of a part are, so that a part draws the numbers of the whole.

    With data-parallel training, every process computes a part of each batch.
    """

    def of_graphs(self) -> Tensor:
        """The number of each graph within the batch of its model: [M, B]."""

    def of_nodes(self, level: int) -> Tensor:
        """The number of each row of a level within the batch of its model: [M, N/M]."""


class Random:
    """Dropout masks and uniform random numbers for M models.

    Examples:
        >>> random = Random(seeds=[0], steps=torch.zeros(1, 1), rates=[0.5])
        >>> random.dropout(x, layer=0).shape  # [N, 3] → [N, 3]
        torch.Size([7, 3])
        >>> random.at(1).uniform(x).shape
        torch.Size([7, 3])

    Args:
        seeds: one per model; nonnegative integers.
        steps: the number of steps that each model has taken, [M, 1], on the device; read at every call, never modified.
        rates: the dropout rate p of each model, 0 ≤ p < 1; None: no dropout.

    `rows` is set if a step computes a part of the batch.
    """

    def __init__(self, seeds: Sequence[int], steps: Tensor, rates: Sequence[float] | None = None):
        device = steps.device
        rates = [0.0] * len(seeds) if rates is None else rates
        words = [np.random.SeedSequence(seed).generate_state(1, np.uint64) for seed in seeds]
        self.keys = torch.from_numpy(np.concatenate(words).view(np.int64)).to(device)  # [M]
        self.limits = torch.tensor([round(p * 2**32) for p in rates], device=device)  # [M]
        scales = [1 / (1 - p) for p in rates]
        self.scales = torch.tensor(scales, dtype=torch.float64, device=device)  # [M]
        self.steps = steps
        self.drops = any(rates)
        self.rows: BatchRows | None = None

    def dropout(self, x: Tensor, layer: int) -> Tensor:
        """Set each entry to zero with probability p, the rate of its model, and divide the rest by 1 − p.

        [M · B, D] → [M · B, D], the rows of model 0 first; each `layer` has its own mask.
        """
        if not self.drops:
            return x
        models = len(self.scales)
        x = x.view(models, len(x) // models, x.shape[1])
        scales = self.scales.to(x.dtype)[:, None, None]
        numbers = None if self.rows is None else self.rows.of_graphs()
        kept = self.kept(layer, x.shape[1], x.shape[2], numbers)
        return torch.where(kept, x * scales, 0).flatten(0, 1)

    def kept(self, layer: int, rows: int, columns: int, numbers: Tensor | None = None) -> Tensor:
        """Which entries dropout keeps in this step: [M, rows, columns]; `numbers` [M, rows]: see `BatchRows`."""
        return self._bits(layer, rows, columns, numbers) >= self.limits[:, None, None]

    def uniform(self, like: Tensor, layer: int) -> Tensor:
        """Uniform numbers in [0, 1) in the shape [M · B, D] of `like`, different for each `layer` and in dropout."""
        models = len(self.scales)
        numbers = None if self.rows is None else self.rows.of_nodes(layer)
        bits = self._bits(~layer, len(like) // models, like.shape[1], numbers)
        return (bits.to(like.dtype) / 2**32).flatten(0, 1)

    def at(self, layer: int) -> LayerRandom:
        """The random numbers of one layer."""
        return LayerRandom(self, layer)

    def _bits(self, layer: int, rows: int, columns: int, numbers: Tensor | None) -> Tensor:
        """Random integers in [0, 2³²): [M, rows, columns]."""
        device = self.keys.device
        state = splitmix64(splitmix64(self.keys + self.steps[:, 0].to(torch.int64)) + layer)  # [M]
        row = torch.arange(rows, device=device) if numbers is None else numbers
        index = (row[..., None] << 32) + torch.arange(columns, device=device)  # […, rows, columns]
        bits = splitmix64(state[:, None, None] + GOLDEN * index)
        return _shifted(bits, 32)


@dataclass(frozen=True)
class LayerRandom:
    """The random numbers of one layer, as passed to a pooler in training.

    Examples:
        >>> random = Random(seeds=[0], steps=torch.zeros(1, 1)).at(layer=1)
        >>> torch.equal(random.uniform(x), random.uniform(x))  # [N, 3] each
        True
    """

    source: Random
    layer: int

    def uniform(self, like: Tensor) -> Tensor:
        """Uniform numbers in [0, 1) in the shape [N, D] of `like`; the same at every call within a step."""
        return self.source.uniform(like, self.layer)


def splitmix64(x: Tensor) -> Tensor:
    """The finalizer of SplitMix64 on int64: every bit of the result depends on every bit of x."""
    x = (x ^ _shifted(x, 30)) * FIRST
    x = (x ^ _shifted(x, 27)) * SECOND
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """Shift to the right as an unsigned integer: `>>` alone keeps the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
