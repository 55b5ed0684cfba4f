"""Dropout for M models side by side, with random bits that are a function of where they are used.

Whether an entry is dropped depends on the seed of its model, the number of steps that model has done, the layer, and
the entry's row and column within the model's own batch: on no other model, on no device, and on nothing that was drawn
before. So a model drops the same in a cohort and alone, and a captured step draws anew each time it is replayed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

# SplitMix64 (Steele, Lea and Flood, 2014), its constants as signed numbers: products of int64 wrap around.
GOLDEN = 0x9E3779B97F4A7C15 - 2**64
FIRST = 0xBF58476D1CE4E5B9 - 2**64
SECOND = 0x94D049BB133111EB - 2**64


class Dropout:
    """Sets each entry to zero with its model's rate p, and divides the others by 1 − p.

    Args:
        rates: p of each model, from 0 to below 1.
        seeds: of each model; any whole numbers from 0 on.
        steps: steps that each model has done, [M, 1], on the device; read at every call, never written.
    """

    def __init__(self, rates: Sequence[float], seeds: Sequence[int], steps: Tensor):
        device = steps.device
        words = [np.random.SeedSequence(seed).generate_state(1, np.uint64) for seed in seeds]
        self.keys = torch.from_numpy(np.concatenate(words).view(np.int64)).to(device)  # [M]
        self.limits = torch.tensor([round(p * 2**32) for p in rates], device=device)  # [M]
        scales = [1 / (1 - p) for p in rates]
        self.scales = torch.tensor(scales, dtype=torch.float64, device=device)  # [M]
        self.steps = steps

    def __call__(self, x: Tensor, layer: int) -> Tensor:
        """[M · B, D] → [M · B, D], the rows of model 0 first; each `layer` has bits of its own."""
        models = len(self.scales)
        x = x.view(models, len(x) // models, x.shape[1])
        scales = self.scales.to(x.dtype)[:, None, None]
        return torch.where(self.kept(layer, *x.shape[1:]), x * scales, 0).flatten(0, 1)

    def uniform(self, like: Tensor, layer: int) -> Tensor:
        """Numbers from 0 to below 1 in the shape [M · B, D] of `like`; each `layer` has its own, none is dropout's."""
        models = len(self.scales)
        bits = self._bits(~layer, len(like) // models, like.shape[1])
        return (bits.to(like.dtype) / 2**32).flatten(0, 1)

    def kept(self, layer: int, rows: int, columns: int) -> Tensor:
        """Which entries are not dropped in this step: [M, rows, columns]."""
        return self._bits(layer, rows, columns) >= self.limits[:, None, None]

    def _bits(self, layer: int, rows: int, columns: int) -> Tensor:
        """Whole numbers from 0 to below 2³²: [M, rows, columns]."""
        device = self.keys.device
        stream = _mixed(_mixed(self.keys + self.steps[:, 0].to(torch.int64)) + layer)  # [M]
        row = torch.arange(rows, device=device)[:, None] << 32
        place = row + torch.arange(columns, device=device)  # [rows, columns]
        bits = _mixed(stream[:, None, None] + GOLDEN * place)
        return _shifted(bits, 32)


def _mixed(x: Tensor) -> Tensor:
    """The finalizer of SplitMix64 on int64: every bit of the result depends on every bit of x."""
    x = (x ^ _shifted(x, 30)) * FIRST
    x = (x ^ _shifted(x, 27)) * SECOND
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """Shifted to the right as an unsigned number: `>>` alone keeps the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
