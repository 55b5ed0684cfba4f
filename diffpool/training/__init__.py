from diffpool.training.cohort_batches import CohortBatch, CohortBatches
from diffpool.training.config import Training
from diffpool.training.loop import (
    Cohort,
    Epoch,
    Scores,
    evaluate,
    evaluate_cohort,
    fit_inputs,
    loss_weights,
    total_loss,
    train,
    train_step,
)
from diffpool.training.model_directory import ModelCard, save_model
from diffpool.training.optimiser import Optimiser
from diffpool.training.predictions import write_predictions
from diffpool.training.trained_model import TrainedModel, load_model, unseen_message

__all__ = [
    "Cohort",
    "CohortBatch",
    "CohortBatches",
    "Epoch",
    "ModelCard",
    "Optimiser",
    "Scores",
    "TrainedModel",
    "Training",
    "evaluate",
    "evaluate_cohort",
    "fit_inputs",
    "load_model",
    "loss_weights",
    "save_model",
    "total_loss",
    "train",
    "train_step",
    "unseen_message",
    "write_predictions",
]
