"""Captured steps on batches from a loader: the buffers and the CUDA graph of each shape."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from diffpool.backends import enabled_backends
from diffpool.backends.capture import Programs
from diffpool.errors import DataError
from diffpool.graphs import SparseGraphs

MAX_SHAPES = 64  # each needs memory for its buffers and its step
EDGES = 2  # buffers hold this many times the edges of their first batch


def can_replay(graphs: SparseGraphs, x: Tensor, device: torch.device) -> bool:
    """Whether a step on such a batch can be captured on this device."""
    if device.type == "cpu":
        from diffpool.backends.triton import INTERPRETED

        if not INTERPRETED:
            return False
    supported = x.dtype == torch.float32 == graphs.degree.dtype and x.numel() > 0
    plain = graphs.layout.complete and graphs.layout.models == 1 and not graphs.channels
    return supported and plain and not graphs.prepared.what and "triton" in enabled_backends()


class LoaderSteps:
    """Runs `work(graphs, x, y)` on batches; captured the second time that a shape occurs, then replayed."""

    def __init__(self, work: Callable[..., Any], device: torch.device):
        from diffpool.backends.triton import fixed

        self.fixed, self.work, self.device = fixed, work, device
        self.buffers: dict[Any, Any] = {}  # by shape
        self.programs: Programs[Any, Any] = Programs(threads=True)

    def step(self, graphs: SparseGraphs, x: Tensor, y: Tensor | None) -> Any:
        """The result of `work`, as of this call."""
        shape = self.fixed.Shape.of(graphs, x, y)
        edges = max(len(graphs.adj.indices), len(graphs.adj_t.indices), 1)
        buffer = self.buffers.get(shape)
        if buffer is None and len(self.buffers) >= MAX_SHAPES:
            return self._uncaptured(graphs, x, y)
        if buffer is None or buffer.edges < edges:
            self.programs.forget(shape)  # it reads the buffers that are replaced
            with torch.inference_mode(False):  # so that later steps may write to them, in any mode
                buffer = self.fixed.FixedBatch(shape, EDGES * edges, self.device)
            self.buffers[shape] = buffer
        buffer.fill(graphs, x, y)

        def work() -> Any:
            # without gradient: a program keeps its result, and with it would keep what its gradient needs
            return changed(self.work(*buffer.batch()), Tensor.detach)

        interpreted = self.device.type == "cpu"
        return copied(work() if interpreted else self.programs.run(shape, work))

    def _uncaptured(self, graphs: SparseGraphs, x: Tensor, y: Tensor | None) -> Any:
        warnings.warn(
            f"captured_step has captured {MAX_SHAPES} sizes of batches; batches of other sizes run without capture, "
            "which is slower: keep the number of graphs in a batch fixed",
            stacklevel=4,
        )
        y = None if y is None else y.to(self.device)
        return copied(self.work(graphs.to(self.device), x.to(self.device), y))


def copied(result: Any) -> Any:
    """The result of a step with copies of its tensors, which the next step overwrites."""
    return changed(result, lambda tensor: tensor.detach().clone())


def changed(result: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The result of a step with other tensors."""
    if isinstance(result, Tensor):
        return change(result)
    if isinstance(result, dict):
        return {name: changed(part, change) for name, part in result.items()}
    if isinstance(result, tuple | list):
        parts = [changed(part, change) for part in result]
        named = hasattr(result, "_fields")  # a NamedTuple
        return type(result)(*parts) if named else type(result)(parts)
    if result is None or isinstance(result, bool | int | float | str):
        return result
    raise DataError(
        "expected tensors, or a tuple, list or dict of them, as the result of a captured step, got "
        f"{type(result).__name__}: return its tensors"
    )
