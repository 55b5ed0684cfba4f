"""The settings of `DiffPooling` are checked."""

from __future__ import annotations

from typing import Any

import pytest
from torch import nn

from diffpool import DiffPooling
from diffpool.errors import SettingError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"in_channels": 0, "num_clusters": 2},
            "in_channels to be an integer of at least 1, got 0",
        ),
        ({"in_channels": nn.Linear(3, 2)}, "in_channels.*got Linear.*pass a module as assign="),
        ({"num_clusters": 2.5}, "num_clusters to be an integer of at least 1, got 2.5"),
        ({"ratio": 1.5}, "a ratio above 0 and at most 1, got 1.5"),
        ({"ratio": 0.5, "num_clusters": 3}, "num_clusters or ratio, got both.*use max_clusters"),
        ({"max_clusters": 3}, "max_clusters and min_clusters only with a ratio"),
        ({"min_clusters": 3}, "max_clusters and min_clusters only with a ratio"),
        ({"in_channels": 3, "assign": nn.Linear(3, 2)}, "in_channels.*or assign, got both: leave"),
        (
            {"in_channels": 3},
            "num_clusters, or max_clusters with a ratio, got neither: the assignment network needs",
        ),
        (
            {"in_channels": 3, "ratio": 0.5},
            "num_clusters, or max_clusters with a ratio, got neither",
        ),
        (
            {"ratio": 0.5, "max_clusters": 3, "min_clusters": 4},
            "min_clusters to be at most max_clusters, got 4 and 3",
        ),
        ({"in_channels": 3, "num_clusters": 2, "num_layers": 0}, "num_layers.*at least 1, got 0"),
        ({"assign": nn.Linear}, "assign to be a module, got Linear: make an nn.Module"),
        ({"assign": lambda x: x}, "assign to be a module, got function: make an nn.Module"),
        ({"losses": "tgp"}, "losses to be 'paper' or 'pyg', got 'tgp'"),
    ],
)
def test_wrong_settings_are_explained(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        DiffPooling(**settings)
