from diffpool.nn.poolers.diffpool import DiffPool
from diffpool.nn.poolers.fixed import GivenClusters, UniformClusters
from diffpool.nn.poolers.hard import HardDiffPool
from diffpool.nn.poolers.pooler import Assignment, Pooled
from diffpool.nn.poolers.pyramid import PyramidPool

__all__ = [
    "Assignment",
    "DiffPool",
    "GivenClusters",
    "HardDiffPool",
    "Pooled",
    "PyramidPool",
    "UniformClusters",
]
