"""What is known of a run of a kernel from outside. Apart from the run, whose imports take a second."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from diffpool.data import RawGraphs
from diffpool.experiments.records import Record

Grams = Mapping[int | None, np.ndarray]  # [B, B] by h; None for a kernel without h

# The Gram matrices of the kernel with this name; the function is told the share that is there.
MakeGrams = Callable[[str, RawGraphs, Callable[[float], None] | None], Grams]


@dataclass(frozen=True)
class KernelStatus:
    """Where a run is, for a display."""

    gram: float  # the share of the Gram matrices that is there
    fits: int  # of SVMs in all, in this start of the run
    fitted: int  # of them
    folds: int  # to be recorded in all
    records: tuple[Record, ...]  # so far
    seconds_left: float | None  # None while nothing is known


KernelWatch = Callable[[KernelStatus], None]
