"""The protocol inner-cv, for graph kernels. `evaluate_kernel` runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from diffpool.experiments.plan import FOLDS
from diffpool.experiments.protocol_names import KERNEL_PROTOCOL_SUMMARIES


@dataclass(frozen=True)
class InnerCV:
    """For kernels: choose C and h by cross-validation of the training part; report the accuracy on the test fold."""

    name: ClassVar[str] = "inner-cv"
    summary: ClassVar[str] = KERNEL_PROTOCOL_SUMMARIES["inner-cv"]

    folds: int = FOLDS  # inner folds of the training part
