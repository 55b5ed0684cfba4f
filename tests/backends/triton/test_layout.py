"""The kernels that compute the tables of a layout equal the plain operations."""

from __future__ import annotations

import pytest
import torch

from diffpool.backends.capture import layout_by_hand

layout = pytest.importorskip("diffpool.backends.triton.layout")

pytestmark = pytest.mark.triton


@pytest.mark.parametrize("tile", [32, 64])
@pytest.mark.parametrize(
    ("models", "graphs", "largest"), [(1, 1, 5), (3, 7, 90), (5, 20, 40), (2, 3, 0), (2, 1, 400)]
)
def test_the_kernels_equal_the_operations(
    models: int, graphs: int, largest: int, tile: int, device: str
) -> None:
    sizes = torch.randint(0, largest + 1, (models, graphs))
    sizes[:, 0] = 0
    rows = int(sizes.sum(1).max()) + 16
    found = layout.layout_tables(sizes.to(device), rows, tile)
    for ours, expected in zip(found, layout_by_hand(sizes, rows, tile), strict=True):
        assert torch.equal(ours.cpu(), expected)
