"""Hierarchical graph classification with differentiable pooling (Ying et al., 2018).

Names are imported on first use, so that `import diffpool` and `diffpool --help` do not wait for torch.
"""

from typing import TYPE_CHECKING

from diffpool.errors import DiffPoolError
from diffpool.lazy import lazy_names
from diffpool.version import VERSION

if TYPE_CHECKING:
    from diffpool.architecture import Architecture
    from diffpool.attribution import explain
    from diffpool.builder import build
    from diffpool.data import GraphDataset, RawGraphs, as_raw, embedded, load_dataset, read_graphs
    from diffpool.estimator import DiffPoolClassifier, DiffPoolRegressor
    from diffpool.experiments import tune
    from diffpool.explorer import explore
    from diffpool.graphs import DenseGraphs, SparseGraphs
    from diffpool.nn import DiffPool, GraphClassifier
    from diffpool.pooling import DiffPooling, PoolingOutput, captured_step
    from diffpool.training import TrainedModel, Training, load_model, save_model, train
    from diffpool.tuned_estimator import TunedClassifier, TunedRegressor

__version__ = VERSION

__all__ = [
    "Architecture",
    "DenseGraphs",
    "DiffPool",
    "DiffPoolClassifier",
    "DiffPoolError",
    "DiffPoolRegressor",
    "DiffPooling",
    "GraphClassifier",
    "GraphDataset",
    "PoolingOutput",
    "RawGraphs",
    "SparseGraphs",
    "TrainedModel",
    "Training",
    "TunedClassifier",
    "TunedRegressor",
    "__version__",
    "as_raw",
    "build",
    "captured_step",
    "embedded",
    "explain",
    "explore",
    "load_dataset",
    "load_model",
    "read_graphs",
    "save_model",
    "train",
    "tune",
]

__getattr__ = lazy_names(
    __name__,
    {
        "architecture": "Architecture",
        "attribution": "explain",
        "builder": "build",
        "data": "GraphDataset RawGraphs as_raw embedded load_dataset read_graphs",
        "estimator": "DiffPoolClassifier DiffPoolRegressor",
        "experiments": "tune",
        "explorer": "explore",
        "graphs": "DenseGraphs SparseGraphs",
        "nn": "DiffPool GraphClassifier",
        "pooling": "DiffPooling PoolingOutput captured_step",
        "training": "TrainedModel Training load_model save_model train",
        "tuned_estimator": "TunedClassifier TunedRegressor",
    },
)


def __dir__() -> list[str]:
    return __all__
