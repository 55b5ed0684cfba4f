"""Graclus: clusters with a small normalized cut (Dhillon, Guan and Kulis, 2007)."""

from diffpool.baselines.graclus.kernel_kmeans import normalized_cut
from diffpool.baselines.graclus.multilevel import graclus, hierarchy

__all__ = ["graclus", "hierarchy", "normalized_cut"]
