"""The registry of kernels: which implementation runs a call.

An operation is a plain PyTorch function decorated with `accelerated`. That function is the reference: it defines the
result and runs every call that no kernel accepts. A kernel is a faster implementation. It belongs to a backend (`cpu`:
C; `triton`: NVIDIA GPUs), declares which arguments it accepts, and is registered with `kernel`. Backends are loaded on
first use.

The environment variable `DIFFPOOL_BACKEND`, or `use_backend` in Python, restricts the choice: `auto` (the default)
allows every backend, `cpu` or `triton` only that one, and `reference` none.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from typing import Any, Generic, ParamSpec, TypeVar

import torch

from diffpool.errors import SettingError

P = ParamSpec("P")
R = TypeVar("R")

BACKENDS = ("triton", "cpu")  # in order of preference
CHOICES = ("auto", *BACKENDS, "reference")
VARIABLE = "DIFFPOOL_BACKEND"


@dataclass(frozen=True)
class Kernel:
    """One implementation of an operation."""

    accepts: Callable[..., bool]  # called with the arguments of the operation
    run: Callable[..., Any]


@dataclass
class Operation(Generic[P, R]):
    """A function that may have kernels."""

    name: str  # module and function, for example "equations.pool"
    reference: Callable[P, R]

    def choose(self, *args: Any, **kwargs: Any) -> Kernel | None:
        """The kernel for a call with these arguments; None: the reference."""
        for backend in _state.enabled():
            kernel = KERNELS.get((self.name, backend))
            if kernel is not None and kernel.accepts(*args, **kwargs):
                return kernel
        return None


OPERATIONS: dict[str, Operation[..., Any]] = {}  # by name
KERNELS: dict[tuple[str, str], Kernel] = {}  # by operation name and backend


def accelerated(reference: Callable[P, R]) -> Callable[P, R]:
    """Mark a plain PyTorch function as an operation that may have faster kernels."""
    name = f"{reference.__module__.removeprefix('diffpool.')}.{reference.__name__}"
    operation = OPERATIONS[name] = Operation(name, reference)

    @wraps(reference)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.compiler.is_compiling():  # the compiler generates its own kernels
            return reference(*args, **kwargs)
        kernel = operation.choose(*args, **kwargs)
        return (reference if kernel is None else kernel.run)(*args, **kwargs)

    call.reference = reference  # type: ignore[attr-defined]
    return call


def kernel(
    operation: str, backend: str, accepts: Callable[..., bool]
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Register the decorated function as a kernel of the operation with this name."""

    def register(run: Callable[P, R]) -> Callable[P, R]:
        KERNELS[operation, backend] = Kernel(accepts, run)
        return run

    return register


class _State:
    """The enabled backends."""

    def __init__(self) -> None:
        self.available: tuple[str, ...] | None = None  # None: not loaded yet
        self.choice = os.environ.get(VARIABLE, "auto")

    def enabled(self) -> tuple[str, ...]:
        if self.available is None:
            _check(self.choice, VARIABLE)
            self.available = tuple(name for name in BACKENDS if _load(name))
        if self.choice == "auto":
            return self.available
        if self.choice == "reference":
            return ()
        if self.choice not in self.available:
            raise SettingError(
                f"the backend {self.choice!r} does not work on this machine "
                f"(available: {', '.join(self.available) or 'none'}): choose auto or reference"
            )
        return (self.choice,)


_state = _State()


def _load(name: str) -> bool:
    """Register the kernels of a backend; whether it works on this machine."""
    try:
        if not import_module(f"diffpool.backends.{name}").available():
            return False
        import_module(f"diffpool.backends.{name}.operations")
    except ImportError as error:
        warnings.warn(f"the backend {name!r} is not used: {error}", stacklevel=2)
        return False
    return True


def _check(choice: str, source: str) -> None:
    if choice not in CHOICES:
        raise SettingError(f"expected {source} to be one of {', '.join(CHOICES)}, got {choice!r}")


def enabled_backends() -> tuple[str, ...]:
    """The enabled backends, in order of preference."""
    return _state.enabled()


@contextmanager
def use_backend(choice: str) -> Iterator[None]:
    """Select the backend inside a `with` block: "auto", "cpu", "triton" or "reference"."""
    _check(choice, "a backend")
    before, _state.choice = _state.choice, choice
    try:
        _state.enabled()  # raises an error if there is no such backend here
        yield
    finally:
        _state.choice = before
