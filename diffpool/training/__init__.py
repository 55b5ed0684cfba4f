"""Batches, steps, epochs, scores, model directories, predictions. Names are imported on first use."""

from typing import TYPE_CHECKING

from diffpool.lazy import lazy_names

if TYPE_CHECKING:
    from diffpool.training.callbacks import Callback, Observer, StopTraining
    from diffpool.training.cohort import Cohort, Epoch, fit_inputs, train
    from diffpool.training.cohort_batches import CohortBatch, CohortBatches
    from diffpool.training.distributed import Processes
    from diffpool.training.loss_targets import LossTargets, target_scale
    from diffpool.training.memory import (
        TOO_LITTLE_FOR_ONE,
        is_out_of_memory,
        models_fit,
        release_memory,
    )
    from diffpool.training.metrics import classification_metrics, metrics_text, regression_metrics
    from diffpool.training.model_directory import (
        ModelCard,
        Save,
        reserve_directory,
        save_model,
    )
    from diffpool.training.optimizer import Optimizer
    from diffpool.training.predict import (
        TrainedModel,
        as_trained_model,
        load_model,
        unseen_message,
    )
    from diffpool.training.prediction_files import Predictions, write_predictions
    from diffpool.training.scores import (
        Scorer,
        Scores,
        check_outputs,
        outputs_of,
        score,
        score_cohort,
    )
    from diffpool.training.settings import Training
    from diffpool.training.step import EagerSteps, loss_weights, total_loss, train_step
    from diffpool.training.tensorboard import TensorBoard

__all__ = [
    "TOO_LITTLE_FOR_ONE",
    "Callback",
    "Cohort",
    "CohortBatch",
    "CohortBatches",
    "EagerSteps",
    "Epoch",
    "LossTargets",
    "ModelCard",
    "Observer",
    "Optimizer",
    "Predictions",
    "Processes",
    "Save",
    "Scorer",
    "Scores",
    "StopTraining",
    "TensorBoard",
    "TrainedModel",
    "Training",
    "as_trained_model",
    "check_outputs",
    "classification_metrics",
    "fit_inputs",
    "is_out_of_memory",
    "load_model",
    "loss_weights",
    "metrics_text",
    "models_fit",
    "outputs_of",
    "regression_metrics",
    "release_memory",
    "reserve_directory",
    "save_model",
    "score",
    "score_cohort",
    "target_scale",
    "total_loss",
    "train",
    "train_step",
    "unseen_message",
    "write_predictions",
]

__getattr__ = lazy_names(
    __name__,
    {
        "callbacks": "Callback Observer StopTraining",
        "loss_targets": "LossTargets target_scale",
        "cohort": "Cohort Epoch fit_inputs train",
        "cohort_batches": "CohortBatch CohortBatches",
        "distributed": "Processes",
        "memory": "TOO_LITTLE_FOR_ONE is_out_of_memory models_fit release_memory",
        "metrics": "classification_metrics metrics_text regression_metrics",
        "model_directory": "ModelCard Save reserve_directory save_model",
        "optimizer": "Optimizer",
        "predict": "TrainedModel as_trained_model load_model unseen_message",
        "prediction_files": "Predictions write_predictions",
        "scores": "Scorer Scores check_outputs outputs_of score score_cohort",
        "settings": "Training",
        "step": "EagerSteps loss_weights total_loss train_step",
        "tensorboard": "TensorBoard",
    },
)
