"""The convention of M models side by side, and what follows from it: some of them taken out as a cohort of their own.

Each parameter and each buffer has a leading axis of length M, one row for each model; a module that must know M has it
as its attribute `models`. Modules of one's own that are trained side by side keep to this, too. A single model that is
trained alone need not.
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
    """A copy that has these of the M models, in this order; it shares no memory with the original."""
    memo: dict[int, Any] = {}  # what `deepcopy` takes in place of copies
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
    """Raise an error unless the model keeps to the convention for so many; a single model may be anything."""
    if models == 1:
        return
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.shape[:1] != (models,):
            raise ModelError(
                f"expected a leading axis of {models} models in every parameter and buffer, "
                f"got {name} of shape {tuple(tensor.shape)}: build the model with models={models}"
            )
