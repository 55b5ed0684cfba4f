"""Triton kernels for NVIDIA GPUs (float32).

If the environment variable TRITON_INTERPRET is 1, they run on the CPU in Triton's interpreter, which is slow. Tests use
this.
"""

import os
from importlib.util import find_spec

import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def available() -> bool:
    """Whether the kernels can run on this machine."""
    return find_spec("triton") is not None and (INTERPRETED or torch.cuda.is_available())
