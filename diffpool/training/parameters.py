"""The parameters and statistics of a model in a safetensors file, checked against the model before they are used."""

from __future__ import annotations

from collections import Counter

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from diffpool.errors import ModelError

DTYPES = (torch.float32, torch.float64)  # all tensors of a model have the same type


def to_bytes(model: nn.Module) -> bytes:
    """The parameters and statistics of a model as the content of a safetensors file."""
    tensors = {name: t.detach().cpu().contiguous() for name, t in model.state_dict().items()}
    _check(tensors, tensors)
    return save(tensors)


def from_bytes(content: bytes) -> dict[str, Tensor]:
    """The tensors in a safetensors file, given its content."""
    try:
        return load(content)
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError, OverflowError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(f"the parameter file is damaged ({reason})") from error


def load_parameters(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Replace all parameters and statistics of a model, which may be on the `meta` device."""
    _check(tensors, model.state_dict())
    model.load_state_dict(tensors, assign=True)


def _check(tensors: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Check names, shapes and types, and that all numbers are finite: the kernels rely on it."""
    if missing := sorted(expected.keys() - tensors.keys()):
        raise ModelError(f"the parameters do not match config.json ({missing[0]} is missing)")
    if unknown := sorted(tensors.keys() - expected.keys()):
        raise ModelError(f"the parameters do not match config.json (unexpected {unknown[0]!r})")
    types = Counter(
        tensors[name].dtype for name in expected
    )  # independent of the order in the file
    dtype = types.most_common(1)[0][0] if types else DTYPES[0]
    if dtype not in DTYPES:
        raise ModelError(f"expected parameters of type float32 or float64, got {_name(dtype)}")
    for name in expected:
        tensor = tensors[name]
        shape = tuple(expected[name].shape)
        if tuple(tensor.shape) != shape:
            raise ModelError(
                f"the parameters do not match config.json "
                f"(expected {name} of shape {shape}, got {tuple(tensor.shape)})"
            )
        if tensor.dtype != dtype:
            raise ModelError(
                f"expected all parameters to be {_name(dtype)}, got {_name(tensor.dtype)} for {name}"
            )
        if not bool(tensor.isfinite().all()):
            raise ModelError(f"expected finite numbers in {name}, got NaN or infinity")
        if name.endswith("running_var") and bool((tensor < 0).any()):
            raise ModelError(f"expected nonnegative variances in {name}, got negative values")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
