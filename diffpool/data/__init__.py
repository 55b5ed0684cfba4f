from diffpool.data.categories import Categories
from diffpool.data.convert import as_raw
from diffpool.data.dataset import GraphBatch, GraphDataset, sparse_graphs
from diffpool.data.embedded import embedded
from diffpool.data.features import FeatureMap
from diffpool.data.raw import RawGraphs
from diffpool.data.sources import iter_graphs, load_dataset, read_graphs, read_raw
from diffpool.data.splits import Fold, hold_out, read_folds, single_split, stratified_folds

__all__ = [
    "Categories",
    "FeatureMap",
    "Fold",
    "GraphBatch",
    "GraphDataset",
    "RawGraphs",
    "as_raw",
    "embedded",
    "hold_out",
    "iter_graphs",
    "load_dataset",
    "read_folds",
    "read_graphs",
    "read_raw",
    "single_split",
    "sparse_graphs",
    "stratified_folds",
]
