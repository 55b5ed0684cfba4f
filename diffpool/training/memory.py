"""What to do when memory does not suffice."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from diffpool.errors import TrainingError

# Lacks of memory that come as a plain RuntimeError: of the machine, of cuBLAS, of CUDA itself.
MESSAGES = ("can't allocate memory", "STATUS_ALLOC_FAILED", "CUDA error: out of memory")
TOO_LITTLE_FOR_ONE = "expected memory for one model, got less: try a smaller batch size"


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error is a lack of memory, or came of one: to abandon a capture raises another error."""
    while error is not None:
        if isinstance(error, torch.OutOfMemoryError | MemoryError):
            return True
        if isinstance(error, RuntimeError) and any(words in str(error) for words in MESSAGES):
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def one_model_fits() -> Iterator[None]:
    """Where one model is trained: a lack of memory is an error that says what to do."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise TrainingError(TOO_LITTLE_FOR_ONE) from None


def release_memory(device: torch.device) -> None:
    """Give back what nothing refers to any more but its like: a cohort and its captured steps do so to each other."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
