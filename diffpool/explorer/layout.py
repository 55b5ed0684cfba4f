"""Positions of the nodes of a graph on the page: fast, because a page has thousands of graphs, and without NetworkX.

A connected graph of up to `MAX_EXACT` nodes is drawn by stress majorization: distances in the drawing follow those in
the graph. A larger one starts from pivot MDS (Brandes and Pich, 2007); then edges pull, and near nodes push.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra, shortest_path
from scipy.spatial import cKDTree

from diffpool.viz.positions import pack, upright

MAX_EXACT = 300  # nodes
STRESS_ROUNDS, TOLERANCE = 60, 1e-3  # at most, and the change of a position at which they end
PIVOTS = 40
FORCE_ROUNDS, NEAR = 50, 10  # rounds, and the number of nodes that push a node
PUSH_ROUNDS, MAX_PUSHED = 40, 200  # rounds of pushing discs apart; with more discs, none are pushed


def positions(nodes: int, ends: np.ndarray) -> np.ndarray:
    """Positions of nodes with edges between `ends` [E, 2], with edges of a median length of 1: [n, 2].

    Connected components are drawn separately, the largest at the top left.
    """
    links = _links(nodes, ends)
    _, part_of = connected_components(links, directed=False)
    order = np.argsort(part_of, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(part_of))[:-1]) if nodes else []
    parts.sort(key=lambda part: (-len(part), int(part[0])))
    found = np.zeros((nodes, 2))
    for part in parts:
        if len(part) > 1:
            found[part] = _connected(links[part][:, part] if len(parts) > 1 else links)
    if len(parts) > 1:
        pack(found, [part.tolist() for part in parts])
    return found


def _links(nodes: int, ends: np.ndarray) -> csr_array:
    both = np.concatenate([ends, ends[:, ::-1]])
    both = both[both[:, 0] != both[:, 1]]
    links = csr_array((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=(nodes, nodes))
    links.data[:] = 1
    return links


def _connected(links: csr_array) -> np.ndarray:
    row = np.repeat(np.arange(links.shape[0]), np.diff(links.indptr))
    once = row < links.indices
    ends = np.stack([row[once], links.indices[once]], 1)
    if links.shape[0] == 2:
        return np.array([[-0.5, 0.0], [0.5, 0.0]])
    if links.shape[0] <= MAX_EXACT:
        distances = shortest_path(links, unweighted=True, directed=False)
        return upright(stress(distances), ends)
    return upright(_forces(_pivot_mds(links), ends), ends)


def stress(distances: np.ndarray) -> np.ndarray:
    """Positions whose distances follow those of a connected graph [n, n], near ones most: [n, 2].

    Stress majorization (Gansner, Koren and North, 2005) with weights d⁻², from classical scaling.
    """
    n = len(distances)
    x = _scaled(distances) + 1e-3 * np.random.default_rng(0).standard_normal((n, 2))
    weights = 1 / np.maximum(distances, 1) ** 2
    np.fill_diagonal(weights, 0)
    laplacian = np.diag(weights.sum(1)) - weights
    inverse = np.linalg.inv(laplacian + 1 / n) - 1 / n
    wanted = weights * distances
    for _ in range(STRESS_ROUNDS):
        apart = np.sqrt(_squared_distances(x))
        b = -wanted / np.maximum(apart, 1e-9)
        np.fill_diagonal(b, 0)
        np.fill_diagonal(b, -b.sum(1))
        moved = inverse @ (b @ x)
        change = np.abs(moved - x).max()
        x = moved
        if change < TOLERANCE * max(1.0, float(distances.max())):
            break
    return x


def _squared_distances(x: np.ndarray) -> np.ndarray:
    squares = (x**2).sum(1)
    return np.maximum(squares[:, None] + squares[None] - 2 * x @ x.T, 0)


def _scaled(distances: np.ndarray) -> np.ndarray:
    """Classical scaling: [n, 2]."""
    squares = distances**2
    centered = squares - squares.mean(0) - squares.mean(1)[:, None] + squares.mean()
    values, vectors = np.linalg.eigh(-centered / 2)
    return vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0))


def _pivot_mds(links: csr_array) -> np.ndarray:
    """Positions from the distances to a few nodes far from each other: [n, 2]."""
    nearest = np.full(links.shape[0], np.inf)
    rows, pivot = [], 0
    for _ in range(min(PIVOTS, links.shape[0])):
        rows.append(dijkstra(links, directed=False, indices=pivot, unweighted=True))
        nearest = np.minimum(nearest, rows[-1])
        pivot = int(nearest.argmax())
    squares = np.stack(rows, 1) ** 2  # [n, pivots]
    centered = squares - squares.mean(0) - squares.mean(1)[:, None] + squares.mean()
    _, vectors = np.linalg.eigh(centered.T @ centered)
    return -centered @ vectors[:, -2:]


def _forces(x: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Edges become about equally long, and near nodes move apart: [n, 2]."""
    n = len(x)
    i, j = ends.T
    degree = np.bincount(ends.ravel(), minlength=n)
    x = x / max(float(np.median(np.linalg.norm(x[i] - x[j], axis=1))), 1e-9)
    x = x + 0.05 * np.random.default_rng(0).standard_normal(x.shape)
    for number in range(FORCE_ROUNDS):
        step = 0.5 * (1 - number / FORCE_ROUNDS) + 0.02
        along = x[j] - x[i]
        length = np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-9)
        pull = along * (length - 1) / length
        move = np.zeros_like(x)
        for axis in (0, 1):
            move[:, axis] += np.bincount(i, pull[:, axis], n) - np.bincount(j, pull[:, axis], n)
        move /= np.maximum(degree, 1)[:, None]
        distance, near = cKDTree(x).query(x, min(NEAR + 1, n))
        away = x[:, None] - x[near[:, 1:]]
        distance = np.maximum(distance[:, 1:, None], 1e-3)
        move += (away / distance * np.maximum(1.2 - distance, 0) ** 2).mean(1) * 4
        size = np.linalg.norm(move, axis=1, keepdims=True)
        x = x + step * move * np.minimum(1, 1 / np.maximum(size, 1e-9))
    return x


def apart(x: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """Positions near the given ones, at which few discs overlap: [n, 2].

    `diffpool.viz` separates all discs, which takes five times as long.
    """
    n = len(x)
    if not 1 < n <= MAX_PUSHED:
        return x
    x = x + 1e-3 * radii.max() * np.random.default_rng(0).standard_normal(x.shape)
    needed = 1.05 * (radii[:, None] + radii)
    share = radii[None] ** 2 / (radii[:, None] ** 2 + radii**2)  # a large disc moves less
    np.fill_diagonal(share, 0)
    for _ in range(PUSH_ROUNDS):
        away = x[:, None] - x[None]  # [n, n, 2]
        distance = np.sqrt(np.einsum("ijk,ijk->ij", away, away))
        overlap = np.maximum(needed - distance, 0) * share
        if not overlap.any():
            break
        x = x + 0.6 * np.einsum("ij,ijk->ik", overlap / np.maximum(distance, 1e-9), away)
    return x
