"""Reading, checking and converting graphs; features; splits. Names are imported on first use."""

from typing import TYPE_CHECKING

from diffpool.lazy import lazy_names

if TYPE_CHECKING:
    from diffpool.data.categories import Categories
    from diffpool.data.column_names import ColumnNames
    from diffpool.data.convert import as_column, as_raw
    from diffpool.data.dataset import GraphBatch, GraphDataset, sparse_graphs
    from diffpool.data.features import FeatureMap
    from diffpool.data.generated import embedded
    from diffpool.data.raw import RawGraphs
    from diffpool.data.sources import iter_graphs, load_dataset, read_graphs, read_raw
    from diffpool.data.splits import Fold, hold_out, read_folds, single_split, stratified_folds
    from diffpool.data.stored import store_graphs

__all__ = [
    "Categories",
    "ColumnNames",
    "FeatureMap",
    "Fold",
    "GraphBatch",
    "GraphDataset",
    "RawGraphs",
    "as_column",
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
    "store_graphs",
    "stratified_folds",
]

__getattr__ = lazy_names(
    __name__,
    {
        "categories": "Categories",
        "column_names": "ColumnNames",
        "convert": "as_column as_raw",
        "dataset": "GraphBatch GraphDataset sparse_graphs",
        "features": "FeatureMap",
        "generated": "embedded",
        "raw": "RawGraphs",
        "sources": "iter_graphs load_dataset read_graphs read_raw",
        "splits": "Fold hold_out read_folds single_split stratified_folds",
        "stored": "store_graphs",
    },
)
