"""The drawn parts of a graph and its coarser graphs: nodes with members, their clusters, sizes and colors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diffpool.viz.palette import distinct_colors, rgb

WITHOUT_POOLING = "#56B4E9"


@dataclass(frozen=True, eq=False)
class Level:
    """One level of a hierarchy: the input, or the clusters of a pooling that are the first choice of some node."""

    columns: np.ndarray  # [n]: the number of each node before those without members were left out
    allowed: int  # number of nodes with those
    names: list[str]  # of each node; empty for the input
    adjacency: np.ndarray  # [n, n]: weights, symmetric, without self-loops
    mass: np.ndarray  # [n]: number of input nodes that each node represents
    colors: np.ndarray  # [n, 3]
    cluster: np.ndarray | None = None  # [n]: the node of the next level that is its first choice
    assignment: np.ndarray | None = None  # [n, nodes of the next level]

    def __len__(self) -> int:
        return len(self.mass)


@dataclass(frozen=True, eq=False)
class Ordered:
    """The drawn nodes of every level, in their order; clusters without members are left out."""

    columns: list[np.ndarray]  # of each level: the number of each node before those were left out
    clusters: list[
        np.ndarray
    ]  # of each pooling: the node of the next level that is the first choice
    mass: list[
        np.ndarray
    ]  # of each level, for all nodes: number of input nodes that each represents
    colors: list[np.ndarray]  # of each level: [n, 3]


def ordered(nodes: int, assignments: Sequence[np.ndarray]) -> Ordered:
    """The drawn nodes of a graph with this number of nodes and these assignment matrices; see `hierarchy`."""
    columns = [np.arange(nodes)]
    clusters: list[np.ndarray] = []
    mass = [np.ones(nodes)]
    for s in assignments:
        choice = s[columns[-1]].argmax(1)
        mass.append(mass[-1] @ s)
        used = np.unique(choice)
        order = used[np.argsort(-mass[-1][used], kind="stable")]  # the largest cluster comes first
        row = np.empty(s.shape[1], np.int64)
        row[order] = np.arange(len(order))
        clusters.append(row[choice])
        columns.append(order)
    return Ordered(columns, clusters, mass, _colors(columns, clusters, mass, assignments))


def hierarchy(adjacency: Sequence[np.ndarray], assignments: Sequence[np.ndarray]) -> list[Level]:
    """The levels of one graph, from the adjacency matrix of each level and the assignment matrix of each pooling.

    Clusters without members, those that are not the first choice of any node, are left out. Each cluster of the first
    pooling has its own color, which its members share. The color of a coarser node is the mean of the colors of its
    members, weighted by how much of each member it takes.
    """
    found = ordered(len(adjacency[0]), assignments)
    columns, clusters, mass, colors = found.columns, found.clusters, found.mass, found.colors
    levels = []
    for level, kept in enumerate(columns):
        pooled = level < len(assignments)
        weights = adjacency[level][np.ix_(kept, kept)]
        weights = (weights + weights.T) / 2
        np.fill_diagonal(weights, 0)
        levels.append(
            Level(
                columns=kept,
                allowed=len(adjacency[level]),
                names=[name(level, number) for number in range(len(kept))] if level else [],
                adjacency=weights,
                mass=mass[level][kept],
                colors=colors[level],
                cluster=clusters[level] if pooled else None,
                assignment=assignments[level][np.ix_(kept, columns[level + 1])] if pooled else None,
            )
        )
    return levels


def name(level: int, number: int) -> str:
    """The name of a cluster: 1, 2, … for the first pooling, A, B, … for the others."""
    if level == 1:
        return str(number + 1)
    letters = ""
    number += 1
    while number:
        number, last = divmod(number - 1, 26)
        letters = chr(ord("A") + last) + letters
    return letters + "′" * (level - 2)


def _colors(
    columns: list[np.ndarray],
    clusters: list[np.ndarray],
    mass: list[np.ndarray],
    assignments: Sequence[np.ndarray],
) -> list[np.ndarray]:
    """The colors of the nodes of every level: [n, 3] each."""
    if not clusters:
        return [np.tile(rgb(WITHOUT_POOLING), (len(columns[0]), 1))]
    count = len(columns[1])
    palette = distinct_colors(count)
    if len(clusters) > 1:  # clusters that are pooled together have neighboring hues
        palette = np.empty((count, 3))
        palette[np.argsort(clusters[1], kind="stable")] = distinct_colors(count, by_hue=True)
    colors = [palette[clusters[0]], palette]
    for level in range(1, len(clusters)):
        s = assignments[level][np.ix_(columns[level], columns[level + 1])]
        weight = np.zeros_like(s, dtype=np.float64)
        rows = np.arange(len(s))
        cluster = clusters[level]
        weight[rows, cluster] = mass[level][columns[level]] * s[rows, cluster]
        weight /= np.maximum(weight.sum(0), 1e-300)
        colors.append(weight.T @ colors[-1])
    return colors
