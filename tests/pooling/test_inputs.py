"""The formats that `DiffPooling` takes."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch
from pooling.layers import SETTINGS, SIZES, close, inputs, layer
from samples import KINDS, padded, randn, sample

from diffpool import SparseGraphs
from diffpool.errors import DataError


def test_without_a_batch_there_is_one_graph() -> None:
    ragged = sample((6,))
    x, edge_index, batch, _ = inputs(ragged)
    pool = layer(num_clusters=2)
    out, other = pool(x, edge_index), pool(x, edge_index, batch, batch_size=1)
    assert out.batch.tolist() == [0, 0]
    close(out.x, other.x)
    close(out.adj, other.adj)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("kind", ["undirected", "directed"])
def test_the_next_level_is_the_same_in_every_format(settings: dict[str, Any], kind: str) -> None:
    x, edge_index, batch, _ = inputs(sample(SIZES, **KINDS[kind]))
    x.requires_grad_()
    first = layer(**settings)(x, edge_index, batch)
    h = randn(*first.x.shape, seed=3)
    pool = layer(seed=1, ratio=0.5, max_clusters=2)
    padding = torch.zeros_like(first.x_dense)
    padding[first.mask] = h
    results = [
        pool(h, first.graphs),
        pool(h, first.edge_index, first.batch, edge_weight=first.edge_weight),
        pool(padding, first.adj, mask=first.mask),
    ]
    gradients = []
    for out in results:
        close(out.x, results[0].x)
        close(out.adj, results[0].adj)
        close(out.loss, results[0].loss)
        value = out.loss + out.adj.square().sum()
        gradients.append(torch.autograd.grad(value, x, retain_graph=True)[0])
    for gradient in gradients:
        close(gradient, gradients[0])
    assert gradients[0].abs().sum() > 0


def test_graphs_may_be_made_once_and_pooled_often() -> None:
    ragged = sample(SIZES)
    x, edge_index, batch, _ = inputs(ragged)
    pool = layer(num_clusters=3)
    expected = pool(x, edge_index, batch)
    for dtype in (torch.float32, torch.float64):  # converted to that of the features
        out = pool(x, SparseGraphs.from_edge_index(edge_index, batch, dtype=dtype))
        close(out.x, expected.x)
        close(out.loss, expected.loss)


@pytest.mark.parametrize("sizes", [(), (0,), (0, 0), (1,), (3, 0, 1)])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_batches_without_graphs_nodes_or_edges(
    settings: dict[str, Any], sizes: tuple[int, ...]
) -> None:
    x = randn(sum(sizes), 3, seed=0).requires_grad_()
    none = torch.empty(2, 0, dtype=torch.int64)
    batch = torch.repeat_interleave(
        torch.arange(len(sizes)), torch.tensor(sizes, dtype=torch.int64)
    )
    pool = layer(**settings)
    out = pool(x, none, batch, batch_size=len(sizes))
    assert out.batch_size == len(sizes) == len(out.adj) == len(out.losses["link"])
    assert (out.adj == 0).all()
    assert out.edge_index.shape == (2, int(out.graphs.layout.sizes.square().sum()))
    assert out.lift(out.x).shape == x.shape
    assert out.loss.isfinite()
    (out.loss + out.x.sum()).backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_an_unsorted_batch_is_explained() -> None:
    x, edge_index, batch, _ = inputs(sample(SIZES))
    with pytest.raises(DataError, match=r"`batch`.*in ascending order.*sort the nodes by graph"):
        layer(num_clusters=2)(x, edge_index, batch.flip(0))


def test_graphs_and_padded_input_take_no_batch() -> None:
    ragged = sample(SIZES)
    x, _, batch, _ = inputs(ragged)
    pool = layer(num_clusters=2)
    with pytest.raises(DataError, match=r"no batch.*with graphs, which have their own: leave"):
        pool(x, ragged.sparse, batch)
    adj, h, mask = padded(ragged, 7)
    with pytest.raises(DataError, match=r"no batch.*with adj \[B, n, n\].*leave"):
        pool(h, adj, batch, mask=mask)
    with pytest.raises(
        DataError, match=r"in the precision of the graphs, torch.float64, got torch.f"
    ):
        pool(x.float(), ragged.dense)


def test_other_objects_than_tensors_and_graphs_are_explained() -> None:
    x, edge_index, batch, _ = inputs(sample(SIZES))
    data = types.SimpleNamespace(edge_index=edge_index, batch=batch)
    with pytest.raises(DataError, match=r"got SimpleNamespace: pass.*pool\(data.x, data.edge"):
        layer(num_clusters=2)(x, data)
    with pytest.raises(DataError, match=r"edge_index \[2, E\], adj.*or graphs, got ndarray"):
        layer(num_clusters=2)(x, edge_index.numpy())
    with pytest.raises(DataError, match=r"torch_geometric.utils.to_edge_index"):
        layer(num_clusters=2)(x, torch.eye(len(x)).to_sparse())
