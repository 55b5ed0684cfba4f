"""The optional kernels: those of `_native.c`, present if a compiler was there at installation, and Triton's on a GPU.

`DIFFPOOL_NATIVE=0` in the environment leaves them unused. Everything they do is done with PyTorch without them.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from types import ModuleType

import torch
from torch import Tensor

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"

kernels: ModuleType | None
try:
    from diffpool.backends.cpu import _kernels as kernels  # type: ignore[no-redef, attr-defined]
except ImportError:
    kernels = None
if os.environ.get("DIFFPOOL_NATIVE") == "0":
    kernels = None


def suits(*tensors: Tensor) -> bool:
    """Whether the kernels are there and can work on these tensors: float32, on the CPU."""
    return (
        kernels is not None
        and not torch.compiler.is_compiling()
        and all(
            t.dtype == torch.float32 and t.device.type == "cpu" and t.is_contiguous()
            for t in tensors
        )
    )


def suits_triton(*tensors: Tensor) -> bool:
    """Whether the Triton kernels can work on these tensors: float32, on a GPU (or anywhere, by its interpreter)."""
    return (
        _triton_is_there()
        and not torch.compiler.is_compiling()
        and all(t.dtype == torch.float32 and (t.is_cuda or INTERPRETED) for t in tensors)
    )


@cache
def _triton_is_there() -> bool:
    return os.environ.get("DIFFPOOL_NATIVE") != "0" and find_spec("triton") is not None


def address(t: Tensor | None) -> int:
    """The address of the first element, 0 for None."""
    return 0 if t is None else t.data_ptr()
