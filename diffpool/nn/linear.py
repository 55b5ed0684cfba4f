"""Layers with parameters. Each holds the parameters of M models; a single model has M = 1.

The input of such a layer holds the rows of model 0, then the same number of rows of model 1, and so on: [N, D] is
viewed as [M, N/M, D]. `side_by_side.py` describes the convention.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class Linear(nn.Module):
    """X W + b for each of M models: [N, in] → [N, out].

    `columns` selects the first outputs only. An input with fewer than `in` columns is multiplied by the first rows of
    W. So a batch of small graphs needs no computation for the clusters of larger graphs.

    Examples:
        >>> Linear(3, 8)(x).shape  # [N, 3] → [N, 8]
        torch.Size([7, 8])
        >>> Linear(3, 8)(x, columns=2).shape
        torch.Size([7, 2])
        >>> Linear(3, 8, models=2)(torch.cat([x, x])).shape  # two models, 7 rows each
        torch.Size([14, 8])
    """

    def __init__(self, num_inputs: int, num_outputs: int, bias: bool = True, models: int = 1):
        super().__init__()
        self.num_inputs, self.num_outputs, self.models = num_inputs, num_outputs, models
        self.weight = nn.Parameter(torch.empty(models, num_inputs, num_outputs))
        self.bias = nn.Parameter(torch.empty(models, num_outputs)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize the parameters, as `torch.nn.Linear` does."""
        bound = 1 / math.sqrt(max(self.num_inputs, 1))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, x: Tensor, columns: int | None = None) -> Tensor:
        weight: Tensor = self.weight
        bias: Tensor | None = self.bias
        if columns is not None or x.shape[-1] < self.num_inputs:
            weight = weight[:, : x.shape[-1], :columns]
            bias = None if bias is None else bias[:, :columns]
        if self.models == 1:  # squeeze, not [0]: its gradient is a view, not a copy
            weight = weight.squeeze(0)
            return x @ weight if bias is None else torch.addmm(bias.squeeze(0), x, weight)
        x = x.unflatten(0, (self.models, -1))  # [M, N/M, in]
        out = x @ weight if bias is None else torch.baddbmm(bias[:, None], x, weight)
        return out.flatten(0, 1)

    def extra_repr(self) -> str:
        return f"{self.num_inputs}, {self.num_outputs}, models={self.models}"


class Scale(nn.Module):
    """(1 + ε) X with a learned ε for each of M models: the self term of GIN."""

    def __init__(self, models: int = 1):
        super().__init__()
        self.epsilon = nn.Parameter(torch.zeros(models))

    def reset_parameters(self) -> None:
        """Set ε to 0."""
        nn.init.zeros_(self.epsilon)

    def forward(self, x: Tensor) -> Tensor:
        scale = (1 + self.epsilon)[:, None, None]
        return (x.unflatten(0, (len(scale), -1)) * scale).flatten(0, 1)
