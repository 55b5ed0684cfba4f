"""The settings of a training run."""

from __future__ import annotations

from dataclasses import dataclass

from diffpool.settings import check_settings, setting

MAX_EPOCHS = 1_000_000
MAX_SEED = 2**64 - 1  # PyTorch's generators take 64-bit seeds


@dataclass(frozen=True)
class Training:
    """How a model is trained."""

    epochs: int = setting(
        200, help="Maximum number of epochs.", low=1, high=MAX_EPOCHS, searchable=False
    )
    patience: int = setting(
        50,
        help="Stop after this many epochs without improvement on the validation graphs; see monitor.",
        low=1,
        high=MAX_EPOCHS,
        searchable=False,
    )
    monitor: str = setting(
        "loss",
        help="Validation score that selects the best epoch: the loss, or the accuracy (ties go to the lower loss).",
        choices=("loss", "accuracy"),
    )
    learning_rate: float = setting(1e-3, help="Adam's learning rate.", above=0)
    weight_decay: float = setting(0.0, help="Weight decay, applied to weight matrices.", low=0)
    dropout: float = setting(
        0.0, help="Dropout rate before each linear layer of the head.", low=0, below=1
    )
    batch_size: int = setting(20, help="Batch size (graphs per step).", low=1, high=2**20)
    clip: float = setting(
        2.0, help="Maximum gradient norm, for clipping.", above=0, group="Advanced"
    )
    link_weight: float = setting(1.0, help="Weight of the link loss ‖A − SSᵀ‖.", low=0)
    entropy_weight: float = setting(
        1.0, help="Weight of the entropy loss of the assignment S.", low=0
    )
    ensemble: int = setting(
        1,
        help="Number of models to train and average, each with its own seed and validation graphs; "
        "diffpool tune trains 10 by default.",
        low=1,
        high=1000,
        searchable=False,
    )
    class_weight: str | None = setting(
        None,
        help="Class weights in the loss. balanced gives every class the same total weight.",
        choices=("balanced",),
        none="every graph has weight 1",
        searchable=False,
    )
    batch_statistics: str = setting(
        "synchronized",
        help="Data-parallel training: batch normalization over the whole batch, as on one device, or over the shard of "
        "each process, which is faster.",
        choices=("synchronized", "shard"),
        searchable=False,
        group="Advanced",
    )
    seed: int = setting(
        0,
        help="Random seed for the split, the initial parameters, the batches, dropout and generated data.",
        low=0,
        high=MAX_SEED,
        searchable=False,
    )

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def loss_weights(self) -> dict[str, float]:
        """The weight of each named loss of the poolers; other losses have weight 1."""
        return {"link": self.link_weight, "entropy": self.entropy_weight}
