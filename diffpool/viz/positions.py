"""Positions of nodes in a drawing: a force-directed layout of the input, and discs that do not overlap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import networkx as nx

MAX_EXACT = 200  # nodes: up to this size, distances in the drawing follow those in the graph
ROUNDS, MIN_ROUNDS = 300, 30  # of pushing discs apart; fewer for more than 300 nodes
GOLDEN = np.pi * (3 - np.sqrt(5))  # an angle of which no two multiples coincide


def force_directed(adjacency: np.ndarray, seed: int = 0) -> np.ndarray:
    """Positions of the nodes of a graph, with edges of a median length of 1: [n, 2].

    The connected components are drawn separately, the largest at the top left.
    """
    import networkx as nx

    graph = nx.from_numpy_array((adjacency + adjacency.T > 0).astype(float))
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    parts = sorted(nx.connected_components(graph), key=lambda part: (-len(part), min(part)))
    positions = np.zeros((len(adjacency), 2))
    boxes = []
    for part in parts:
        nodes = sorted(part)
        positions[nodes] = _component(graph.subgraph(nodes), nodes, seed)
        boxes.append(nodes)
    pack(positions, boxes)
    return positions


def _component(graph: nx.Graph, nodes: list[int], seed: int) -> np.ndarray:
    """Positions of a connected graph, with a median edge length of 1 and its longer side across."""
    import networkx as nx

    if len(nodes) == 1:
        return np.zeros((1, 2))
    if len(nodes) <= MAX_EXACT:
        found = nx.kamada_kawai_layout(graph)
    else:
        found = nx.spring_layout(graph, iterations=150, seed=seed)
    index = {node: i for i, node in enumerate(nodes)}
    ends = np.array([(index[a], index[b]) for a, b in graph.edges])
    return upright(np.array([found[node] for node in nodes]), ends)


def upright(positions: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The same drawing of edges [E, 2] with its longer side across and a median edge length of 1: [n, 2]."""
    positions = positions - positions.mean(0)
    axes = np.linalg.svd(positions, full_matrices=False)[2]
    # the sign of an axis is arbitrary: fix it, so that the drawing does not depend on the machine
    positions = positions @ (axes * np.where(axes.sum(1) < 0, -1, 1)[:, None]).T
    lengths = np.linalg.norm(positions[ends[:, 0]] - positions[ends[:, 1]], axis=1)
    return positions / max(float(np.median(lengths)), 1e-9)


def pack(positions: np.ndarray, parts: list[list[int]], gap: float = 1.2) -> None:
    """Move the components next to each other, in rows about as wide as the figure is high."""
    if not parts:
        return
    sizes = [np.ptp(positions[part], axis=0) + gap for part in parts]
    width = max(float(np.sqrt(sum(across * up for across, up in sizes))), *(s[0] for s in sizes), 0)
    x = y = row = 0.0
    for part, (across, up) in zip(parts, sizes, strict=True):
        if x > 0 and x + across > width * 1.1:
            x, y, row = 0.0, y - row, 0.0
        low, high = positions[part].min(0), positions[part].max(0)
        positions[part] += np.array([x - low[0], y - high[1]])
        x, row = x + across, max(row, up)


def separate(positions: np.ndarray, radii: np.ndarray, gap: float = 0.0) -> np.ndarray:
    """Positions near the given ones at which no two discs are closer than `gap`: [n, 2]."""
    n = len(positions)
    if n < 2:
        return positions.copy()
    # nodes at the same place get different directions
    found = positions + 1e-6 * radii.max() * _spiral(n)
    needed = radii[:, None] + radii[None] + gap
    np.fill_diagonal(needed, 0)
    for _ in range(max(MIN_ROUNDS, int(ROUNDS * min(1.0, (300 / n) ** 2)))):
        apart = found[:, None] - found[None]  # [n, n, 2]
        distance = np.linalg.norm(apart, axis=-1)
        overlap = np.maximum(needed * 1.001 - distance, 0)
        np.fill_diagonal(overlap, 0)
        if not (overlap > 0).any():
            return found
        direction = apart / np.maximum(distance, 1e-12)[..., None]
        # a large disc moves less than a small one
        share = radii[None] ** 2 / (radii[:, None] ** 2 + radii[None] ** 2)
        found = found + 0.5 * ((overlap * share)[..., None] * direction).sum(1)
    distance = np.linalg.norm(found[:, None] - found[None], axis=-1)
    np.fill_diagonal(distance, 1)
    center = found.mean(0)
    return center + (found - center) * max(1.0, float((needed / distance).max()) * (1 + 1e-9))


def _spiral(count: int) -> np.ndarray:
    """Distinct points around 0: [count, 2]."""
    number = np.arange(count)
    radius = np.sqrt((number + 1) / count)
    return np.stack([np.cos(number * GOLDEN), np.sin(number * GOLDEN)], 1) * radius[:, None]


def centers(assignment: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """The position of each cluster: the mean position of its nodes, weighted by the assignment [n, k]: [k, 2]."""
    share = assignment / np.maximum(assignment.sum(0), 1e-12)
    return share.T @ positions
