from diffpool.nn.classifier import Clusters, GraphClassifier, Head, Prediction, mlp
from diffpool.nn.convolutions import Dgcnn, EdgeSage, Gcn, Gin, NodeWise, Sage, SumConv
from diffpool.nn.dropout import Dropout
from diffpool.nn.encoder import Encoder
from diffpool.nn.linear import Linear
from diffpool.nn.node_classifier import NodeClassifier
from diffpool.nn.norm import BatchNorm, L2Norm, NodeIndexNorm, Standardize
from diffpool.nn.poolers import Assignment, DiffPool, HardDiffPool, Pooled
from diffpool.nn.side_by_side import check_models, take

__all__ = [
    "Assignment",
    "BatchNorm",
    "Clusters",
    "Dgcnn",
    "DiffPool",
    "Dropout",
    "EdgeSage",
    "Encoder",
    "Gcn",
    "Gin",
    "GraphClassifier",
    "HardDiffPool",
    "Head",
    "L2Norm",
    "Linear",
    "NodeClassifier",
    "NodeIndexNorm",
    "NodeWise",
    "Pooled",
    "Prediction",
    "Sage",
    "Standardize",
    "SumConv",
    "check_models",
    "mlp",
    "take",
]
