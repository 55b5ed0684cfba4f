"""Layers and inputs for the tests of `DiffPooling`."""

from __future__ import annotations

from typing import Any

import torch
from samples import Sample
from torch import Tensor

from diffpool import DiffPooling, PoolingOutput
from diffpool.exchange import edge_list

SIZES = (5, 1, 7, 4, 2, 6)


SETTINGS: dict[str, dict[str, Any]] = {
    "num_clusters": {"num_clusters": 3},
    "ratio": {"ratio": 0.5, "max_clusters": 4},
    "min_clusters": {"ratio": 0.1, "max_clusters": 4, "min_clusters": 2},
}


def inputs(ragged: Sample) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Features, `edge_index`, `batch` and `edge_weight`."""
    edge_index, weight = edge_list(ragged.sparse)
    batch = torch.repeat_interleave(torch.arange(len(ragged.sizes)), torch.tensor(ragged.sizes))
    return ragged.x, edge_index, batch, weight


def layer(seed: int = 0, features: int = 3, **settings: Any) -> DiffPooling:
    torch.manual_seed(seed)
    return DiffPooling(features, **settings).double().eval()


def call(pool: DiffPooling, ragged: Sample, **more: Any) -> PoolingOutput:
    x, edge_index, batch, weight = inputs(ragged)
    size = len(ragged.sizes)
    return pool(x, edge_index, batch, edge_weight=weight, batch_size=size, **more)


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
