"""Dotted outlines around the connected nodes of a cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

CELLS = 60  # of the grid for an outline, along a distance of ten radii
MOST_CELLS = 400


@dataclass(frozen=True, eq=False)
class Region:
    """Connected nodes of one cluster."""

    cluster: int
    nodes: np.ndarray


def regions(adjacency: np.ndarray, cluster: np.ndarray) -> list[Region]:
    """The connected parts of every cluster, by cluster, the largest first; `cluster` [n] is that of each node."""
    found = []
    for number in np.unique(cluster):
        members = np.flatnonzero(cluster == number)
        parts = _components(adjacency[np.ix_(members, members)] > 0)
        parts.sort(key=lambda part: (-len(part), part[0]))
        found += [Region(int(number), members[part]) for part in parts]
    return found


def _components(linked: np.ndarray) -> list[list[int]]:
    left, parts = set(range(len(linked))), []
    while left:
        part, new = set(), [min(left)]
        while new:
            node = new.pop()
            if node not in part:
                part.add(node)
                new += np.flatnonzero(linked[node]).tolist()
        left -= part
        parts.append(sorted(part))
    return parts


@dataclass(frozen=True, eq=False)
class Outline:
    """The line at a distance of `margin` from the discs of a region and the edges between them."""

    x: np.ndarray  # of the columns of the field
    y: np.ndarray  # of its rows
    field: np.ndarray  # [y, x]: distance to the line, negative inside

    def draw(self, axes: Axes, color: np.ndarray) -> None:
        """A dotted line around a pale area."""
        where, line = (self.x, self.y, self.field), "#30363b"
        axes.contourf(*where, levels=[-np.inf, 0], colors=[tuple(color)], alpha=0.16, zorder=0.5)
        axes.contour(
            *where, levels=[0], colors=line, linestyles="dotted", linewidths=0.9, zorder=0.8
        )

    def place_outside(self, distance: float, others: np.ndarray) -> np.ndarray:
        """A point at this distance outside the line, as far as possible from other points [n, 2]: [2]."""
        step = self.x[1] - self.x[0]
        rows, columns = np.nonzero(np.abs(self.field - distance) <= step)
        points = np.stack([self.x[columns], self.y[rows]], 1)
        free = np.full(len(points), 4 * distance)  # more than this does not matter
        for other in others:
            free = np.minimum(free, np.linalg.norm(points - other, axis=1))
        return points[np.lexsort((points[:, 0], points[:, 1], np.round(free, 6)))[-1]]


def outline(
    region: Region, adjacency: np.ndarray, positions: np.ndarray, radii: np.ndarray, margin: float
) -> Outline:
    """The outline of a region, in a drawing with discs at these positions."""
    nodes = region.nodes
    reach = float(radii[nodes].max()) + margin
    low, high = positions[nodes].min(0) - 2.5 * reach, positions[nodes].max(0) + 2.5 * reach
    step = max(10 * reach / CELLS, float((high - low).max()) / MOST_CELLS)
    x, y = (np.arange(low[i], high[i] + step, step) for i in (0, 1))
    grid = np.stack(np.meshgrid(x, y), -1)  # [y, x, 2]
    field = np.full(grid.shape[:2], np.inf)
    for node in nodes:
        distance = np.linalg.norm(grid - positions[node], axis=-1)
        field = np.minimum(field, distance - radii[node] - margin)
    narrow = 0.6 * float(radii[nodes].min()) + 0.5 * margin
    for i, j in np.argwhere(np.triu(adjacency[np.ix_(nodes, nodes)], 1) > 0):
        edge = _to_segment(grid, positions[nodes[i]], positions[nodes[j]])
        field = np.minimum(field, edge - narrow)
    return Outline(x, y, field)


def _to_segment(grid: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The distance of every point of a grid [y, x, 2] to a line segment: [y, x]."""
    along = end - start
    share = ((grid - start) @ along / max(float(along @ along), 1e-12)).clip(0, 1)
    return np.linalg.norm(grid - start - share[..., None] * along, axis=-1)
