"""Adam with gradient clipping on all parameters as one vector: a few operations a step, however many parameters."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from diffpool.training.config import Training


class Optimiser:
    """Adam on the parameters of a model, which become views of one vector; frozen ones are left alone.

    The model must be on its device before, and stay there.
    """

    def __init__(self, model: nn.Module, config: Training):
        parameters = [p for p in model.parameters() if p.requires_grad]
        vector = nn.Parameter(torch.cat([p.detach().reshape(-1) for p in parameters]))
        vector.grad = torch.zeros_like(vector)
        start = 0
        for parameter in parameters:
            part = slice(start, start + parameter.numel())
            parameter.data = vector.data[part].view_as(parameter)
            parameter.grad = vector.grad[part].view_as(parameter)
            start = part.stop
        self.gradient: Tensor = vector.grad
        self.clip = config.clip
        self.adam = torch.optim.Adam(
            [vector], lr=config.learning_rate, weight_decay=config.weight_decay, fused=True
        )

    def step(self, loss: Tensor) -> None:
        """Move the parameters down the gradient of the loss, its norm clipped."""
        self.gradient.zero_()
        loss.backward()
        norm = torch.linalg.vector_norm(self.gradient)
        self.gradient.mul_((self.clip / (norm + 1e-6)).clamp(max=1.0))
        self.adam.step()
