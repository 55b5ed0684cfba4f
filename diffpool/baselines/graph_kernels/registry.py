"""The graph kernels by name, and the Gram matrices that an evaluation chooses from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from diffpool.baselines.graph_kernels.base import GraphKernel
from diffpool.baselines.graph_kernels.degree_graphlet import DegreeGraphlet
from diffpool.baselines.graph_kernels.gram import ignore_progress
from diffpool.baselines.graph_kernels.graphlet import Graphlet
from diffpool.baselines.graph_kernels.shortest_path import ShortestPath
from diffpool.baselines.graph_kernels.weisfeiler_lehman import (
    WeisfeilerLehman,
    WeisfeilerLehmanAssignment,
)
from diffpool.data import RawGraphs
from diffpool.errors import SettingError

KERNELS: dict[str, type[GraphKernel]] = {
    "graphlet": Graphlet,
    "graphlet-degree": DegreeGraphlet,
    "shortest-path": ShortestPath,
    "wl": WeisfeilerLehman,
    "wl-oa": WeisfeilerLehmanAssignment,
}


def gram_matrices(
    name: str, raw: RawGraphs, watch: Callable[[float], None] | None = None
) -> dict[int | None, np.ndarray]:
    """The normalized Gram matrices [n, n] of all graphs, by refinement rounds h from 0 to 5; by None without rounds.

    The kernels have their default arguments. `watch` is called with the fraction done, from 0 to 1.
    """
    if name not in KERNELS:
        raise SettingError(f"expected the kernel to be one of {', '.join(KERNELS)}, got {name!r}")
    kernel = KERNELS[name]()
    grams = kernel.gram_by_level(raw, watch or ignore_progress)
    if isinstance(kernel, WeisfeilerLehman):
        return dict(enumerate(grams))
    return {None: grams[0]}
