"""The two networks of a level beside each other on a GPU: in a captured step each has a stream of its own.

Neither fills the GPU all the time, and neither waits for the other before the pooling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor, nn

from diffpool.backends.triton import encoder as fused_gpu
from diffpool.graphs import DenseGraphs, Graphs
from diffpool.nn.encoder import Encoder


@cache
def _side(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


@contextmanager
def beside(graphs: Graphs, x: Tensor, networks: Sequence[nn.Module]) -> Iterator[None]:
    """What is launched in here, the first of these networks, runs beside what is launched after it, until `join`.

    Unless a step is being captured, and all the networks are those of `fused_gpu`, this does nothing.
    """
    captured = x.is_cuda and torch.cuda.is_current_stream_capturing()
    if not (captured and networks and all(_fits(graphs, x, network) for network in networks)):
        yield
        return
    if isinstance(graphs, DenseGraphs) or not x.requires_grad:
        graphs.propagate_mean(x)  # kept by the graphs, because both networks ask for it
    side = _side(x.device)
    side.wait_stream(torch.cuda.current_stream(x.device))
    x.record_stream(side)
    with torch.cuda.stream(side):
        yield


def join(z: Tensor) -> None:
    """Wait for what was launched beside this, if anything was: z is its result."""
    if not (z.is_cuda and torch.cuda.is_current_stream_capturing()):
        return
    here, side = torch.cuda.current_stream(z.device), _side(z.device)
    with torch.cuda.stream(side):
        launched = torch.cuda.is_current_stream_capturing()
    if launched:
        here.wait_stream(side)
        z.record_stream(here)


def _fits(graphs: Graphs, x: Tensor, network: nn.Module) -> bool:
    return isinstance(network, Encoder) and fused_gpu.fits(
        graphs, x, list(network.convs), list(network.steps)
    )
