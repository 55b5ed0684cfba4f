from diffpool.training.config import Training
from diffpool.training.loop import Epoch, Scores, evaluate, total_loss, train
from diffpool.training.model_directory import ModelCard, load_model, save_model

__all__ = [
    "Epoch",
    "ModelCard",
    "Scores",
    "Training",
    "evaluate",
    "load_model",
    "save_model",
    "total_loss",
    "train",
]
