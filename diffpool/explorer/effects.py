"""How much each cluster of a graph contributes to its prediction, where `diffpool.attribution` can tell."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from diffpool.attribution import METHODS, Explanation, iter_explanations
from diffpool.data import RawGraphs
from diffpool.errors import ModelError
from diffpool.explorer.levels import Json, significant
from diffpool.training import TrainedModel
from diffpool.viz.hierarchy import Ordered

NONE = "none"
CHOICES = (*METHODS, NONE)
MAX_NODES = 1000  # of a graph that is explained; of larger ones, the page shows no effects


def explanations(
    model: TrainedModel, raw: RawGraphs, method: str
) -> tuple[str, Iterator[Explanation | None]]:
    """The method that is used, and an explanation for each graph, or None.

    The method is `none` if the model has no clusters, or if it cannot be explained.
    """
    explained = np.flatnonzero((raw.sizes > 0) & (raw.sizes <= MAX_NODES))
    nothing: Iterator[Explanation | None] = (None for _ in range(len(raw)))
    if method == NONE or not len(explained) or model.card.architecture.poolings == 0:
        return NONE, nothing
    try:  # the first graph shows whether the model can be explained
        next(iter_explanations(model, raw.select(explained[:1]), method=method))
    except ModelError:
        return NONE, nothing
    return method, _all(model, raw, method, explained)


def _all(
    model: TrainedModel, raw: RawGraphs, method: str, explained: np.ndarray
) -> Iterator[Explanation | None]:
    chosen = set(explained.tolist())
    found = iter_explanations(model, raw.select(explained), method=method)
    for number in range(len(raw)):
        yield next(found) if number in chosen else None


def add_effects(levels: list[Json], clusters: Ordered, found: Explanation) -> None:
    """Add the score of every cluster, and its share in the prediction, to the levels of a graph."""
    for level, kept, scores in zip(levels[1:], clusters.columns[1:], found.levels[1:], strict=True):
        level["effect"] = significant(scores.nodes[kept])
        level["part"] = significant(scores.shares[kept])
