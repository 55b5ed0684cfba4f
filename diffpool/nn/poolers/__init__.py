from diffpool.nn.poolers.diffpool import DiffPool
from diffpool.nn.poolers.pooler import Assignment, Pooled

__all__ = ["Assignment", "DiffPool", "Pooled"]
