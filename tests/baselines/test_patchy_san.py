"""PATCHY-SAN: the labelings, the receptive fields and the convolutions over them."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path
from torch import Tensor
from torch.nn.functional import conv1d, linear, pad

from diffpool.baselines.patchy_san import LABELINGS, FieldConvolution, field_edges, receptive_fields
from diffpool.baselines.patchy_san.labelings import igraph, label
from diffpool.baselines.patchy_san.receptive_fields import canonical_order
from diffpool.errors import DataError, SettingError
from diffpool.graphs import Channel, Prepared, SparseGraphs
from diffpool.nn.linear import Linear
from diffpool.nn.side_by_side import check_models, take
from tests.samples import gradients, randn

pytest.importorskip("igraph")

PATH = [(0, 1), (1, 2), (2, 3)]
TAILED = [(0, 1), (1, 2), (2, 0), (2, 3)]  # a triangle with a tail
STAR = [(3, 0), (3, 1), (3, 2), (3, 4)]
TWO_TRIANGLES = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]


def matrix(n: int, edges: list[tuple[int, int]]) -> csr_array:
    """The adjacency matrix of an undirected graph."""
    dense = np.zeros((n, n))
    for a, b in edges:
        dense[a, b] = dense[b, a] = 1
    return csr_array(dense)


def random_graph(seed: int, n: int = 12, density: float = 0.3) -> csr_array:
    upper = np.triu(np.random.default_rng(seed).random((n, n)) < density, 1)
    return csr_array((upper | upper.T).astype(float))


def random_tree(seed: int, n: int = 14) -> csr_array:
    rng = np.random.default_rng(seed)
    return matrix(n, [(node, int(rng.integers(node))) for node in range(1, n)])


def relabeled(adjacency: csr_array, seed: int) -> tuple[csr_array, np.ndarray]:
    """Permute the nodes; also return the new number of each node: [n]."""
    order = np.random.default_rng(seed).permutation(adjacency.shape[0])
    return csr_array(adjacency.toarray()[order][:, order]), np.argsort(order)


def of_nodes(values: np.ndarray, fields: np.ndarray) -> np.ndarray:
    """The values of the nodes of every field, −1 for padding."""
    return np.append(values, -1)[fields]


# Labelings


@pytest.mark.parametrize(
    ("n", "edges", "wl", "betweenness"),
    [
        (4, PATH, [0, 1, 1, 0], [0, 1, 1, 0]),
        (5, [*PATH, (3, 4)], [0, 1, 2, 1, 0], [0, 1, 2, 1, 0]),
        (5, STAR, [0, 0, 0, 1, 0], [0, 0, 0, 1, 0]),
        (4, TAILED, [1, 1, 2, 0], [0, 0, 1, 0]),
        (6, TWO_TRIANGLES, [0] * 6, [0] * 6),
        # 2 and 5 both have degree 2, but only 2 has a neighbor of degree 3
        (7, [(0, 1), (0, 3), (0, 2), (2, 4), (4, 5), (5, 6)], [5, 1, 4, 1, 3, 2, 0], None),
        (3, [], [0, 0, 0], [0, 0, 0]),
        (1, [(0, 0)], [0], [0]),
        (0, [], [], []),
    ],
)
def test_labels_by_hand(
    n: int, edges: list[tuple[int, int]], wl: list[int], betweenness: list[int] | None
) -> None:
    assert label(matrix(n, edges), "wl").tolist() == wl
    if betweenness is not None:
        assert label(matrix(n, edges), "betweenness").tolist() == betweenness


@pytest.mark.parametrize("labeling", LABELINGS)
@pytest.mark.parametrize("seed", range(20))
def test_isomorphic_graphs_have_the_same_labels(labeling: str, seed: int) -> None:
    adjacency = random_graph(seed, density=0.1 + 0.03 * seed)
    other, number = relabeled(adjacency, seed)
    assert np.array_equal(label(adjacency, labeling), label(other, labeling)[number])


@pytest.mark.parametrize("seed", range(10))
def test_weisfeiler_lehman_colors_are_stable_and_refine_the_degrees(seed: int) -> None:
    """Nodes of one color have the same number of neighbors of every color; more neighbors give a larger color."""
    adjacency = random_graph(seed, n=15, density=0.15)
    colors = label(adjacency, "wl")
    found = np.eye(colors.max() + 1)[colors]
    around = adjacency @ found
    for color in np.unique(colors):
        assert (around[colors == color] == around[colors == color][0]).all()
    degree = np.diff(adjacency.indptr)
    assert (degree[np.argsort(colors)] == np.sort(degree)).all()


# Receptive fields


@pytest.mark.parametrize(
    ("n", "edges", "labeling", "expected"),
    [
        (4, PATH, "wl", [[1, 2, 0], [2, 1, 3], [0, 1, 2], [3, 2, 1], [-1, -1, -1]]),
        (4, TAILED, "wl", [[2, 0, 1], [0, 2, 1], [1, 2, 0], [3, 2, 0], [-1, -1, -1]]),
        (4, TAILED, "betweenness", [[2, 0, 1], [0, 2, 1], [1, 2, 0], [3, 2, 0], [-1, -1, -1]]),
        (5, STAR, "wl", [[3, 0, 1], [0, 3, 1], [1, 3, 0], [2, 3, 0], [4, 3, 0]]),
        (3, [(0, 2)], "wl", [[0, 2, -1], [2, 0, -1], [1, -1, -1], [-1, -1, -1], [-1, -1, -1]]),
        (2, [(0, 1), (1, 1)], "wl", [[1, 0, -1], [0, 1, -1], [-1] * 3, [-1] * 3, [-1] * 3]),
        (0, [], "wl", [[-1, -1, -1]] * 5),
    ],
)
def test_fields_by_hand(
    n: int, edges: list[tuple[int, int]], labeling: str, expected: list[list[int]]
) -> None:
    """Nodes of a field with equal distance and label are compared as a set, because BLISS determines their order."""
    adjacency = matrix(n, edges)
    fields = receptive_fields(adjacency, length=5, size=3, labeling=labeling)
    assert fields.dtype == np.int64
    assert [sorted(field) for field in fields.tolist()] == [sorted(field) for field in expected]
    labels = label(adjacency, labeling)
    assert np.array_equal(of_nodes(labels, fields), of_nodes(labels, np.array(expected)))
    assert fields[:, 0].tolist() == [field[0] for field in expected]


def test_only_the_first_nodes_are_roots() -> None:
    assert receptive_fields(matrix(4, TAILED), length=2, size=1).tolist() == [[2], [0]]


def test_edges_of_fields_by_hand() -> None:
    adjacency = matrix(4, PATH)  # entries: 0 from 1; 1 from 0, 2; 2 from 1, 3; 3 from 2
    edges = field_edges(adjacency, np.array([[1, 2, 0], [3, -1, -1]]))
    assert edges[0].tolist() == [[-1, 2, 1], [3, -1, -1], [0, -1, -1]]
    assert (edges[1] == -1).all()
    loop = csr_array(np.array([[0.0, 1.0], [1.0, 1.0]]))
    assert field_edges(loop, np.array([[1, 0]]))[0].tolist() == [[2, 1], [0, -1]]
    one_way = csr_array(np.array([[0.0, 1.0], [0.0, 0.0]]))
    assert field_edges(one_way, np.array([[1, 0]]))[0].tolist() == [[-1, -1], [0, -1]]


@pytest.mark.parametrize("size", [1, 2, 5, 10, 20])
@pytest.mark.parametrize("density", [0.05, 0.15, 0.6])
def test_a_field_has_the_nearest_nodes_with_the_largest_labels(size: int, density: float) -> None:
    adjacency = random_graph(seed=size, n=40, density=density)
    labels = label(adjacency, "wl")
    distance = shortest_path(adjacency, unweighted=True)
    roots = sorted(range(40), key=lambda node: (-labels[node], node))[:30]
    fields = receptive_fields(adjacency, length=30, size=size)
    for field, root in zip(fields, roots, strict=True):
        near = [node for node in range(40) if np.isfinite(distance[root, node])]
        expected = sorted(near, key=lambda node: (distance[root, node], -labels[node], node))[:size]
        found = field[field >= 0]
        assert found[0] == root
        assert sorted(found) == sorted(expected)
        assert np.array_equal(distance[root, found], distance[root, expected])
        assert np.array_equal(labels[found], labels[expected])
        assert (field[len(found) :] == -1).all()


@pytest.mark.parametrize("labeling", LABELINGS)
def test_fields_follow_relabeling_if_all_labels_are_distinct(labeling: str) -> None:
    count = 0
    for seed in range(60):
        adjacency = random_graph(seed)
        if len(np.unique(label(adjacency, labeling))) < 12:
            continue
        count += 1
        other, number = relabeled(adjacency, seed)
        fields = receptive_fields(adjacency, 10, 5, labeling)
        assert np.array_equal(number[fields], receptive_fields(other, 10, 5, labeling))
        edges, edges_other = field_edges(adjacency, fields), field_edges(other, number[fields])
        assert np.array_equal(edges >= 0, edges_other >= 0)
    assert count >= 5


@pytest.mark.parametrize("seed", range(20))
def test_isomorphic_trees_have_the_same_fields(seed: int) -> None:
    """In a tree, nodes of one color are equivalent; truncation may keep different ones, with different edges."""
    adjacency = random_tree(seed)
    other, _ = relabeled(adjacency, seed)
    labels = [label(a, "wl") for a in (adjacency, other)]
    for size in (4, 14):
        fields = [receptive_fields(a, 14, size) for a in (adjacency, other)]
        assert np.array_equal(of_nodes(labels[0], fields[0]), of_nodes(labels[1], fields[1]))
    first, second = field_edges(adjacency, fields[0]), field_edges(other, fields[1])
    assert np.array_equal(first >= 0, second >= 0)


@pytest.mark.parametrize("seed", range(10))
def test_the_canonical_order_depends_on_the_structure_only(seed: int) -> None:
    rng = np.random.default_rng(seed)
    joined = random_graph(seed, n=8, density=0.4).toarray() > 0
    joined |= np.diag(rng.random(8) < 0.3)
    colors = np.sort(rng.integers(3, size=8))
    order = rng.permutation(8)
    order = order[np.argsort(colors[order], kind="stable")]  # the same colors, different nodes
    first = canonical_order(tuple(colors), joined.tobytes())
    moved = joined[order][:, order]
    second = canonical_order(tuple(colors), moved.tobytes())
    assert np.array_equal(joined[first][:, first], moved[second][:, second])
    assert np.array_equal(colors[first], colors)


def test_an_unknown_labeling_is_an_error() -> None:
    with pytest.raises(
        SettingError, match="the labeling to be one of wl, betweenness, got 'degree'"
    ):
        receptive_fields(matrix(4, PATH), 4, 3, "degree")


def test_a_missing_igraph_is_an_error_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "igraph", None)
    with pytest.raises(DataError, match=r"needs igraph, .*: pip install 'diffpool\[patchy-san\]'"):
        igraph()
    with pytest.raises(DataError, match="igraph"):
        receptive_fields(matrix(4, PATH), 4, 3, "betweenness")


# Convolutions over the fields


def batch(
    matrices: list[csr_array], length: int, size: int, channels: int = 0, empty: int = -1
) -> SparseGraphs:
    """Graphs with their fields, and with edge features if `channels` > 0; the fields of an empty graph are `empty`."""
    indptr, source, rows, start = [0], [], [], 0
    for a in matrices:
        indptr.extend((a.indptr[1:] + len(source)).tolist())
        source.extend((a.indices + start).tolist())
        start += a.shape[0]
        fields = receptive_fields(a, length, size)
        parts = [fields.ravel(), field_edges(a, fields).ravel()][: 2 if channels else 1]
        row = np.concatenate(parts)
        rows.append(row if a.shape[0] else np.full_like(row, empty))
    features = randn(len(source), channels, seed=5).numpy() if channels else None
    sizes = np.array([a.shape[0] for a in matrices])
    graphs = SparseGraphs.from_csr(
        sizes, np.array(indptr), np.array(source), features=features, dtype=torch.float64
    )
    return replace(graphs, prepared=Prepared(graphs=torch.from_numpy(np.stack(rows))))


def graphs_of_all_kinds() -> list[csr_array]:
    empty, single = matrix(0, []), matrix(1, [])
    return [random_graph(1, n=9), empty, single, matrix(4, TAILED), random_tree(2), empty]


def network(features: int, **settings: Any) -> FieldConvolution:
    torch.manual_seed(0)
    return FieldConvolution(features, **settings).double()


def node_features(graphs: SparseGraphs, h: Tensor, length: int, size: int) -> Tensor:
    """The features of the nodes of all fields: [B, w · k, F]."""
    found = torch.zeros(len(graphs), length * size, h.shape[1], dtype=h.dtype)
    for g, start in enumerate(graphs.layout.starts.tolist()):
        for i, node in enumerate(graphs.prepared.graphs[g, : length * size].tolist()):
            if node >= 0:
                found[g, i] = h[start + node]
    return found


def edge_features(graphs: SparseGraphs, length: int, size: int) -> Tensor:
    """The features of the edges from each node b to each node a of a field, from dense matrices: [B, w · k², C]."""
    n, adj = graphs.num_nodes, graphs.adj
    dense = torch.zeros(n + 1, n + 1, len(graphs.channels), dtype=torch.float64)
    target = torch.repeat_interleave(torch.arange(n), adj.indptr.diff())
    dense[target, adj.indices] = torch.stack([channel.values for channel in graphs.channels], 1)
    found = []
    for start, row in zip(graphs.layout.starts.tolist(), graphs.prepared.graphs, strict=True):
        nodes = row[: length * size].view(length, size)
        nodes = torch.where(nodes < 0, n, nodes + start)
        found.append(dense[nodes[:, :, None], nodes[:, None]].flatten(0, 2))
    return torch.stack(found)


def filters(layer: Linear, inputs: int) -> Tensor:
    """The weights of the first model in the layout of `conv1d`: [filters, inputs, width]."""
    return layer.weight[0].T.unflatten(1, (-1, inputs)).transpose(1, 2)


def in_torch(model: FieldConvolution, graphs: SparseGraphs, h: Tensor) -> Tensor:
    """The same with PyTorch's convolutions."""
    length, size = model.length, model.size
    x = node_features(graphs, h, length, size).transpose(1, 2)  # [B, F, w · k]
    x = conv1d(x, filters(model.nodes, h.shape[1]), model.nodes.bias[0], stride=size).relu()
    if model.edges is not None:
        y = edge_features(graphs, length, size).transpose(1, 2)  # [B, C, w · k²]
        weight = filters(model.edges, y.shape[1])
        x = torch.cat([x, conv1d(y, weight, model.edges.bias[0], stride=size**2).relu()], 1)
    x = pad(x, (0, max(model.width - length, 0)))
    weight = model.sequence.weight[0].T.unflatten(1, (-1, model.width))
    x = conv1d(x, weight, model.sequence.bias[0]).relu()  # [B, 8, w − 9]
    x = x.transpose(1, 2).flatten(1)
    return linear(x, model.dense.weight[0].T, model.dense.bias[0]).relu()


def test_the_convolutions_by_hand() -> None:
    """Fields (1, 2), (0, 1) and (2, padding) of the path 0, 1, 2 with features 1, 2, 4 and weights 10 and 1."""
    graphs = batch([matrix(3, [(0, 1), (1, 2)])], length=3, size=2)
    graphs.prepared.graphs[0] = torch.tensor([1, 2, 0, 1, 2, -1])
    model = network(1, length=3, size=2, filters=(1, 1), width=2, hidden=2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.nodes.weight[0, :, 0] = torch.tensor([10.0, 1.0])  # 24, 12, 40
        model.nodes.bias += 1  # 25, 13, 41
        model.sequence.weight[0, :, 0] = torch.tensor([1.0, -1.0])  # 12, -28
        model.dense.weight[0] = torch.tensor([[2.0, -2.0], [1.0, 1.0]])  # (24, -24)
    out = model(graphs, torch.tensor([[1.0], [2.0], [4.0]], dtype=torch.float64))
    assert out.tolist() == [[24.0, 0.0]]


@pytest.mark.parametrize("channels", [0, 2])
@pytest.mark.parametrize(("length", "size"), [(12, 4), (10, 3), (4, 3), (1, 1)])
def test_it_equals_the_convolutions_of_pytorch(length: int, size: int, channels: int) -> None:
    graphs = batch(graphs_of_all_kinds(), length, size, channels)
    h = randn(graphs.num_nodes, 3, seed=1)
    model = network(3, length=length, size=size, channels=channels)
    out = model(graphs, h)
    assert out.shape == (6, 128)
    assert model.num_outputs == 128
    torch.testing.assert_close(out, in_torch(model, graphs, h))
    assert out.abs().sum() > 0


@pytest.mark.parametrize("channels", [0, 2])
def test_models_side_by_side_equal_single_models(channels: int) -> None:
    kinds = graphs_of_all_kinds()[:4] * 3
    together = batch(kinds, 6, 4, channels)
    h = randn(together.num_nodes, 3, seed=1).requires_grad_()
    models = network(3, length=6, size=4, channels=channels, width=3, models=3)
    check_models(models, 3)
    out = models(together, h)
    weight = randn(*out.shape, seed=2)
    found = gradients((out * weight).sum(), h, *models.parameters())
    nodes, edges = together.num_nodes // 3, together.num_edges // 3
    for m in range(3):
        single = take(models, [m])
        alone = batch(kinds[:4], 6, 4, channels)
        values = [c.values[m * edges : (m + 1) * edges] for c in together.channels]
        alone = replace(alone, channels=tuple(Channel(v, v) for v in values))
        own_h = h.detach()[m * nodes : (m + 1) * nodes].requires_grad_()
        value = single(alone, own_h)
        torch.testing.assert_close(value, out[4 * m : 4 * (m + 1)])
        expected = gradients(
            (value * weight[4 * m : 4 * (m + 1)]).sum(), own_h, *single.parameters()
        )
        torch.testing.assert_close(expected[0], found[0][m * nodes : (m + 1) * nodes])
        for one, all_of_them in zip(expected[1:], found[1:], strict=True):
            torch.testing.assert_close(one, all_of_them[m : m + 1])


@pytest.mark.parametrize("channels", [0, 2])
def test_a_graph_is_read_the_same_alone_and_in_a_batch(channels: int) -> None:
    graphs = batch(graphs_of_all_kinds(), 6, 4, channels)
    h = randn(graphs.num_nodes, 3, seed=1)
    model = network(3, length=6, size=4, channels=channels)
    out = model(graphs, h)
    for g in range(len(graphs)):
        alone, nodes = graphs.select([g])
        torch.testing.assert_close(model(alone, h[nodes]), out[g : g + 1])


@pytest.mark.parametrize("channels", [0, 2])
def test_an_empty_graph_does_not_read_other_graphs(channels: int) -> None:
    """Also if its fields are zeros, as for a model of a cohort that has fewer graphs."""
    matrices = graphs_of_all_kinds()
    graphs = batch(matrices, 6, 4, channels)
    zeros = batch(matrices, 6, 4, channels, empty=0)
    h = randn(graphs.num_nodes, 3, seed=1).requires_grad_()
    model = network(3, length=6, size=4, channels=channels)
    torch.testing.assert_close(model(zeros, h), model(graphs, h))
    for found in gradients(model(zeros, h)[[1, 5]].sum(), h, *model.parameters()):
        assert found.isfinite().all()
    assert gradients(model(zeros, h)[[1, 5]].sum(), h)[0].abs().sum() == 0


@pytest.mark.parametrize("matrices", [[], [matrix(0, [])]])
def test_a_batch_without_nodes_is_read(matrices: list[csr_array]) -> None:
    graphs = batch([matrix(1, []), *matrices], 6, 4)
    none, _ = graphs.select(list(range(1, len(graphs))))
    out = network(3, length=6, size=4)(none, randn(0, 3, seed=1))
    assert out.shape == (len(matrices), 128)
    assert out.isfinite().all()


def test_isomorphic_trees_are_read_the_same() -> None:
    """With the degree as the feature of a node."""
    tree = random_tree(3)
    model = network(1, length=12, size=5)
    outs = []
    for a in (tree, relabeled(tree, 1)[0]):
        graphs = batch([a], 12, 5)
        outs.append(model(graphs, graphs.degree[:, None]))
    torch.testing.assert_close(*outs)
    assert outs[0].abs().sum() > 0


def test_fields_of_another_shape_are_an_error() -> None:
    graphs = batch([matrix(4, PATH)], 6, 4)
    h = randn(4, 3, seed=1)
    with pytest.raises(
        DataError, match=r"rows of length 15, .* got rows of length 24: prepare 5 fields of 3"
    ):
        network(3, length=5, size=3)(graphs, h)
    with pytest.raises(DataError, match=r"rows of length 24, .* got none"):
        network(3, length=6, size=4)(replace(graphs, prepared=Prepared()), h)
    with pytest.raises(DataError, match=r"expected 2 edge features, got 0"):
        network(3, length=6, size=4, channels=2)(graphs, h)
