"""Hierarchical graph classification with differentiable pooling (Ying et al., 2018)."""

from typing import Any

from diffpool.architecture import Architecture
from diffpool.builder import build
from diffpool.data import GraphDataset, RawGraphs, as_raw, embedded, load_dataset, read_graphs
from diffpool.errors import DiffPoolError
from diffpool.graphs import DenseGraphs, SparseGraphs
from diffpool.nn import DiffPool, GraphClassifier
from diffpool.training import TrainedModel, Training, load_model, save_model, train
from diffpool.version import VERSION

__version__ = VERSION

__all__ = [
    "Architecture",
    "DenseGraphs",
    "DiffPool",
    "DiffPoolClassifier",
    "DiffPoolError",
    "DiffPoolRegressor",
    "GraphClassifier",
    "GraphDataset",
    "RawGraphs",
    "SparseGraphs",
    "TrainedModel",
    "Training",
    "__version__",
    "as_raw",
    "build",
    "embedded",
    "load_dataset",
    "load_model",
    "read_graphs",
    "save_model",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in (
        "DiffPoolClassifier",
        "DiffPoolRegressor",
    ):  # imported on first use, because it imports scikit-learn
        from diffpool import estimator

        return getattr(estimator, name)
    raise AttributeError(f"module 'diffpool' has no attribute {name!r}")
