"""One graph for the page: its edges, and every level with positions, colors, clusters and memberships, as JSON values.

Positions are integers in hundredths of the median edge, memberships in thousandths. Edges are sorted pairs i < j, as
the number of edges at each i and the differences between successive j: repeated patterns, which compress well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from diffpool.explorer.layout import apart, positions
from diffpool.viz.hierarchy import Ordered, name, ordered
from diffpool.viz.positions import centers

UNIT = 100  # steps in the length of a median edge
RADIUS = 0.3  # of an input node; that of a cluster grows with the square root of its size
MIN_MEMBERSHIP, MAX_MEMBERSHIPS = 0.01, 6  # of a node: smaller and further ones are left out
MIN_WEIGHT, MAX_EDGES = 0.02, 3000  # of the edges between clusters: share of the largest, number

Json = dict[str, Any]


def levels(
    nodes: int,
    ends: np.ndarray,
    coarser: Sequence[np.ndarray],
    assignments: Sequence[np.ndarray],
    given: np.ndarray | None = None,
) -> tuple[list[Json], Ordered]:
    """All levels of a graph with edges between `ends` [E, 2], and which clusters they show.

    `coarser` has the adjacency matrix of every coarser level, `assignments` the matrix of every pooling. `given`:
    positions of the input nodes [n, 2].
    """
    found = ordered(nodes, assignments)
    place = positions(nodes, ends) if given is None else given
    place = apart(place, np.full(nodes, RADIUS))
    drawn = [_level(found, 0, place) | {"edges": pairs(nodes, ends)}]
    for number, (s, adjacency) in enumerate(zip(assignments, coarser, strict=True), start=1):
        rows, kept = found.columns[number - 1], found.columns[number]
        s = s[np.ix_(rows, kept)]
        drawn[-1] |= _memberships(s) | {"cluster": found.clusters[number - 1].tolist()}
        place = centers(s * found.mass[number - 1][rows, None], place)
        place = apart(place, RADIUS * np.sqrt(np.maximum(found.mass[number][kept], 1.0)))
        drawn.append(_level(found, number, place) | _weights(adjacency[np.ix_(kept, kept)]))
    return drawn, found


def pairs(nodes: int, ends: np.ndarray) -> Json:
    """Sorted pairs i < j [E, 2]: how many begin at each i, and each j minus the one before it (at first, minus i)."""
    i, j = ends.T
    before = np.concatenate([[0], j[:-1]])
    starts = np.concatenate([[True], i[1:] != i[:-1]]) if len(i) else np.zeros(0, bool)
    return {
        "count": np.bincount(i, minlength=nodes).tolist(),
        "step": (j - np.where(starts, i, before)).tolist(),
    }


def _level(found: Ordered, number: int, place: np.ndarray) -> Json:
    x, y = np.rint(place * UNIT).astype(int).T.tolist() if len(place) else ([], [])
    level: Json = {"x": x, "y": y}
    kept = found.columns[number]
    if number:
        level |= {
            "names": [name(number, index) for index in range(len(kept))],
            "color": [hex_color(color) for color in found.colors[number]],
            "mass": np.round(found.mass[number][kept], 2).tolist(),
            "column": kept.tolist(),
        }
    return level


def hex_color(color: np.ndarray) -> str:
    """A color [3] as `#rrggbb`."""
    return "#" + "".join(f"{round(255 * float(part)):02x}" for part in color.clip(0, 1))


def _memberships(s: np.ndarray) -> Json:
    """The largest entries of every row of S [n, k]."""
    count = min(MAX_MEMBERSHIPS, s.shape[1])
    order = np.argsort(-s, axis=1, kind="stable")[:, :count]
    share = np.take_along_axis(s, order, 1)
    kept = share >= MIN_MEMBERSHIP
    kept[:, :1] = True  # the first choice
    return {
        "choices": kept.sum(1).tolist(),
        "to": order[kept].tolist(),
        "share": np.rint(share[kept] * 1000).astype(int).tolist(),
    }


def _weights(adjacency: np.ndarray) -> Json:
    """The strongest edges between clusters, the weight within each, and the weight between it and all others."""
    adjacency = (adjacency + adjacency.T) / 2
    inside = np.diag(adjacency).copy()
    np.fill_diagonal(adjacency, 0)
    i, j = np.nonzero(np.triu(adjacency, 1) > MIN_WEIGHT * adjacency.max(initial=0))
    strongest = np.argsort(-adjacency[i, j], kind="stable")[:MAX_EDGES]
    strongest = strongest[np.lexsort((j[strongest], i[strongest]))]
    i, j = i[strongest], j[strongest]
    return {
        "edges": pairs(len(adjacency), np.stack([i, j], 1)),
        "weight": significant(adjacency[i, j]),
        "inside": significant(inside),
        "outside": significant(adjacency.sum(1)),
    }


def significant(values: np.ndarray, digits: int = 4) -> list[Any]:
    """The values with this many significant digits, as lists; whole numbers as integers."""
    size = np.floor(np.log10(np.maximum(np.abs(values), 1e-30)))
    factor = 10.0 ** np.clip(digits - 1 - size, -300, 300)
    rounded = np.round(values * factor) / factor
    whole = np.abs(rounded) < 1e15
    if whole.all() and (rounded == np.rint(rounded)).all():
        return rounded.astype(np.int64).tolist()
    return rounded.tolist()
