from diffpool.training.config import Training
from diffpool.training.loop import (
    Epoch,
    Scores,
    evaluate,
    total_loss,
    train,
    train_step,
)
from diffpool.training.model_directory import ModelCard, load_model, save_model
from diffpool.training.optimiser import Optimiser

__all__ = [
    "Epoch",
    "ModelCard",
    "Optimiser",
    "Scores",
    "Training",
    "evaluate",
    "load_model",
    "save_model",
    "total_loss",
    "train",
    "train_step",
]
