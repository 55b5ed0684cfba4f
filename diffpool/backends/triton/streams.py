"""A second CUDA stream for independent work in a captured step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor


@cache
def _side(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


@contextmanager
def side_stream(x: Tensor) -> Iterator[torch.cuda.Stream]:
    """Launch work in a second stream, which first waits for x; it runs in parallel until `join`."""
    side = _side(x.device)
    side.wait_stream(torch.cuda.current_stream(x.device))
    x.record_stream(side)
    with torch.cuda.stream(side):
        yield side


def join(side: torch.cuda.Stream, z: Tensor) -> None:
    """Make the current stream wait for the second one, which computes z."""
    current = torch.cuda.current_stream(z.device)
    current.wait_stream(side)
    z.record_stream(current)
