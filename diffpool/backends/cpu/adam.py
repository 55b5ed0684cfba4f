"""Adam in one call, reading the gradient of each parameter where it is."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from diffpool.backends import kernel
from diffpool.backends.cpu import _kernels  # type: ignore[attr-defined]
from diffpool.backends.cpu.arguments import ALONE
from diffpool.backends.cpu.threads import num_threads

MULTIPLICATIONS = 16  # that take as long as the update of one parameter, which is limited by memory


def _plain(t: Tensor, dtype: torch.dtype = torch.float32) -> bool:
    return t.dtype == dtype and t.is_cpu and t.is_contiguous()


def _accepts_adam(
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
) -> bool:
    models = len(parameters)
    matrices = [parameters, mean, square, *([] if decay is None else [decay])]
    return (
        all(t.shape == parameters.shape and _plain(t) for t in matrices)
        and all(t.shape == (models, 1) and _plain(t) for t in (clip, rate, steps))
        and present.shape == (models,)
        and _plain(present, torch.bool)
        and all(map(_plain, grads))
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
