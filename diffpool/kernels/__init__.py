from diffpool.kernels.base import GraphKernel
from diffpool.kernels.degree_graphlet import DegreeGraphlet
from diffpool.kernels.graphlet import Graphlet
from diffpool.kernels.matrices import KERNELS, gram_matrices
from diffpool.kernels.shortest_path import ShortestPath
from diffpool.kernels.weisfeiler_lehman import WeisfeilerLehman, WeisfeilerLehmanAssignment

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
