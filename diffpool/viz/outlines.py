"""Dotted outlines around the connected nodes of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path

CELLS = 60  # of the grid for an outline, along a distance of ten radii
MAX_CELLS = 400
DENSE = 4  # edges per node


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

    def draw(self, axes: Axes, color: np.ndarray, others: np.ndarray) -> None:
        """A dotted line around a pale area, with holes only around other nodes at these positions [n, 2]."""
        contour = axes.contour(self.x, self.y, self.field, levels=[0])
        loops = contour.get_paths()[0].to_polygons()
        contour.remove()
        areas = [_signed_area(loop) for loop in loops]
        outside = np.sign(areas[int(np.argmax(np.abs(areas)))])  # holes run in the other direction
        kept = [
            Path(loop, closed=True)
            for loop, area in zip(loops, areas, strict=True)
            if np.sign(area) == outside or Path(loop).contains_points(others).any()
        ]
        shape = Path.make_compound_path(*kept)
        area = {"facecolor": (*color, 0.16), "edgecolor": "none", "zorder": 0.5}
        line = {"facecolor": "none", "edgecolor": "#30363b", "zorder": 0.8}
        axes.add_patch(PathPatch(shape, **area))
        axes.add_patch(PathPatch(shape, linestyle="dotted", linewidth=0.9, **line))

    def point_outside(self, distance: float, others: np.ndarray) -> np.ndarray:
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
    step = max(10 * reach / CELLS, float((high - low).max()) / MAX_CELLS)
    x, y = (np.arange(low[i], high[i] + step, step) for i in (0, 1))
    field = np.full((len(y), len(x)), 2.5 * reach)
    narrow = 0.6 * float(radii[nodes].min()) + 0.5 * margin
    bands = [(node, node, radii[node] + margin) for node in nodes]
    bands += [(nodes[i], nodes[j], narrow) for i, j in _links(adjacency, positions, nodes)]
    for i, j, width in bands:
        ends = positions[[i, j]]
        window = tuple(
            slice(
                *np.searchsorted(axis, [ends[:, k].min() - 2 * reach, ends[:, k].max() + 2 * reach])
            )
            for axis, k in ((y, 1), (x, 0))
        )
        grid = np.stack(np.meshgrid(x[window[1]], y[window[0]]), -1)  # [y, x, 2]
        field[window] = np.minimum(field[window], _to_segment(grid, *ends) - width)
    return Outline(x, y, field)


def _links(adjacency: np.ndarray, positions: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """The edges inside a region that shape its outline, as indices into `nodes`: [m, 2].

    Of dense regions, only the edges of a shortest tree.
    """
    links = np.argwhere(np.triu(adjacency[np.ix_(nodes, nodes)], 1) > 0)
    if len(links) <= DENSE * len(nodes):
        return links
    lengths = np.linalg.norm(positions[nodes[links[:, 0]]] - positions[nodes[links[:, 1]]], axis=1)
    graph = nx.Graph()
    graph.add_weighted_edges_from(zip(*links.T.tolist(), lengths.tolist(), strict=True))
    return np.array(list(nx.minimum_spanning_edges(graph, data=False)))


def _signed_area(loop: Any) -> float:
    """The area of a polygon [n, 2], negative if it runs clockwise."""
    x, y = np.asarray(loop).T
    return float((x * np.roll(y, -1) - y * np.roll(x, -1)).sum()) / 2


def _to_segment(grid: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The distance of every point of a grid [y, x, 2] to a line segment: [y, x]."""
    along = end - start
    share = ((grid - start) @ along / max(float(along @ along), 1e-12)).clip(0, 1)
    return np.linalg.norm(grid - start - share[..., None] * along, axis=-1)
