"""Draw the clusters of graphs: every level of the hierarchy next to the one that it was pooled from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch, RegularPolygon
from matplotlib.patheffects import withStroke

from diffpool.errors import cut
from diffpool.viz.figure import new_figure
from diffpool.viz.hierarchy import Level
from diffpool.viz.outlines import outline, regions
from diffpool.viz.palette import text_color
from diffpool.viz.positions import centers, force_directed, separate
from diffpool.viz.subjects import Subject, subjects

EDGE, LINE = "#8b949c", "#30363b"
RADIUS = 0.3  # of an input node; the median edge has a length of 1
MIN_WEIGHT = 0.02  # of the largest: weaker edges between clusters are not drawn
GAP = 0.08  # between two discs
FEW, MIN_SHARE = (
    250,
    0.2,
)  # with more edges than this, all are thinner, down to this share of their width
MARGIN, MIN_WIDTH = 0.75, 6.0  # around the nodes, and of a panel
LABEL_POINTS = 5.5  # smallest size of text
SHEET_PANEL, PANEL = 2.0, 3.4  # inches
MAX_ACROSS = 12.0  # inches
TITLES, LEGEND = 0.55, 0.45  # inches for the titles of a graph and its levels, and for the legend
RATIOS = (0.35, 1.0)  # of the height of a panel to its width
MAX_LABELED = 16  # parts of clusters: with more, the small ones are not labeled
# Offsets of the lines of a bond across its direction, by bond order; 1.5: aromatic.
SHIFTS: dict[float, tuple[float, ...]] = {1: (0,), 1.5: (-1, 1), 2: (-1, 1), 3: (-1.5, 0, 1.5)}
# Corners and rotation of the polygon for each node label, and the marker in the legend; 0 corners: a disc.
SHAPES = (
    (0, 0.0, "o"),
    (4, math.pi / 4, "s"),
    (3, 0.0, "^"),
    (4, 0.0, "D"),
    (3, math.pi, "v"),
    (5, 0.0, "p"),
)


@dataclass(frozen=True, eq=False)
class Panel:
    """One level, with the positions and sizes of its nodes."""

    level: Level
    positions: np.ndarray  # [n, 2]
    radii: np.ndarray  # [n]


@dataclass(frozen=True)
class Legend:
    """What colors mean."""

    texts: tuple[str, ...]
    colors: tuple[str, ...]


@dataclass(frozen=True)
class Frame:
    """The area that the panels of a graph show, equal for all levels: positions and areas can be compared."""

    left: float
    bottom: float
    width: float
    ratio: float  # of the height to the width

    @classmethod
    def around(cls, panels: Sequence[Panel]) -> Frame:
        low = np.min([(p.positions - p.radii[:, None]).min(0) for p in panels], axis=0) - MARGIN
        high = np.max([(p.positions + p.radii[:, None]).max(0) for p in panels], axis=0) + MARGIN
        across, up = high - low
        width = max(float(across), float(up) / RATIOS[1], MIN_WIDTH)
        ratio = max(float(up) / width, RATIOS[0])
        left, bottom = (low + high) / 2 - np.array([width, ratio * width]) / 2
        return cls(float(left), float(bottom), width, ratio)


def draw_clusters(
    model: Any,
    graphs: Any,
    path: str | Path,
    *,
    numbers: Sequence[int] = (0,),
    class_names: Sequence[Any] = (),
    seed: int = 0,
) -> None:
    """Draw the graphs with these numbers and their coarser graphs, and save the figure as PNG, SVG or PDF.

    A node of the input has the color of its cluster: its first choice in the assignment matrix. The color of a coarser
    node is a mixture of those of its members, its area is proportional to the number of input nodes that it
    represents, and the width of an edge grows with its weight. Dotted lines surround connected nodes of one cluster.
    Clusters that are not the first choice of any node are not drawn.

    Args:
        model: A fitted estimator, a `TrainedModel` or a model directory; or a network, for graphs with features.
        graphs: Graphs in any form that the model can read; or a `GraphDataset` or `GraphBatch`.
        path: The file to write.
        numbers: The graphs to draw, counted from 0.
        class_names: The names of the classes of a `GraphBatch`.
        seed: Seed of the layout of graphs with more than 200 nodes.
    """
    draw_subjects(subjects(model, graphs, list(numbers), class_names), path, seed)


def draw_subjects(
    chosen: Sequence[Subject], path: str | Path, seed: int = 0, legend: Legend | None = None
) -> None:
    """Draw graphs with the colors that their levels have; a `legend` explains these colors."""
    drawn = [panels(subject, seed) for subject in chosen]
    columns = max(map(len, drawn))  # panels of a graph
    side = PANEL if len(chosen) == 1 else SHEET_PANEL
    across = min(len(chosen), max(1, round(MAX_ACROSS / (columns * side))))  # graphs in a row
    across = math.ceil(len(drawn) / math.ceil(len(drawn) / across))  # rows of equal length
    rows = [drawn[start : start + across] for start in range(0, len(drawn), across)]
    heights = [
        TITLES + side * max(Frame.around(graph_panels).ratio for graph_panels in row)
        for row in rows
    ]
    names = _label_names(chosen)
    lines = bool(names) + (legend is not None)
    width, height = across * columns * side, sum(heights) + lines * LEGEND
    with new_figure(width, height, path) as figure:
        blocks = figure.subfigures(
            len(rows), across, squeeze=False, wspace=0.03, height_ratios=heights
        )
        for number, (subject, graph_panels) in enumerate(zip(chosen, drawn, strict=True)):
            row, column = divmod(number, across)
            block = blocks[row, column]
            _draw_subject(block, subject, graph_panels, names, columns, side)
        if legend is not None:
            _draw_colors(figure, legend)
        if names:
            _draw_legend(figure, names)


def panels(subject: Subject, seed: int = 0) -> list[Panel]:
    """The positions and sizes of the nodes at every level, without overlapping discs.

    The area of a node is proportional to the number of input nodes that it represents; a coarser node is near the
    middle of its members.
    """
    first = subject.levels[0]
    given = None if subject.molecule is None else subject.molecule.positions
    positions = force_directed(first.adjacency, seed) if given is None else given
    radii = np.full(len(first), RADIUS)
    found = [Panel(first, separate(positions, radii, GAP), radii)]
    for level, next_level in zip(subject.levels, subject.levels[1:], strict=False):
        assert level.assignment is not None
        near = centers(level.assignment * level.mass[:, None], found[-1].positions)
        radii = RADIUS * np.sqrt(np.maximum(next_level.mass, 1.0)) * 1.15
        found.append(Panel(next_level, separate(near, radii, 3 * GAP), radii))
    return found


def edge_widths(weights: np.ndarray) -> np.ndarray:
    """The width of each edge in points: it grows with the weight. Edges of equal weights are thin."""
    largest = weights.max(initial=0)
    if largest <= 0 or np.allclose(weights, largest):
        return np.full(len(weights), 1.0)
    return 0.4 + 2.4 * weights / largest


def _draw_subject(
    block: SubFigure,
    subject: Subject,
    panels: list[Panel],
    names: tuple[str, ...],
    columns: int,
    side: float,
) -> None:
    number = f"graph {subject.number}"
    block.suptitle(f"{number}: {subject.caption}" if subject.caption else number, fontsize=9)
    axes = block.subplots(1, columns, squeeze=False)[0]
    frame = Frame.around(panels)
    points = 72 * 0.94 * side / frame.width  # of a unit of length
    for level, (axis, panel) in enumerate(zip(axes, panels, strict=False)):
        axis.set_axis_off()
        axis.set_aspect("equal", anchor="N")
        axis.set_xlim(frame.left, frame.left + frame.width)
        axis.set_ylim(frame.bottom, frame.bottom + frame.ratio * frame.width)
        axis.set_title(_title(panel.level, level), fontsize=8, color=LINE)
        _draw_level(axis, panel, subject, level, names, points)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()


def _title(level: Level, number: int) -> str:
    count = len(level)
    if number == 0:
        return f"input: {count} node{'s' * (count != 1)}"
    return f"pooling {number}: {count} of {level.allowed} cluster{'s' * (level.allowed != 1)}"


def _draw_level(
    axes: Axes, panel: Panel, subject: Subject, number: int, names: tuple[str, ...], points: float
) -> None:
    level = panel.level
    orders = subject.molecule.orders if subject.molecule and number == 0 else None
    if orders is None:
        _draw_edges(axes, level.adjacency, panel.positions)
    else:
        _draw_bonds(axes, orders, panel.positions)
    symbols = level.names
    if number == 0 and subject.molecule:
        symbols = subject.molecule.symbols
    shapes = _shapes(subject, names) if number == 0 else np.zeros(len(level), np.int64)
    inside = 2 * RADIUS * points >= LABEL_POINTS * 1.2
    numbered = number == 0 and not subject.molecule and inside
    if numbered and level.cluster is not None and len(subject.levels) > 1:
        symbols = [subject.levels[1].names[cluster] for cluster in level.cluster]
    _draw_nodes(axes, panel, shapes, symbols, points)
    if level.cluster is not None:
        label = not numbered or number > 0
        _draw_outlines(axes, panel, subject.levels[number + 1], label, points)


def _draw_edges(axes: Axes, adjacency: np.ndarray, positions: np.ndarray) -> None:
    i, j = np.nonzero(np.triu(adjacency, 1))
    weights = adjacency[i, j]
    strong = weights > MIN_WEIGHT * weights.max(initial=0)
    i, j, weights = i[strong], j[strong], weights[strong]
    order = np.argsort(weights, kind="stable")  # the widest are on top
    ends = np.stack([positions[i], positions[j]], 1)[order]
    widths = edge_widths(weights)[order] * max(MIN_SHARE, min(1.0, math.sqrt(FEW / max(len(i), 1))))
    axes.add_collection(LineCollection(list(ends), linewidths=widths, colors=EDGE, zorder=1))


def _draw_bonds(axes: Axes, orders: np.ndarray, positions: np.ndarray) -> None:
    """Draw single, double and triple bonds as one to three lines; the second line of an aromatic bond is dashed."""
    for i, j in np.argwhere(np.triu(orders, 1) > 0):
        ends = positions[[i, j]]
        along = ends[1] - ends[0]
        side = 0.09 * np.array([-along[1], along[0]]) / max(float(np.hypot(*along)), 1e-9)
        order = orders[i, j]
        shifts = SHIFTS[float(order)]
        for number, shift in enumerate(shifts):
            dashed = order == 1.5 and number == 1
            style = (0, (2.5, 1.5)) if dashed else "solid"
            axes.plot(*(ends + shift * side).T, color=EDGE, linewidth=1, linestyle=style, zorder=1)


def _draw_nodes(
    axes: Axes, panel: Panel, shapes: np.ndarray, symbols: list[str], points: float
) -> None:
    patches = [
        _patch(position, radius, int(shape))
        for position, radius, shape in zip(panel.positions, panel.radii, shapes, strict=True)
    ]
    colors = panel.level.colors.clip(0, 1)
    nodes = PatchCollection(patches, facecolors=colors, edgecolors=LINE, linewidths=0.5, zorder=2)
    axes.add_collection(nodes)
    for position, radius, color, symbol in zip(
        panel.positions, panel.radii, colors, symbols, strict=False
    ):
        available = 2 * radius * points / max(1.0, 0.62 * len(symbol))
        size = min(0.72 * available, 11.0)
        fits = size >= LABEL_POINTS * 0.72
        axes.text(
            position[0],
            position[1] if fits else position[1] + radius,
            symbol,
            fontsize=size if fits else LABEL_POINTS,
            color=text_color(color) if fits else "black",
            ha="center",
            va="center_baseline" if fits else "bottom",
            zorder=4,
            path_effects=[] if fits else [withStroke(linewidth=1.5, foreground="white")],
        )


def _patch(position: np.ndarray, radius: float, shape: int) -> Patch:
    corners, rotation, _ = SHAPES[shape]
    if not corners:
        return Circle(tuple(position), radius)
    return RegularPolygon(tuple(position), corners, radius=radius, orientation=rotation)


def _draw_outlines(
    axes: Axes, panel: Panel, next_level: Level, labeled: bool, points: float
) -> None:
    """Outlines of the connected parts of clusters, with the name of the cluster if `labeled`.

    With many parts, only the largest part of a cluster and those with more than two nodes are labeled.
    """
    level = panel.level
    assert level.cluster is not None
    size = max(LABEL_POINTS, min(8.0, 0.6 * points))
    named: set[int] = set()
    taken = [*panel.positions]
    found = regions(level.adjacency, level.cluster)
    for region in found:
        if len(region.nodes) == 1 and not labeled:
            continue
        line = outline(region, level.adjacency, panel.positions, panel.radii, GAP + 0.1)
        if len(region.nodes) > 1:
            others = np.delete(panel.positions, region.nodes, axis=0)
            line.draw(axes, next_level.colors[region.cluster].clip(0, 1), others)
        many = len(found) > MAX_LABELED and region.cluster in named and len(region.nodes) < 3
        if not labeled or many:
            continue
        named.add(region.cluster)
        position = line.point_outside(0.6 * size / points, np.array(taken))
        taken.append(position)
        axes.text(
            float(position[0]),
            float(position[1]),
            next_level.names[region.cluster],
            fontsize=size,
            fontweight="bold",
            color=LINE,
            ha="center",
            va="center",
            zorder=5,
            path_effects=[withStroke(linewidth=1.5, foreground="white")],
        )


def _label_names(chosen: Sequence[Subject]) -> tuple[str, ...]:
    """The node labels of the graphs, in their order; rare ones, for which there is no shape, are `other`, the disc."""
    names = chosen[0].label_names
    codes = [subject.labels for subject in chosen if subject.labels is not None]
    if not codes or any(subject.label_names != names for subject in chosen):
        return ()
    counts = np.bincount(np.concatenate(codes), minlength=len(names))
    present = [code for code in np.argsort(-counts, kind="stable") if counts[code]]
    if len(present) <= len(SHAPES):
        return tuple(names[code] for code in sorted(present))
    return ("other", *(names[code] for code in sorted(present[: len(SHAPES) - 1])))


def _shapes(subject: Subject, names: tuple[str, ...]) -> np.ndarray:
    """The index in SHAPES of every input node: [n]."""
    if subject.labels is None or not names:
        return np.zeros(len(subject.levels[0]), np.int64)
    index = {name: shape for shape, name in enumerate(names)}
    return np.array([index.get(subject.label_names[code], 0) for code in subject.labels])


def _draw_legend(figure: Figure, names: tuple[str, ...]) -> None:
    handles = [
        Line2D([], [], linestyle="", marker=SHAPES[i][2], color="white", markeredgecolor=LINE)
        for i in range(len(names))
    ]
    for handle in handles:
        handle.set_markersize(6)
    figure.legend(
        handles,
        names,
        title="node label",
        loc="outside lower center",
        ncols=len(names),
        title_fontsize=8,
    )


def _draw_colors(figure: Figure, legend: Legend) -> None:
    handles = [
        Line2D([], [], linestyle="", marker="o", color=color, markeredgecolor=LINE)
        for color in legend.colors
    ]
    texts = [cut(text, 40) for text in legend.texts]
    figure.legend(handles, texts, loc="outside upper center", ncols=len(handles))
