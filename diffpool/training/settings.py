"""How a model is trained, as data."""

from __future__ import annotations

import math
from dataclasses import dataclass

from diffpool.errors import SettingError


@dataclass(frozen=True)
class Training:
    """The settings of one training run.

    Attributes:
        epochs: at most so many.
        patience: stop after so many epochs without a lower validation loss.
        learning_rate, weight_decay: of Adam; the decay is of weight matrices, not of biases and normalizations.
        dropout: the share of a graph's vector that is set to zero before each linear layer of the head.
        batch_size: graphs in a step.
        clip: the norm of the gradient is clipped to this.
        link_weight, entropy_weight: weights of the two auxiliary losses; all 1 in the paper.
        seed: of the initial parameters, the order of the graphs, dropout, and the split.
    """

    epochs: int = 200
    patience: int = 50
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    dropout: float = 0.0
    batch_size: int = 20
    clip: float = 2.0
    link_weight: float = 1.0
    entropy_weight: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("patience", 1), ("batch_size", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise SettingError(
                    f"expected {name} of at least {least}, got {getattr(self, name)}"
                )
        for name in ("learning_rate", "clip"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise SettingError(f"expected {name} above 0, got {value}")
        for name in ("weight_decay", "link_weight", "entropy_weight"):
            value = getattr(self, name)
            if not (value >= 0 and math.isfinite(value)):
                raise SettingError(f"expected {name} of at least 0, got {value}")
        if not 0 <= self.dropout < 1:
            raise SettingError(f"expected dropout of at least 0 and below 1, got {self.dropout}")

    @property
    def loss_weights(self) -> dict[str, float]:
        """The weight of each named loss of the poolers; a name that is not here counts with weight 1."""
        return {"link": self.link_weight, "entropy": self.entropy_weight}
