"""The networks: convolutions, encoders, poolers, classifiers.

Each part can be used alone. The examples here use a batch of two graphs, a path of four nodes and a triangle:

    >>> import torch
    >>> from diffpool import SparseGraphs
    >>> edge_index = torch.tensor([[0, 1, 1, 2, 2, 3, 4, 5, 5, 6, 6, 4], [1, 0, 2, 1, 3, 2, 5, 4, 6, 5, 4, 6]])
    >>> batch = torch.tensor([0, 0, 0, 0, 1, 1, 1])  # the graph of each node: [N]
    >>> graphs = SparseGraphs.from_edge_index(edge_index, batch)
    >>> x = torch.rand(7, 3)  # features of the nodes: [N, 3]
"""

from diffpool.nn.classifier import Clusters, GraphClassifier, Head, Prediction, mlp
from diffpool.nn.convolutions import Dgcnn, EdgeSage, Gcn, Gin, NodeWise, Sage, SumConv
from diffpool.nn.encoder import Encoder
from diffpool.nn.linear import Linear
from diffpool.nn.node_classifier import NodeClassifier
from diffpool.nn.norm import BatchNorm, L2Norm, NodeIndexNorm, Standardize
from diffpool.nn.poolers import Assignment, DiffPool, HardDiffPool, Pooled, Pooler
from diffpool.nn.random import LayerRandom, Random
from diffpool.nn.side_by_side import check_models, take

__all__ = [
    "Assignment",
    "BatchNorm",
    "Clusters",
    "Dgcnn",
    "DiffPool",
    "EdgeSage",
    "Encoder",
    "Gcn",
    "Gin",
    "GraphClassifier",
    "HardDiffPool",
    "Head",
    "L2Norm",
    "LayerRandom",
    "Linear",
    "NodeClassifier",
    "NodeIndexNorm",
    "NodeWise",
    "Pooled",
    "Pooler",
    "Prediction",
    "Random",
    "Sage",
    "Standardize",
    "SumConv",
    "check_models",
    "mlp",
    "take",
]
