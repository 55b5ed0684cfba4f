"""What training makes small: the loss of the task and the auxiliary losses of the poolers, graph by graph."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

from diffpool.nn import Prediction
from diffpool.training.settings import Training


def loss_weights(configs: Sequence[Training], like: Tensor) -> dict[str, Tensor | float]:
    """The weight of each named loss for each model: [M], or one number where all have the same."""
    weights: dict[str, Tensor | float] = {}
    for name in configs[0].loss_weights:
        values = [config.loss_weights[name] for config in configs]
        weights[name] = values[0] if len(set(values)) == 1 else like.new_tensor(values)
    return weights


def total_loss(prediction: Prediction, y: Tensor, weights: dict[str, Tensor | float]) -> Tensor:
    """The loss of the task plus the weighted auxiliary losses of every graph: [B].

    A weight is one number, or one for each of M models side by side: [M].
    """
    loss = task_loss(prediction.logits, y)
    for name, auxiliary in prediction.losses.items():
        weight = weights.get(name, 1.0)
        if isinstance(weight, Tensor):
            loss = loss + weight.repeat_interleave(len(loss) // len(weight)) * auxiliary
        elif weight:
            loss = loss + weight * auxiliary
    return loss


def task_loss(outputs: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy for classes [B], the mean squared error for targets [B, T]: [B]."""
    if y.is_floating_point():
        return (outputs - y).square().mean(-1)
    return F.cross_entropy(outputs, y, reduction="none")
