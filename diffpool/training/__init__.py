from diffpool.training.config import Training
from diffpool.training.loop import (
    Epoch,
    Scores,
    evaluate,
    make_optimiser,
    total_loss,
    train,
    train_step,
)
from diffpool.training.model_directory import ModelCard, load_model, save_model

__all__ = [
    "Epoch",
    "ModelCard",
    "Scores",
    "Training",
    "evaluate",
    "load_model",
    "make_optimiser",
    "save_model",
    "total_loss",
    "train",
    "train_step",
]
