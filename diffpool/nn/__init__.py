from diffpool.nn.architecture import (
    PAPER,
    PRESETS,
    RELEASED,
    Architecture,
    build,
    build_for_nodes,
    cluster_counts,
    flat,
)
from diffpool.nn.classifier import Clusters, GraphClassifier, Head, Prediction, mlp
from diffpool.nn.convolutions import Dgcnn, EdgeSage, Gcn, Gin, NodeWise, Sage, SumConv
from diffpool.nn.dropout import Dropout
from diffpool.nn.edge_conditioned import EdgeConditioned
from diffpool.nn.encoder import Encoder
from diffpool.nn.linear import Linear
from diffpool.nn.node_classifier import NodeClassifier
from diffpool.nn.norm import BatchNorm, L2Norm, NodeIndexNorm, Standardise
from diffpool.nn.poolers import (
    Assignment,
    DiffPool,
    GivenClusters,
    HardDiffPool,
    Pooled,
    PyramidPool,
    UniformClusters,
)
from diffpool.nn.receptive_fields import FieldConvolution
from diffpool.nn.set2set import Set2Set
from diffpool.nn.side_by_side import check_models, take
from diffpool.nn.sort_pool import SortPool
from diffpool.nn.structure2vec import Structure2Vec

__all__ = [
    "PAPER",
    "PRESETS",
    "RELEASED",
    "Architecture",
    "Assignment",
    "BatchNorm",
    "Clusters",
    "Dgcnn",
    "DiffPool",
    "Dropout",
    "EdgeConditioned",
    "EdgeSage",
    "Encoder",
    "FieldConvolution",
    "Gcn",
    "Gin",
    "GivenClusters",
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
    "PyramidPool",
    "Sage",
    "Set2Set",
    "SortPool",
    "Standardise",
    "Structure2Vec",
    "SumConv",
    "UniformClusters",
    "build",
    "build_for_nodes",
    "check_models",
    "cluster_counts",
    "flat",
    "mlp",
    "take",
]
