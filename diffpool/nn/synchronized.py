"""Statistics over the nodes of all processes that train one model together, as differentiable functions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from diffpool.errors import TrainingError


class LostProcessError(TrainingError):
    """Another process has ended, so this one cannot continue."""


@contextmanager
def no_process_lost() -> Iterator[None]:
    """Explain the error of a collective operation when another process has ended."""
    try:
        yield
    except RuntimeError as error:
        time.sleep(1)  # after Ctrl-C, the interruption of this process comes first
        raise LostProcessError(
            "another process of this training run has stopped: see its message; without one, it may have run out of "
            "memory"
        ) from error


def add(t: Tensor) -> None:
    """Replace a tensor by the sum over all processes; all of them get the same bits."""
    with no_process_lost():
        dist.all_reduce(t)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, t: Tensor) -> Tensor:
        total = t.clone()
        add(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        total = grad.clone()
        add(total)
        return total


def summed(t: Tensor) -> Tensor:
    """The sum over all processes, in each of them.

    The loss is the sum of the losses of all processes, so the gradient is the sum of their gradients.
    """
    total: Tensor = _Sum.apply(t)
    return total


def largest(number: int, like: Tensor) -> int:
    """The largest of the numbers of all processes."""
    found = torch.tensor(number, device=like.device)
    with no_process_lost():
        dist.all_reduce(found, dist.ReduceOp.MAX)
    return int(found)


def merged_moments(
    count: Tensor, mean: Tensor, var: Tensor, width: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Number, mean and variance of the rows of all processes, from those of each process: [M, W] each → [M, width].

    Processes may have different numbers of columns W. The sums are in double precision, so nothing cancels.
    """
    count, first = count.double(), mean.double()
    second = var.double() + first.square()
    sums = torch.stack([count, count * first, count * second])  # [3, M, W]
    total, first, second = summed(F.pad(sums, (0, width - sums.shape[2])))
    total = total.detach()
    mean_of_all = first / total.clamp(min=1)
    var_of_all = (second / total.clamp(min=1) - mean_of_all.square()).clamp(min=0)
    return total.to(mean.dtype), mean_of_all.to(mean.dtype), var_of_all.to(mean.dtype)


@contextmanager
def synchronized(model: nn.Module) -> Iterator[None]:
    """Compute the statistics of a batch over all processes inside the `with` block."""
    layers = [module for module in model.modules() if hasattr(module, "synchronized")]
    for layer in layers:
        layer.synchronized = True  # type: ignore[assignment]
    try:
        yield
    finally:
        for layer in layers:
            layer.synchronized = False  # type: ignore[assignment]
