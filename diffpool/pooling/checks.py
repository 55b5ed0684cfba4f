"""The settings of `DiffPooling`, checked."""

from __future__ import annotations

from typing import Any

from torch import nn

from diffpool.errors import SettingError


def check_settings(
    in_channels: int | None,
    num_clusters: int | None,
    ratio: float | None,
    max_clusters: int | None,
    min_clusters: int,
    assign: nn.Module | None,
    hidden_channels: int,
    num_layers: int,
    losses: str,
) -> None:
    """Raise a SettingError if a layer cannot be made from these."""
    counts: dict[str, Any] = {
        "in_channels": in_channels,
        "num_clusters": num_clusters,
        "max_clusters": max_clusters,
        "min_clusters": min_clusters,
        "hidden_channels": hidden_channels,
        "num_layers": num_layers,
    }
    for name, value in counts.items():
        if value is not None and (not isinstance(value, int) or value < 1):
            hint = ": pass a module as assign=…" if isinstance(value, nn.Module) else ""
            raise SettingError(
                f"expected {name} to be an integer of at least 1, got {value!r}{hint}"
            )
    if ratio is not None and not 0 < ratio <= 1:
        raise SettingError(f"expected a ratio above 0 and at most 1, got {ratio!r}")
    if ratio is not None and num_clusters is not None:
        raise SettingError(
            "expected num_clusters or ratio, got both: to limit the clusters of large graphs, use max_clusters"
        )
    if ratio is None and (max_clusters is not None or min_clusters != 1):
        raise SettingError(
            "expected max_clusters and min_clusters only with a ratio, got no ratio: add a ratio or leave them out"
        )
    if max_clusters is not None and min_clusters > max_clusters:
        raise SettingError(
            f"expected min_clusters to be at most max_clusters, got {min_clusters} and {max_clusters}"
        )
    if in_channels is not None and assign is not None:
        raise SettingError(
            "expected in_channels, for the layer's own assignment network, or assign, got both: leave one out"
        )
    if assign is not None and not isinstance(assign, nn.Module):
        what = assign.__name__ if isinstance(assign, type) else type(assign).__name__
        raise SettingError(
            f"expected assign to be a module, got {what}: make an nn.Module with forward(self, x, edge_index)"
        )
    if in_channels is not None and num_clusters is None and max_clusters is None:
        raise SettingError(
            "expected num_clusters, or max_clusters with a ratio, got neither: the assignment network needs a number "
            "of outputs (with a ratio, give the ratio times the number of nodes of the largest graph)"
        )
    if losses not in ("paper", "pyg"):
        raise SettingError(f"expected losses to be 'paper' or 'pyg', got {losses!r}")
