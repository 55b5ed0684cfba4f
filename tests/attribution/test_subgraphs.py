"""Induced subgraphs, and predictions for them."""

from __future__ import annotations

import numpy as np
import torch

from diffpool.attribution import induced, subgraph_outputs
from diffpool.graphs import SparseGraphs
from tests.attribution.explained import model, raw_graphs
from tests.samples import sample


def test_the_subgraph_has_the_blocks_of_the_chosen_nodes() -> None:
    ragged = sample(weighted=True, directed=True, loops=True)
    graphs = ragged.sparse
    keep = torch.rand(graphs.num_nodes, generator=torch.Generator().manual_seed(0)) < 0.6
    found, start = induced(graphs, keep), 0
    for number, adj in enumerate(ragged.adjs):
        own = keep[start : start + len(adj)]
        start += len(adj)
        expected = adj[own][:, own]
        torch.testing.assert_close(found.block(number), expected)
        assert int(found.layout.sizes[number]) == int(own.sum())
    whole = SparseGraphs.from_csr(
        found.layout.sizes.numpy(),
        found.adj.indptr.numpy(),
        found.adj.indices.numpy(),
        found.adj.values.numpy(),
        dtype=torch.float64,
    )
    for name in ("degree", "inverse_degree", "squared_norm"):
        torch.testing.assert_close(getattr(found, name), getattr(whole, name))
    h = torch.randn(found.num_nodes, 2, dtype=torch.float64)
    torch.testing.assert_close(found.adj_t.values, whole.adj_t.values)
    torch.testing.assert_close(found.propagate(h), whole.propagate(h))


def test_edge_features_stay_with_their_edges() -> None:
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    features = torch.tensor([[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]])
    graphs = SparseGraphs.from_edge_index(edge_index, sizes=[3], edge_attr=features)
    found = induced(graphs, torch.tensor([False, True, True]))
    assert found.propagate_channel(0, torch.eye(2)).tolist() == [[0, 4], [3, 0]]


def test_outputs_of_subgraphs_are_the_predictions_for_them() -> None:
    own, raw = model(members=2), raw_graphs((6, 4))
    graphs, x = own.inputs(raw)
    everything = [np.ones(6, bool), np.ones(4, bool)]
    np.testing.assert_allclose(
        subgraph_outputs(own, graphs, x, [0, 1], everything), own.predict_proba(raw), atol=1e-6
    )
    half = np.arange(6) < 3
    (found,) = subgraph_outputs(own, graphs, x, [0], [half])
    expected = own.outputs_of(induced(graphs.select([0])[0], torch.from_numpy(half)), x[:3])
    np.testing.assert_allclose(found, expected[0], atol=1e-6)
    assert subgraph_outputs(own, graphs, x, [], []).shape == (0, 3)
