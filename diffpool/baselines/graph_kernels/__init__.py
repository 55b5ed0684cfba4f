"""Graph kernels: see docs/kernels.md. `graph_kernels.svm` is the classifier that uses them."""

from diffpool.baselines.graph_kernels.base import GraphKernel
from diffpool.baselines.graph_kernels.degree_graphlet import DegreeGraphlet
from diffpool.baselines.graph_kernels.graphlet import Graphlet
from diffpool.baselines.graph_kernels.registry import KERNELS, gram_matrices
from diffpool.baselines.graph_kernels.shortest_path import ShortestPath
from diffpool.baselines.graph_kernels.weisfeiler_lehman import (
    WeisfeilerLehman,
    WeisfeilerLehmanAssignment,
)

__all__ = [
    "KERNELS",
    "DegreeGraphlet",
    "GraphKernel",
    "Graphlet",
    "ShortestPath",
    "WeisfeilerLehman",
    "WeisfeilerLehmanAssignment",
    "gram_matrices",
]
