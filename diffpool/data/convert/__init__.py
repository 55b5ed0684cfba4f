"""Conversion of graphs in memory from other libraries."""

from diffpool.data.convert.graphs import as_column, as_raw
from diffpool.data.convert.values import with_y

__all__ = ["as_column", "as_raw", "with_y"]
