"""ECC (Simonovsky and Komodakis, 2017). `ecc.pyramid` builds its coarser graphs and needs SciPy: import it directly."""

from diffpool.baselines.ecc.edge_conditioned import EdgeConditioned
from diffpool.baselines.ecc.pool import PyramidPool

__all__ = ["EdgeConditioned", "PyramidPool"]
