from diffpool.nn.architecture import PAPER, PRESETS, RELEASED, Architecture, build, flat
from diffpool.nn.classifier import Clusters, GraphClassifier, Head, Prediction, mlp
from diffpool.nn.convolutions import EdgeSage, Gcn, Gin, Sage, SumConv
from diffpool.nn.dropout import Dropout
from diffpool.nn.encoder import Encoder
from diffpool.nn.linear import Linear
from diffpool.nn.norm import BatchNorm, L2Norm, NodeIndexNorm, Standardise
from diffpool.nn.poolers import Assignment, DiffPool, Pooled
from diffpool.nn.side_by_side import check_models, take

__all__ = [
    "PAPER",
    "PRESETS",
    "RELEASED",
    "Architecture",
    "Assignment",
    "BatchNorm",
    "Clusters",
    "DiffPool",
    "Dropout",
    "EdgeSage",
    "Encoder",
    "Gcn",
    "Gin",
    "GraphClassifier",
    "Head",
    "L2Norm",
    "Linear",
    "NodeIndexNorm",
    "Pooled",
    "Prediction",
    "Sage",
    "Standardise",
    "SumConv",
    "build",
    "check_models",
    "flat",
    "mlp",
    "take",
]
