"""A second CUDA stream for independent work in a captured step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch
from torch import Tensor

_sides: dict[torch.device, torch.cuda.Stream] = {}


def _side(device: torch.device) -> torch.cuda.Stream:
    if device not in _sides:
        _sides[device] = torch.cuda.Stream(device)
    return _sides[device]


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


def rejoin() -> None:
    """After an error during a capture, make the current stream wait for a second one that takes part in it.

    A capture whose streams are still parted cannot end, and its memory would never be freed.
    """
    current = torch.cuda.current_stream()
    for side in _sides.values():
        with torch.cuda.stream(side):
            parted = torch.cuda.is_current_stream_capturing()
        if parted:
            with suppress(RuntimeError):  # the error may have ended the capture
                current.wait_stream(side)
