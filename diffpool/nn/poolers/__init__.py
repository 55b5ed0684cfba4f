"""The poolers of the paper, and the protocol that every pooler follows."""

from diffpool.nn.poolers.diffpool import DiffPool
from diffpool.nn.poolers.hard import HardDiffPool
from diffpool.nn.poolers.pooler import AnyAssignment, Assignment, Pooled, Pooler

__all__ = ["AnyAssignment", "Assignment", "DiffPool", "HardDiffPool", "Pooled", "Pooler"]
