"""The convention for M models side by side, and how to take some of them out.

Every parameter and buffer has a leading axis of length M, one row per model. A module that needs M stores it in the
attribute `models`. Custom modules must follow this convention to be trained side by side; a single model need not.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import nn

from diffpool.errors import ModelError

AnyModule = TypeVar("AnyModule", bound=nn.Module)


def take(model: AnyModule, rows: Sequence[int]) -> AnyModule:
    """A copy with the selected models, in this order; it shares no memory with the original.

    Examples:
        >>> from diffpool.nn import Linear
        >>> three = Linear(3, 8, models=3)
        >>> take(three, [2, 0]).weight.shape  # [2, 3, 8]
        torch.Size([2, 3, 8])
    """
    memo: dict[int, Any] = {}  # replacements that `deepcopy` uses instead of copies
    for p in model.parameters():
        chosen = p.detach()[torch.tensor(rows, device=p.device)]
        memo[id(p)] = nn.Parameter(chosen, p.requires_grad)
    for buffer in model.buffers():
        memo[id(buffer)] = buffer[torch.tensor(rows, device=buffer.device)]
    taken = copy.deepcopy(model, memo)
    for module in taken.modules():
        if isinstance(getattr(module, "models", None), int):
            module.models = len(rows)  # type: ignore[assignment]
    return taken


def check_models(model: nn.Module, models: int) -> None:
    """Raise an error unless the model follows the convention for `models` models; a single model may be anything.

    Examples:
        >>> from diffpool.nn import Linear
        >>> check_models(Linear(3, 8, models=3), 3)  # every parameter is [3, …]
    """
    if models == 1:
        return
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.shape[:1] != (models,):
            raise ModelError(
                f"expected a leading axis of {models} models in every parameter and buffer, "
                f"got {name} of shape {tuple(tensor.shape)}: build the model with models={models}"
            )
