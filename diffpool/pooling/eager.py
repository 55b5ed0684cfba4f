"""Functions that `torch.compile` does not compile."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def eager(function: Callable[P, R]) -> Callable[P, R]:
    """Keep a function out of compiled programs: the compiled code continues after it.

    For functions that wait for sizes on the host, or that have kernels.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.compiler.is_compiling():  # importing the compiler takes seconds
            return torch.compiler.disable(function)(*args, **kwargs)
        return function(*args, **kwargs)

    return call
