from diffpool.training.config import Training
from diffpool.training.loop import (
    Epoch,
    Scores,
    evaluate,
    fit_inputs,
    total_loss,
    train,
    train_step,
)
from diffpool.training.model_directory import ModelCard, save_model
from diffpool.training.optimiser import Optimiser
from diffpool.training.predictions import write_predictions
from diffpool.training.trained_model import TrainedModel, load_model, unseen_message

__all__ = [
    "Epoch",
    "ModelCard",
    "Optimiser",
    "Scores",
    "TrainedModel",
    "Training",
    "evaluate",
    "fit_inputs",
    "load_model",
    "save_model",
    "total_loss",
    "train",
    "train_step",
    "unseen_message",
    "write_predictions",
]
