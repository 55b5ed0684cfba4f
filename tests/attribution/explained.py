"""Random graphs and untrained models to explain."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from diffpool import Architecture, RawGraphs
from diffpool.data import FeatureMap
from diffpool.training import ModelCard, TrainedModel, Training
from diffpool.training.model_directory import Part

FEATURES, CLASSES = 3, 3


def raw_graphs(sizes: tuple[int, ...] = (7, 4, 9, 1, 6), seed: int = 0) -> RawGraphs:
    """Connected graphs with random features, and weights of the edges: a path and some other edges."""
    rng = np.random.default_rng(seed)
    source, target, start = [], [], 0
    for size in sizes:
        own = [(i, i + 1) for i in range(size - 1)]
        own += [(i, j) for i in range(size) for j in range(i + 2, size) if rng.random() < 0.2]
        source += [start + i for i, _ in own]
        target += [start + j for _, j in own]
        start += size
    return RawGraphs.from_edges(
        "random",
        sizes,
        np.array(source, np.int64),
        np.array(target, np.int64),
        one_way=True,
        edge_weights=rng.uniform(0.5, 2, len(source)),
        node_attributes=rng.normal(size=(start, FEATURES)),
    )


def model(
    members: int = 1, seed: int = 0, regression: bool = False, **settings: Any
) -> TrainedModel:
    """A model with random parameters; by default with two poolings."""
    defaults: dict[str, Any] = {"hidden": 6, "poolings": 2, "ratio": 0.5, "layers_after": 2}
    architecture = Architecture(**{**defaults, **settings})
    card = ModelCard(
        parts=(Part(architecture, Training(), (1.0, 3.0, 2.0)[:members]),),
        num_features=FEATURES,
        largest=9,
        class_names=() if regression else tuple("abc"[:CLASSES]),
        dataset="random",
        method="diffpool",
        feature_map=FeatureMap(("raw-attributes",), node_attributes=FEATURES),
        target_mean=(1.0, -2.0) if regression else (),
        target_sd=(2.0, 0.5) if regression else (),
    )
    torch.manual_seed(seed)
    network = card.build()
    with torch.no_grad():  # so that no assignment is uniform
        for parameter in network.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return TrainedModel(network, card)
