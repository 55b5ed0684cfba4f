"""Edge features at every level: channels that are propagated, pooled and convolved like A."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from samples import gradients, local, randn
from samples import pooled as pool
from torch import Tensor

from diffpool import equations
from diffpool.architecture import PAPER
from diffpool.builder import build
from diffpool.data import Categories, GraphDataset, RawGraphs
from diffpool.errors import DataError, SettingError
from diffpool.experiments import settings_for, train_once
from diffpool.graphs import DenseGraphs, Graphs, SparseGraphs
from diffpool.layout import Layout
from diffpool.nn import DiffPool, EdgeSage, Encoder

SIZES, CLUSTERS, CHANNELS = (5, 0, 1, 7, 4), (2, 0, 1, 3, 2), 2


@dataclass(frozen=True, eq=False)
class Sample:
    """Adjacency matrices, edge features [C, n, n] (zero where there is no edge) and node features of each graph."""

    adjs: list[Tensor]
    channels: list[Tensor]
    xs: list[Tensor]

    @property
    def sparse(self) -> SparseGraphs:
        adj = torch.block_diag(*self.adjs)
        target, source = adj.nonzero().T
        blocks = [torch.block_diag(*(e[c] for e in self.channels)) for c in range(CHANNELS)]
        features = torch.stack([block[target, source] for block in blocks], 1).numpy()
        indptr = np.concatenate([[0], np.cumsum((adj != 0).sum(1).numpy())])
        sizes = np.array([len(a) for a in self.adjs])
        weights = adj[target, source].numpy()
        return SparseGraphs.from_csr(
            sizes, indptr, source.numpy(), weights, features, dtype=torch.float64
        )

    @property
    def dense(self) -> DenseGraphs:
        layout = Layout.from_sizes([len(a) for a in self.adjs])
        channels = tuple(
            local([e[c] for e in self.channels], layout.largest) for c in range(CHANNELS)
        )
        return DenseGraphs.from_adj(layout, local(self.adjs, layout.largest), channels)

    @property
    def x(self) -> Tensor:
        return torch.cat(self.xs)

    def relabeled(self) -> Sample:
        orders = [
            torch.randperm(len(x), generator=torch.Generator().manual_seed(3)) for x in self.xs
        ]
        return Sample(
            [a[o][:, o] for a, o in zip(self.adjs, orders, strict=True)],
            [e[:, o][:, :, o] for e, o in zip(self.channels, orders, strict=True)],
            [x[o] for x, o in zip(self.xs, orders, strict=True)],
        )


def sample(seed: int = 0, directed: bool = False, sizes: tuple[int, ...] = SIZES) -> Sample:
    generator = torch.Generator().manual_seed(seed)
    adjs, channels, xs = [], [], []
    for n in sizes:
        adj = (torch.rand(n, n, generator=generator) < 0.5).double()
        edge = torch.randn(CHANNELS, n, n, dtype=torch.float64, generator=generator)
        if not directed:
            adj, edge = adj.triu() + adj.triu(1).T, edge.triu() + edge.triu(1).mT
        adjs.append(adj)
        channels.append(edge * adj)
        xs.append(torch.randn(n, 3, dtype=torch.float64, generator=generator))
    return Sample(adjs, channels, xs)


def exact(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)


both = pytest.mark.parametrize("storage", ["sparse", "dense"])
each_direction = pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])


@both
@each_direction
def test_a_channel_is_propagated_as_its_matrix(storage: str, directed: bool) -> None:
    batch = sample(directed=directed)
    graphs: Graphs = getattr(batch, storage)
    h = randn(graphs.num_nodes, 4, seed=1).requires_grad_()
    for c in range(CHANNELS):
        matrix = torch.block_diag(*(e[c] for e in batch.channels))
        ours, theirs = graphs.propagate_channel(c, h), matrix @ h
        exact(ours, theirs)
        weight = randn(*ours.shape, seed=2)
        exact(*gradients((ours * weight).sum(), h), *gradients((theirs * weight).sum(), h))


@both
def test_pooled_channels_and_their_gradients_equal_the_formula(storage: str) -> None:
    batch = sample()
    graphs: Graphs = getattr(batch, storage)
    clusters = Layout.from_sizes(CLUSTERS)
    blocks = [randn(n, k, seed=n).requires_grad_() for n, k in zip(SIZES, CLUSTERS, strict=True)]
    s = local(blocks, clusters.largest)
    pooled = equations.pooled_graphs(graphs, s, clusters)
    for c, ours in enumerate(pooled.channels):
        theirs = [b.T @ e[c] @ b for b, e in zip(blocks, batch.channels, strict=True)]
        expected = local(theirs, clusters.largest)
        exact(ours, expected)
        weight = randn(*ours.shape, seed=5)
        for a, b in zip(
            gradients((ours * weight).sum(), *blocks),
            gradients((expected * weight).sum(), *blocks),
            strict=True,
        ):
            exact(a, b)


@both
def test_the_convolution_equals_its_formula(storage: str) -> None:
    batch = sample()
    conv = EdgeSage(3, 4, CHANNELS).double()
    adj = torch.block_diag(*batch.adjs)
    inverse = torch.where(adj.sum(1) > 0, 1 / adj.sum(1).clamp(min=1e-9), 0)[:, None]
    parts = [batch.x, inverse * (adj @ batch.x)]
    for c in range(CHANNELS):
        parts.append(inverse * (torch.block_diag(*(e[c] for e in batch.channels)) @ batch.x))
    expected = torch.cat(parts, 1) @ conv.linear.weight[0] + conv.linear.bias[0]
    exact(conv(getattr(batch, storage), batch.x), expected)
    exact(conv(getattr(batch, storage), batch.x, 2), expected[:, :2])


@each_direction
def test_selected_graphs_keep_the_features_of_their_edges(directed: bool) -> None:
    batch = sample(directed=directed)
    chosen, nodes = batch.sparse.select([3, 0, 4])
    part = Sample(
        *([parts[g] for g in (3, 0, 4)] for parts in (batch.adjs, batch.channels, batch.xs))
    )
    h = randn(len(nodes), 2, seed=1).requires_grad_()
    for c in range(CHANNELS):
        ours, theirs = chosen.propagate_channel(c, h), part.sparse.propagate_channel(c, h)
        exact(ours, theirs)
        exact(*gradients(ours.square().sum(), h), *gradients(theirs.square().sum(), h))
    single = batch.sparse.to(dtype=torch.float32)
    assert all(t.dtype == torch.float32 for channel in single.channels for t in channel)


ARCHITECTURE = replace(PAPER, hidden=6, conv="edge-sage", poolings=2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_classifier_with_edge_features_obeys_the_laws(dtype: torch.dtype) -> None:
    """The order of nodes and the rest of the batch do not matter; every parameter has a gradient."""
    batch = sample(sizes=(9, 3, 12, 1))
    model = build(ARCHITECTURE, 3, 2, largest=12, edge_features=CHANNELS).to(dtype).eval()

    def ask(part: Sample) -> Tensor:
        return model(part.sparse.to(dtype=dtype), part.x.to(dtype)).logits

    logits = ask(batch)
    tolerance = (
        {"rtol": 1e-9, "atol": 1e-9} if dtype == torch.float64 else {"rtol": 1e-3, "atol": 1e-4}
    )
    torch.testing.assert_close(ask(batch.relabeled()), logits, **tolerance)
    alone = [
        ask(Sample([a], [e], [x]))
        for a, e, x in zip(batch.adjs, batch.channels, batch.xs, strict=True)
    ]
    torch.testing.assert_close(torch.cat(alone), logits, **tolerance)
    prediction = model.train()(batch.sparse.to(dtype=dtype), batch.x.to(dtype))
    total = prediction.logits.square().sum() + sum(
        loss.sum() for loss in prediction.losses.values()
    )
    total.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert len(prediction.graphs[1].channels) == CHANNELS


def test_missing_edge_features_are_an_error() -> None:
    plain = replace(sample().sparse, channels=())
    with pytest.raises(DataError, match="expected 2 edge features, got 0"):
        EdgeSage(3, 4, 2).double()(plain, sample().x)
    with pytest.raises(SettingError, match="expected edge features for the convolution edge-sage"):
        build(ARCHITECTURE, 3, 2, largest=12)


def test_the_pooler_pools_edge_features_with_and_without_the_fused_step() -> None:
    batch = sample()
    clusters = Layout.from_sizes(CLUSTERS)
    results = []
    gnn = Encoder(lambda i, o, models=1: EdgeSage(i, o, CHANNELS, models), [3, 3], last_order=())
    for dtype in (torch.float32, torch.float64):
        x = batch.x.to(dtype)
        pooled = pool(DiffPool(gnn.to(dtype)), batch.sparse.to(dtype=dtype), x, clusters)
        results.append(pooled.graphs.channels)
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-5)


def rings(count: int = 240, seed: int = 0) -> RawGraphs:
    """Rings of 8 to 14 nodes. The class depends only on the edge labels: are the two marked edges adjacent?"""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(8, 15, count)
    y = np.arange(count) % 2
    source, target, labels, start = [], [], [], 0
    for n, c in zip(sizes, y, strict=True):
        step = np.arange(n)
        source.append(start + step)
        target.append(start + (step + 1) % n)
        marked = np.zeros(n, int)
        first = rng.integers(n)
        marked[[first, (first + (1 if c else n // 2)) % n]] = 1
        labels.append(marked)
        start += n
    return RawGraphs.from_edges(
        "rings",
        sizes,
        np.concatenate(source),
        np.concatenate(target),
        one_way=True,
        edge_labels=Categories.from_values(np.concatenate(labels)),
        classes=Categories.from_values(y),
    )


def test_a_class_that_depends_on_edge_labels_is_learned_only_with_them() -> None:
    raw = rings()
    accuracies = {}
    for conv in ("edge-sage", "sage"):
        method = settings_for(
            "diffpool", "rings", conv=conv, epochs=25, hidden=16, learning_rate=0.01
        )
        dataset = GraphDataset.from_raw(raw, "constant", edges=conv == "edge-sage")
        accuracies[conv] = train_once(method, dataset).test.accuracy
    assert accuracies["edge-sage"] >= 0.9
    assert accuracies["sage"] <= 0.75
