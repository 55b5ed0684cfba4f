"""Draw the scores of an explanation: the graph and its coarser graphs, with nodes colored for and against a class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from diffpool.attribution import Explanation
from diffpool.viz.clusters import Legend, draw_subjects
from diffpool.viz.hierarchy import Level
from diffpool.viz.palette import rgb
from diffpool.viz.subjects import Subject, subjects

FOR, AGAINST, NEUTRAL = "#0072B2", "#D55E00", "#F4F5F6"


def draw_scores(
    model: Any,
    graphs: Any,
    explanations: Sequence[Explanation],
    path: str | Path,
    *,
    seed: int = 0,
) -> None:
    """Draw the graphs of these explanations, and save the figure as PNG, SVG or PDF.

    A node that speaks for the explained class is blue, one that speaks against it orange; the largest |score| of a
    level has the full color. Clusters have the numbers of the columns of S. Otherwise as `draw_clusters`.

    Args:
        model: A fitted estimator, a `TrainedModel` or a model directory.
        graphs: The graphs that were explained, in any form that the model can read.
        explanations: Explanations of some of these graphs; their numbers are those in `graphs`.
        path: The file to write.
        seed: Seed of the layout of graphs with more than 200 nodes.
    """
    drawn = subjects(model, graphs, [own.graph for own in explanations])
    colored = [_colored(subject, own) for subject, own in zip(drawn, explanations, strict=True)]
    names = {str(own.target_name) for own in explanations if own.target_name is not None}
    what = f"class {names.pop()}" if len(names) == 1 else "the explained class"
    if explanations[0].target_name is None:
        legend = Legend(("increases the prediction", "decreases it"), (FOR, AGAINST))
    else:
        legend = Legend((f"for {what}", f"against {what}"), (FOR, AGAINST))
    draw_subjects(colored, path, seed, legend)


def _colored(subject: Subject, own: Explanation) -> Subject:
    levels: list[Level] = []
    for number, (level, scores) in enumerate(zip(subject.levels, own.levels, strict=True)):
        names = [str(column) for column in level.columns.tolist()] if number else []
        levels.append(replace(level, names=names, colors=score_colors(scores.nodes[level.columns])))
    return replace(subject, levels=levels)


def score_colors(scores: np.ndarray) -> np.ndarray:
    """Blue for positive and orange for negative scores [n], pale for small ones: [n, 3]."""
    largest = np.abs(scores).max(initial=0)
    strength = (np.abs(scores) / largest if largest > 0 else np.zeros(len(scores)))[:, None]
    full = np.where(scores[:, None] >= 0, rgb(FOR), rgb(AGAINST))
    return rgb(NEUTRAL) + strength * (full - rgb(NEUTRAL))
