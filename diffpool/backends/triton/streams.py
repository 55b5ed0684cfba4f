"""A second stream for work that does not depend on the rest of a captured step."""

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
    """Launch in a second stream, which first waits for x; until `join` it runs at the same time as the current one."""
    side = _side(x.device)
    side.wait_stream(torch.cuda.current_stream(x.device))
    x.record_stream(side)
    with torch.cuda.stream(side):
        yield side


def join(side: torch.cuda.Stream, z: Tensor) -> None:
    """Let the current stream wait for the second one, whose result is z."""
    here = torch.cuda.current_stream(z.device)
    here.wait_stream(side)
    z.record_stream(here)
