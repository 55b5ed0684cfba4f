from diffpool.training.cohort_batches import CohortBatch, CohortBatches
from diffpool.training.loop import Cohort, Epoch, fit_inputs, train
from diffpool.training.losses import loss_weights, total_loss
from diffpool.training.memory import (
    TOO_LITTLE_FOR_ONE,
    is_out_of_memory,
    one_model_fits,
    release_memory,
)
from diffpool.training.model_directory import (
    ARCHITECTURE_LATER,
    TRAINING_LATER,
    ModelCard,
    save_model,
)
from diffpool.training.optimizer import Optimizer
from diffpool.training.predictions import write_predictions
from diffpool.training.running import train_step
from diffpool.training.scores import Evaluation, Scores, evaluate, evaluate_cohort
from diffpool.training.settings import Training
from diffpool.training.trained_model import TrainedModel, load_model, unseen_message

__all__ = [
    "ARCHITECTURE_LATER",
    "TOO_LITTLE_FOR_ONE",
    "TRAINING_LATER",
    "Cohort",
    "CohortBatch",
    "CohortBatches",
    "Epoch",
    "Evaluation",
    "ModelCard",
    "Optimizer",
    "Scores",
    "TrainedModel",
    "Training",
    "evaluate",
    "evaluate_cohort",
    "fit_inputs",
    "is_out_of_memory",
    "load_model",
    "loss_weights",
    "one_model_fits",
    "release_memory",
    "save_model",
    "total_loss",
    "train",
    "train_step",
    "unseen_message",
    "write_predictions",
]
