from diffpool.data.dataset import GraphBatch, GraphDataset
from diffpool.data.embedded import embedded
from diffpool.data.load import load_dataset
from diffpool.data.splits import Fold, single_split

__all__ = ["Fold", "GraphBatch", "GraphDataset", "embedded", "load_dataset", "single_split"]
