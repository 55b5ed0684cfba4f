"""What a network can see of a node, and what it must do with two nodes that look the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from analysis.drawn import graph, path

from diffpool import as_raw
from diffpool.analysis import identifiability, view_colors
from diffpool.architecture import Architecture
from diffpool.builder import build
from diffpool.data import GraphDataset

SAME = np.ones((7, 1))


def test_more_hops_tell_more_nodes_of_a_path_apart() -> None:
    line = graph(7, path(range(7)), SAME)
    kinds = [len(set(view_colors(line.adjacency, line.x, hops).tolist())) for hops in range(5)]
    assert kinds == [1, 2, 3, 4, 4]


def test_symmetric_nodes_keep_the_same_color() -> None:
    line = graph(7, path(range(7)), SAME)
    colors = view_colors(line.adjacency, line.x, hops=6)
    assert colors.tolist() == colors[::-1].tolist()


def test_means_do_not_see_the_number_of_neighbors() -> None:
    star_and_pair = graph(6, [(0, 1), (0, 2), (0, 3), (4, 5)], SAME[:6])
    exact = view_colors(star_and_pair.adjacency, star_and_pair.x, 1)
    by_means = view_colors(star_and_pair.adjacency, star_and_pair.x, 1, proportions=True)
    assert exact[0] != exact[1]
    assert len(set(by_means.tolist())) == 1


def test_edge_weights_tell_nodes_apart() -> None:
    line = graph(3, path(range(3)), SAME[:3])
    weighted = line.adjacency.copy()
    weighted.data[:] = [2, 2, 3, 3]  # both directions of both edges
    assert view_colors(line.adjacency, line.x, 1).tolist() == [0, 1, 0]
    assert len(set(view_colors(weighted, line.x, 1).tolist())) == 3


def test_nodes_with_their_own_features_are_identifiable() -> None:
    line = graph(7, path(range(7)))
    assert set(identifiability(line.adjacency, line.x, 1).values()) == {1.0}
    line = graph(7, path(range(7)), SAME)
    found = identifiability(line.adjacency, line.x, 3)
    assert found["unique_features"] == 0
    assert found["unique_views"] == pytest.approx(1 / 7)  # the one in the middle


def test_the_pooling_network_must_put_distant_nodes_that_look_the_same_into_one_cluster() -> None:
    """The synthetic case of section 4.4, for networks with random parameters."""
    nodes = 30
    adjacency = np.diag(np.ones(nodes - 1), 1)
    raw = as_raw([adjacency + adjacency.T, adjacency + adjacency.T], [0, 1])
    dataset = GraphDataset.from_raw(raw)
    torch.manual_seed(0)
    model = build(Architecture(ratio=0.5), dataset.num_features, 2, dataset.largest).eval()
    batch = dataset.batch([0])
    s = model(batch.graphs, batch.x).assignments[0].of_graph(0)
    assert torch.allclose(s[0], s[-1], atol=1e-6)  # 29 edges apart
    inner = s[3:-3]  # the end of the path is out of their sight
    assert torch.allclose(inner, inner[:1].expand_as(inner), atol=1e-6)
    assert not torch.allclose(s[0], s[5], atol=1e-3)
