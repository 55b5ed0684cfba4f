"""The two losses of PyTorch Geometric's `dense_diff_pool`."""

from __future__ import annotations

import torch
from torch import Tensor

from diffpool.layout import Layout


def dense_losses(
    losses: dict[str, Tensor], rows: Layout, size: int | None, normalize: bool
) -> dict[str, Tensor]:
    """The losses of `dense_diff_pool` from those of each graph: [B] → [] each.

    With the graphs padded to n nodes, ‖A − SSᵀ‖_F of the whole batch is divided by B n², and the entropy is averaged
    over all B n rows, padded ones included. Padding adds nothing to either sum.
    """
    graphs, n = len(rows), rows.max_size if size is None else size
    link = torch.linalg.vector_norm(losses["link"])
    entropy = losses["entropy"] @ rows.device_sizes.to(losses["entropy"].dtype)
    scale = _at_least_one(graphs * n**2) if normalize else 1
    return {"link": link / scale, "entropy": entropy / _at_least_one(graphs * n)}


def _at_least_one(count: int | Tensor) -> int | Tensor:
    return count.clamp(min=1) if isinstance(count, Tensor) else max(count, 1)
