"""Out-of-memory errors: recognizing them, explaining them, and freeing memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from diffpool.errors import DiffPoolError, TrainingError

# Out-of-memory errors that are raised as a plain RuntimeError: by the CPU allocator, cuBLAS and CUDA.
MESSAGES = (
    "can't allocate memory",
    "not enough memory",
    "bad_alloc",
    "STATUS_ALLOC_FAILED",
    "CUDA error: out of memory",
)
TOO_LITTLE_FOR_ONE = "not enough memory to train one model: try a smaller batch size"


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one of its causes, is an out-of-memory error: an aborted capture raises another error."""
    while error is not None:
        if isinstance(error, torch.OutOfMemoryError | MemoryError):
            return True
        if isinstance(error, RuntimeError) and any(words in str(error) for words in MESSAGES):
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def models_fit(models: int) -> Iterator[None]:
    """Turn an out-of-memory error for this many models into an error that says what to do."""
    message = (
        f"not enough memory to train {models} models side by side: "
        "train fewer at a time, or try a smaller batch size"
    )
    with enough_memory(TrainingError(TOO_LITTLE_FOR_ONE if models == 1 else message)):
        yield


@contextmanager
def enough_memory(otherwise: DiffPoolError) -> Iterator[None]:
    """Replace an out-of-memory error with this error."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise otherwise from None


def release_memory(device: torch.device) -> None:
    """Free objects that only reference cycles keep alive, such as a cohort and its captured steps."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
