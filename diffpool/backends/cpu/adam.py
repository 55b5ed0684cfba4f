"""Adam in one pass over the parameters of all models."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from diffpool.backends import kernel
from diffpool.backends.cpu import _kernels  # type: ignore[attr-defined]
from diffpool.backends.cpu.arguments import ALONE, address
from diffpool.backends.cpu.threads import num_threads


def _accepts_adam(parameters: Tensor, *rest: Any, **named: Any) -> bool:
    tensors = [t for t in (parameters, *rest, *named.values()) if isinstance(t, Tensor)]
    models = len(parameters)
    shapes = (parameters.shape, (models, 1), (models,))
    return all(
        t.dtype in (torch.float32, torch.bool)
        and t.device.type == "cpu"
        and t.is_contiguous()
        and t.shape in shapes
        for t in tensors
    )


@kernel("training.optimizer.adam_update", "cpu", _accepts_adam)
def adam_update(
    parameters: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    decay: Tensor | None,
    norm: Tensor,
    clip: Tensor,
    rate: Tensor,
    steps: Tensor,
    present: Tensor,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """One pass over the parameters; the gradient stays as it is."""
    tensors = (parameters, gradient, mean, square, decay, norm, clip, rate, steps, present)
    addresses = [address(t) for t in tensors]
    threads = num_threads() if parameters.numel() > ALONE else 1
    _kernels.adam(threads, *parameters.shape, *addresses, *betas, eps)
