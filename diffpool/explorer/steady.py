"""Colors that stay while a model is trained: a cluster keeps its color from one epoch to the next."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from diffpool.explorer.levels import Json, hex_color
from diffpool.viz.palette import distinct_colors, rgb


class Steady:
    """Gives every column of the first assignment matrix of a graph a color, when it is first in use."""

    def __init__(self) -> None:
        self._number: dict[int, dict[int, int]] = {}  # of each column of each graph

    def paint(self, graph: int, levels: Sequence[Json]) -> None:
        """Replace the colors of the clusters. Those of later poolings are the means of their members' colors."""
        if len(levels) < 2:
            return
        known = self._number.setdefault(graph, {})
        numbers = [known.setdefault(column, len(known)) for column in levels[1]["column"]]
        colors = distinct_colors(len(known))[numbers]
        levels[1]["color"] = [hex_color(color) for color in colors]
        for lower, upper in pairwise(levels[1:]):
            mixed = np.zeros((len(upper["column"]), 3))
            weights = np.zeros(len(mixed))
            for name, cluster, mass in zip(
                lower["color"], lower["cluster"], lower["mass"], strict=True
            ):
                mixed[cluster] += max(mass, 1e-9) * rgb(name)
                weights[cluster] += max(mass, 1e-9)
            upper["color"] = [hex_color(color) for color in mixed / weights[:, None]]
