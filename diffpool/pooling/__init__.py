"""DiffPool as a layer for models in PyTorch Geometric's style; it needs tensors only."""

from diffpool.pooling.captured import CapturedStep, StepBatch, captured_step
from diffpool.pooling.layer import DiffPooling
from diffpool.pooling.output import PoolingOutput

__all__ = ["CapturedStep", "DiffPooling", "PoolingOutput", "StepBatch", "captured_step"]
