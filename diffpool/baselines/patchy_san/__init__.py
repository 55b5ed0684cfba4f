"""PATCHY-SAN (Niepert, Ahmed and Kutzkov, 2016). Its receptive fields need igraph."""

from diffpool.baselines.patchy_san.convolution import FieldConvolution
from diffpool.baselines.patchy_san.labelings import LABELINGS
from diffpool.baselines.patchy_san.receptive_fields import field_edges, receptive_fields

__all__ = ["LABELINGS", "FieldConvolution", "field_edges", "receptive_fields"]
