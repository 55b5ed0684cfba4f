"""The networks: convolutions, encoders, poolers, classifiers."""

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
