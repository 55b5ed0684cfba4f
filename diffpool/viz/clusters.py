"""Draw the clusters of a graph: its nodes colored by cluster, next to the coarsened graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from diffpool.data import GraphBatch
from diffpool.nn import GraphClassifier, Prediction

EDGE_COLOR = "#b8bfc6"
MIN_MASS = 0.05  # clusters with less than this share of a node are not drawn


@torch.no_grad()
def draw_clusters(
    model: GraphClassifier, batch: GraphBatch, class_names: tuple[Any, ...], path: str | Path
) -> None:
    """Draw the first graph of the batch at every level of the hierarchy, and save it as a PNG file."""
    model.eval()
    prediction = model(batch.graphs, batch.x)
    levels = len(prediction.assignments) + 1
    figure = Figure(figsize=(5.2 * levels, 5.6), dpi=110, layout="constrained")
    axes = figure.subplots(1, levels, squeeze=False)[0]
    colors, positions = _hierarchy(prediction)
    for level in range(levels):
        adjacency = prediction.graphs[level].block(0).cpu().numpy()
        mass = _mass(prediction, level)
        _draw_level(axes[level], adjacency, positions[level], colors[level], mass)
        axes[level].set_title(_title(prediction, level), fontsize=11)
    if class_names:  # empty for regression
        truth, guess = int(batch.y[0]), int(prediction.logits[0].argmax())
        title = f"class: {class_names[truth]}, predicted: {class_names[guess]}"
        figure.suptitle(title, fontsize=12, parse_math=False)  # names may contain $
    figure.savefig(path)


def _title(prediction: Prediction, level: int) -> str:
    if level == 0:
        return f"input: {int(prediction.graphs[0].layout.sizes[0])} nodes"
    s = prediction.assignments[level - 1].of_graph(0)
    return f"pooling {level}: {len(s.argmax(-1).unique())} of {s.shape[1]} clusters are some node's first choice"


def _hierarchy(prediction: Prediction) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Colors and positions of the nodes of every level. A cluster has the color of the nodes assigned to it.

    Clusters of the first pooling have distinct colors, which higher levels mix. The position of a cluster is the mean
    position of its nodes.
    """
    assignments = [a.of_graph(0).cpu().numpy() for a in prediction.assignments]
    positions = [_layout(prediction.graphs[0].block(0).cpu().numpy())]
    if not assignments:
        return [np.tile([[0.35, 0.55, 0.75]], (len(positions[0]), 1))], positions
    clusters = assignments[0].shape[1]
    order = np.argsort(-assignments[0].sum(0))  # the largest clusters get the most distinct colors
    palette = np.empty((clusters, 3))
    palette[order] = _palette(clusters)
    colors = [palette[assignments[0].argmax(1)], palette]
    for s in assignments:
        share = s / np.maximum(s.sum(0), 1e-9)  # [n, k]: columns sum to 1
        positions.append(share.T @ positions[-1])
        if s is not assignments[0]:
            mass = share.T * _weight(assignments, s)[None]
            colors.append((mass / np.maximum(mass.sum(1, keepdims=True), 1e-9)) @ colors[-1])
    return colors, positions


def _weight(assignments: list[np.ndarray], s: np.ndarray) -> np.ndarray:
    """The number of input nodes that each row of s represents."""
    weight = np.ones(len(assignments[0]))
    for earlier in assignments:
        if earlier is s:
            break
        weight = weight @ earlier
    return weight


def _mass(prediction: Prediction, level: int) -> np.ndarray:
    """The number of input nodes that each node of a level represents."""
    mass = np.ones(int(prediction.graphs[0].layout.sizes[0]))
    for assignment in prediction.assignments[:level]:
        mass = mass @ assignment.of_graph(0).cpu().numpy()
    return mass


def _layout(adjacency: np.ndarray) -> np.ndarray:
    """Positions of the nodes, by a force-directed layout."""
    import networkx as nx

    graph = nx.from_numpy_array(adjacency)
    start = nx.kamada_kawai_layout(graph) if len(adjacency) <= 300 else None
    return np.array(
        list(nx.spring_layout(graph, pos=start, iterations=30, seed=0).values())
    ).reshape(-1, 2)


def _palette(count: int) -> np.ndarray:
    import matplotlib

    base = matplotlib.colormaps["tab10" if count <= 10 else "tab20"]
    return np.array([base(i % base.N)[:3] for i in range(count)])


def _draw_level(
    axes: Axes,
    adjacency: np.ndarray,
    positions: np.ndarray,
    colors: np.ndarray,
    mass: np.ndarray,
) -> None:
    axes.set_axis_off()
    shown = mass >= MIN_MASS
    between = np.triu(adjacency + adjacency.T, 1) / 2 * np.outer(shown, shown)
    strongest = between.max(initial=0)
    for i, j in zip(*np.nonzero(between > 0.02 * strongest), strict=True):
        strength = between[i, j] / strongest
        axes.plot(
            *positions[[i, j]].T,
            color=EDGE_COLOR,
            linewidth=0.4 + 2.2 * strength,
            zorder=1,
            alpha=0.9,
        )
    typical = 60 if len(positions) > 60 else 110
    area = typical * (mass[shown] if mass.max(initial=1) <= 1 else 0.6 + mass[shown])
    across, up = positions[shown].T
    size = np.clip(area, 8, 2600)
    axes.scatter(across, up, s=size, c=colors[shown], edgecolors="white", linewidths=0.7, zorder=2)
    axes.margins(0.12)
