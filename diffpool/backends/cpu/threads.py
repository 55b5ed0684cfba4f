"""The number of CPU threads of PyTorch and of the C kernels.

PyTorch's threads busy-wait for each other. On small batches they gain little, and they stall for milliseconds whenever
another process occupies one of the cores. So training on small batches uses one PyTorch thread and leaves the other
cores to the C kernels, whose threads yield or sleep while they wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from diffpool.cores import usable_cores

SMALL = 16_384  # rows per model and step

_granted: int | None = None  # threads of the kernels while PyTorch uses one


def num_threads() -> int:
    """The number of threads that a kernel may use: PyTorch's setting, but at most the number of usable cores."""
    return min(_granted or torch.get_num_threads(), usable_cores())


@contextmanager
def threads_for(rows: float) -> Iterator[None]:
    """Limit PyTorch to one thread if a step has few rows per model; the kernels keep theirs."""
    global _granted
    if rows >= SMALL or _granted is not None or torch.get_num_threads() == 1:
        yield
        return
    before = _granted = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _granted = None
