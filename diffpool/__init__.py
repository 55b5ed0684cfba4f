"""Hierarchical graph classification with differentiable pooling (Ying et al., 2018)."""

from diffpool.data import GraphDataset, embedded, load_dataset
from diffpool.errors import DiffPoolError
from diffpool.graphs import DenseGraphs, SparseGraphs
from diffpool.nn import Architecture, DiffPool, GraphClassifier, build
from diffpool.training import Training, load_model, save_model, train
from diffpool.version import VERSION

__version__ = VERSION

__all__ = [
    "Architecture",
    "DenseGraphs",
    "DiffPool",
    "DiffPoolError",
    "GraphClassifier",
    "GraphDataset",
    "SparseGraphs",
    "Training",
    "__version__",
    "build",
    "embedded",
    "load_dataset",
    "load_model",
    "save_model",
    "train",
]
