"""Adam in one call, reading the gradient of each parameter where it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from diffpool.backends import kernel
from diffpool.backends.cpu import _kernels  # type: ignore[attr-defined]
from diffpool.backends.cpu.arguments import ALONE
from diffpool.backends.cpu.threads import num_threads

MULTIPLICATIONS = 16  # that take as long as the update of one parameter, which is limited by memory


def _accepts_adam(parameters: Tensor, grads: Sequence[Tensor], *rest: Any, **named: Any) -> bool:
    """Whether the kernel can read the tensors; it checks their lengths itself."""
    others = [t for t in (*rest, *named.values()) if isinstance(t, Tensor)]
    return all(
        t.dtype in (torch.float32, torch.bool) and t.is_cpu and t.is_contiguous()
        for t in (parameters, *grads, *others)
    )


@kernel("training.optimizer.adam_step", "cpu", _accepts_adam)
def adam_step(
    parameters: Tensor,
    grads: Sequence[Tensor],
    gaps: Sequence[Tensor],
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    decay: Tensor | None,
    clip: Tensor,
    rate: Tensor,
    steps: Tensor,
    present: Tensor,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """Two passes over the gradients: their norms, then the update. The buffer stays as it is."""
    threads = num_threads() if MULTIPLICATIONS * parameters.numel() > ALONE else 1
    tensors = (parameters, mean, square, decay, clip, rate, steps, present)
    parts = [word for g, gap in zip(grads, gaps, strict=True) for word in (g, gap.shape[1])]
    _kernels.adam(threads, *parameters.shape, *tensors, *betas, eps, len(grads), *parts)
