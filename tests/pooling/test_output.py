"""What `DiffPooling` returns."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pooling.layers import SETTINGS, SIZES, call, close, layer
from samples import randn, sample

from diffpool.errors import DataError


def test_the_output_is_made_only_when_asked_for() -> None:
    out = call(layer(num_clusters=3), sample(SIZES))
    assert not {"adj", "mask", "x_dense", "_edges"} & vars(out).keys()
    assert out.adj is out.adj
    assert out.edge_index is out.edge_index
    assert {"adj", "_edges"} <= vars(out).keys()
    with pytest.raises(AttributeError):
        out.x = out.x  # type: ignore[misc]
    assert repr(out) == (
        "PoolingOutput(x=[18, 3], graphs=DenseGraphs(6 graphs, 18 nodes, largest 3), losses=['entropy', 'link'])"
    )


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_lift_is_the_product_with_s(settings: dict[str, Any]) -> None:
    out = call(layer(**settings), sample(SIZES))
    h = randn(out.x.shape[0], 4, seed=5)
    parts = [out.assignment.of_graph(g) @ h[out.batch == g] for g in range(len(SIZES))]
    close(out.lift(h), torch.cat(parts))
    dense = h.new_zeros(len(SIZES), out.mask.shape[1], 4)
    dense[out.mask] = h
    close(out.lift(dense), out.lift(h))


def test_features_of_the_wrong_level_cannot_be_lifted() -> None:
    out = call(layer(num_clusters=2), sample(SIZES))
    with pytest.raises(DataError, match=r"one row for each of 12 clusters, got \[25, 3\]: lift"):
        out.lift(sample(SIZES).x)


def test_the_edge_list_and_the_matrices_are_in_the_format_of_pyg() -> None:
    utils = pytest.importorskip("torch_geometric.utils")
    out = call(layer(ratio=0.5, max_clusters=4), sample(SIZES, directed=True))
    adj = utils.to_dense_adj(out.edge_index, out.batch, out.edge_weight, batch_size=len(SIZES))
    torch.testing.assert_close(adj, out.adj)
    x, mask = utils.to_dense_batch(out.x, out.batch, batch_size=len(SIZES))
    torch.testing.assert_close(x, out.x_dense)
    assert torch.equal(mask, out.mask)
