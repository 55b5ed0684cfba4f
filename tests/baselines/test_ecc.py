"""ECC: Kron reduction, the edge-conditioned convolution, and pooling along the pyramid."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from samples import KINDS, SIZES, gradients, randn, sample
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from diffpool.baselines.ecc import kron
from diffpool.baselines.ecc.edge_conditioned import EdgeConditioned
from diffpool.baselines.ecc.kron import (
    Coarsened,
    coarsened,
    kept_nodes,
    kron_reduction,
    laplacian_of,
)
from diffpool.baselines.ecc.pool import PyramidPool
from diffpool.baselines.ecc.pyramid import kron_pyramid, with_pyramid
from diffpool.builder import DERIVED, build_for_nodes
from diffpool.errors import DataError
from diffpool.experiments import settings_for
from diffpool.graphs import Prepared, SparseGraphs
from diffpool.layout import Layout
from diffpool.nn import Encoder, GraphClassifier, NodeClassifier, mlp
from diffpool.nn.encoder import Unchanged

exact = partial(torch.testing.assert_close, rtol=1e-9, atol=1e-10)
close = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9)


def graph(edges: dict[tuple[int, int], float], n: int) -> csr_array:
    adjacency = np.zeros((n, n))
    for (i, j), weight in edges.items():
        adjacency[i, j] = adjacency[j, i] = weight
    return csr_array(adjacency)


def path(n: int) -> csr_array:
    return graph({(i, i + 1): 1.0 for i in range(n - 1)}, n)


def star(leaves: int) -> csr_array:
    return graph({(0, i): 1.0 for i in range(1, leaves + 1)}, leaves + 1)


def clique(n: int) -> csr_array:
    return csr_array(np.ones((n, n)) - np.eye(n))


def random_graph(n: int, seed: int, density: float = 0.3) -> csr_array:
    """A connected graph with random weights."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < density, 1) * rng.uniform(0.1, 2, (n, n))
    upper[np.arange(n - 1), np.arange(1, n)] = 0.5
    return csr_array(upper + upper.T)


def without(adjacency: csr_array, *removed: int) -> Coarsened:
    kept = np.ones(adjacency.shape[0], bool)
    kept[list(removed)] = False
    return kron_reduction(laplacian_of(adjacency), kept)


def resistances(adjacency: csr_array) -> np.ndarray:
    """Effective resistances between all nodes of a connected graph: [n, n]."""
    inverse = np.linalg.pinv(dense(laplacian_of(adjacency)))
    diagonal = np.diag(inverse)
    return diagonal[:, None] + diagonal - 2 * inverse


def dense(matrix: np.ndarray | csr_array) -> np.ndarray:
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


@pytest.fixture(params=["dense", "sparse"])
def both(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The dense code for small graphs, and the sparse code for large ones, three columns at a time."""
    if request.param == "sparse":
        monkeypatch.setattr(kron, "SMALL", 0)
        monkeypatch.setattr(kron, "COLUMNS", 3)
    return request.param


# --- Kron reduction --------------------------------------------------------------------------------------------------


def test_a_path_of_three_nodes_becomes_an_edge_of_half_the_weight(both: str) -> None:
    made = without(path(3), 1)
    close(made.adjacency.toarray(), [[0, 0.5], [0.5, 0]])
    assert made.parent.tolist() == [0, 0, 1]  # the first of two equally likely parents


def test_a_star_without_its_hub_becomes_a_clique(both: str) -> None:
    made = without(star(5), 0)
    close(made.adjacency.toarray(), clique(5).toarray() / 5)


def test_a_triangle_without_a_node_has_both_paths_in_parallel(both: str) -> None:
    made = without(graph({(0, 1): 2.0, (0, 2): 3.0, (1, 2): 6.0}, 3), 2)
    close(made.adjacency.toarray(), [[0, 4], [4, 0]])  # 2 + 3·6/(3 + 6)
    assert made.parent.tolist() == [0, 1, 1]


@pytest.mark.parametrize("seed", range(3))
def test_the_reduced_laplacian_is_the_schur_complement(both: str, seed: int) -> None:
    adjacency = random_graph(17, seed)
    kept = np.random.default_rng(seed).random(17) < 0.5
    laplacian = dense(laplacian_of(adjacency))
    k, r = np.ix_(kept, kept), np.ix_(~kept, ~kept)
    inverse = np.linalg.inv(laplacian[r])
    complement = laplacian[k] - laplacian[kept][:, ~kept] @ inverse @ laplacian[~kept][:, kept]
    made = kron_reduction(laplacian_of(adjacency), kept)
    close(dense(laplacian_of(made.adjacency)), complement)
    reaches = -inverse @ laplacian[~kept][:, kept]  # first, by a random walk
    assert made.parent[~kept].tolist() == reaches.argmax(1).tolist()
    assert made.parent[kept].tolist() == list(range(kept.sum()))


def test_a_reduced_graph_is_undirected_without_loops_or_negative_weights(both: str) -> None:
    made = without(random_graph(15, seed=4), 0, 3, 4, 5, 9).adjacency.toarray()
    close(made, made.T)
    assert (made >= 0).all()
    assert (np.diag(made) == 0).all()


def test_kron_reduction_preserves_effective_resistances(both: str) -> None:
    adjacency = random_graph(14, seed=5)
    removed = [1, 2, 6, 7, 8, 12]
    kept = np.setdiff1d(np.arange(14), removed)
    close(
        resistances(without(adjacency, *removed).adjacency),
        resistances(adjacency)[np.ix_(kept, kept)],
    )


# --- which nodes are kept --------------------------------------------------------------------------------------------


def stays(adjacency: csr_array) -> list[int]:
    return np.flatnonzero(kept_nodes(laplacian_of(adjacency))).tolist()


def test_a_star_keeps_its_hub(both: str) -> None:
    assert stays(star(6)) == [0]
    made = coarsened(star(6))
    assert made.adjacency.shape == (1, 1)
    assert made.parent.tolist() == [0] * 7


def test_an_even_cycle_keeps_every_other_node(both: str) -> None:
    cycle = graph({(i, (i + 1) % 8): 1.0 for i in range(8)}, 8)
    assert stays(cycle) == [0, 2, 4, 6]
    close(
        coarsened(cycle).adjacency.toarray(),
        graph({(0, 1): 0.5, (1, 2): 0.5, (2, 3): 0.5, (0, 3): 0.5}, 4).toarray(),
    )


def test_each_component_is_coarsened_by_itself(both: str) -> None:
    """A path of three, an isolated node and an edge: the hub, the node, and the first of two tied nodes are kept."""
    parts = graph({(0, 1): 1.0, (1, 2): 1.0, (4, 5): 3.0}, 6)
    assert stays(parts) == [1, 3, 4]
    made = coarsened(parts)
    assert made.parent.tolist() == [0, 0, 0, 1, 2, 2]
    assert made.adjacency.nnz == 0


@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_graph_without_edges_does_not_change(both: str, n: int) -> None:
    made = coarsened(csr_array((n, n)))
    assert made.adjacency.shape == (n, n)
    assert made.parent.tolist() == list(range(n))


def test_weights_may_differ_by_many_orders_of_magnitude(both: str) -> None:
    """An edge whose weight is negligible counts as no edge."""
    edges = {(0, 1): 1e9, (1, 2): 1.0, (2, 3): 1e3, (3, 4): 1e-9, (4, 5): 1e-5, (2, 4): 1e7}
    made = coarsened(graph(edges, 6))
    assert (
        made.parent.tolist()
        == coarsened(graph(edges | {(3, 4): 0.0, (4, 5): 0.0}, 6)).parent.tolist()
    )
    assert np.isfinite(made.adjacency.data).all()


def test_self_loops_change_nothing(both: str) -> None:
    adjacency = random_graph(9, seed=6)
    loops = coarsened(csr_array(adjacency.toarray() + np.diag(np.arange(9.0))))
    close(loops.adjacency.toarray(), coarsened(adjacency).adjacency.toarray())


def test_the_kept_nodes_do_not_depend_on_node_numbers(both: str) -> None:
    adjacency = random_graph(20, seed=7)
    order = np.random.default_rng(8).permutation(20)
    again = kept_nodes(laplacian_of(csr_array(adjacency.toarray()[order][:, order])))
    assert (again == kept_nodes(laplacian_of(adjacency))[order]).all()


def test_far_from_a_hub_about_every_other_node_is_kept(both: str) -> None:
    """Along a path from a hub with 40 leaves, the eigenvector shrinks 40-fold with every step, to 1e-96."""
    edges = {(0, i): 1.0 for i in range(1, 41)} | {(i, i + 1): 1.0 for i in range(40, 99)}
    kept = kept_nodes(laplacian_of(graph(edges, 100)))[40:]
    assert 26 <= kept.sum() <= 34
    assert not (~kept[1:-1] & ~kept[2:] & ~kept[:-2]).any()


def test_lanczos_and_full_decomposition_give_the_same_eigenvector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also for a clique, where every vector with sum zero is an eigenvector."""
    laplacians = [laplacian_of(a) for a in (random_graph(60, seed=9), clique(50), star(30))]
    whole = [kron.largest_eigenvector(l) for l in laplacians]
    monkeypatch.setattr(kron, "SMALL", 0)
    for laplacian, vector in zip(laplacians, whole, strict=True):
        found = kron.largest_eigenvector(laplacian)
        cosine = found @ vector / np.linalg.norm(found) / np.linalg.norm(vector)
        assert abs(cosine) == pytest.approx(1, abs=1e-7)


# --- sparsification --------------------------------------------------------------------------------------------------


def test_distances_of_the_embedding_are_effective_resistances(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    adjacency = random_graph(40, seed=10)
    i, j = np.triu_indices(40, 1)
    truth = resistances(adjacency)[i, j]
    for small, tolerance in ((128, 1e-9), (0, 0.5)):
        monkeypatch.setattr(kron, "SMALL", small)
        points = kron.resistance_embedding(laplacian_of(adjacency))
        found = np.square(points[i] - points[j]).sum(1)
        np.testing.assert_allclose(found, truth, rtol=tolerance)
        assert found.mean() == pytest.approx(truth.mean(), rel=0.1)


def test_a_tree_is_not_sparsified(both: str) -> None:
    """Each of its edges is kept with probability 1."""
    rng = np.random.default_rng(11)
    tree = graph({(int(rng.integers(i)), i): float(rng.uniform(0.2, 3)) for i in range(1, 30)}, 30)
    kept = np.ones(30, bool)
    laplacian = laplacian_of(tree)
    made = kron_reduction(laplacian, kept, kron.resistance_sparsifier(laplacian, kept))
    close(made.adjacency.toarray(), tree.toarray())


@pytest.mark.parametrize("leaves", [100, 400])
def test_removing_a_hub_leaves_few_edges(leaves: int) -> None:
    """A clique with weights 1/n becomes a connected graph with about n ln n edges and the same total weight."""
    laplacian = laplacian_of(star(leaves))
    kept = np.arange(leaves + 1) > 0
    made = kron_reduction(laplacian, kept, kron.resistance_sparsifier(laplacian, kept)).adjacency
    assert made.nnz / 2 < 1.1 * kron.EDGES * leaves * np.log(leaves)
    assert made.sum() == pytest.approx(leaves - 1, rel=0.1)
    assert connected_components(made, directed=False)[0] == 1
    again = kron_reduction(laplacian, kept, kron.resistance_sparsifier(laplacian, kept)).adjacency
    assert (made != again).nnz == 0


# --- all graphs of a batch -------------------------------------------------------------------------------------------


def pyramid_of(graphs: SparseGraphs, levels: int = 2) -> SparseGraphs:
    return with_pyramid(graphs, kron_pyramid(graphs, levels, lambda fraction: None))


def check_same(a: SparseGraphs, b: SparseGraphs) -> None:
    """Equal graphs, at this level and all coarser ones."""
    assert a.layout.sizes.tolist() == b.layout.sizes.tolist()
    for mine, other in ((a.adj, b.adj), (a.adj_t, b.adj_t)):
        assert mine.indptr.tolist() == other.indptr.tolist()
        assert mine.indices.tolist() == other.indices.tolist()
        exact(mine.values, other.values)
    assert len(a.channels) == len(b.channels)
    for x, y in zip(a.channels, b.channels, strict=True):
        exact(x.values, y.values)
        exact(x.values_t, y.values_t)
    assert (a.prepared.coarser is None) == (b.prepared.coarser is None)
    if a.prepared.coarser is not None:
        assert a.prepared.nodes.tolist() == b.prepared.nodes.tolist()
        check_same(a.prepared.coarser, b.prepared.coarser)


def test_selected_graphs_keep_the_pyramid_that_they_have_alone() -> None:
    batch = sample(weighted=True)
    chosen = [7, 0, 4, 1, 2, 5]
    selected, _ = pyramid_of(batch.sparse).select(chosen)
    check_same(selected, pyramid_of(batch.of(chosen).sparse))


def test_every_level_has_the_sizes_of_its_graphs() -> None:
    batch = sample()
    level = pyramid_of(batch.sparse)
    for g, adj in enumerate(batch.adjs):
        first = coarsened(csr_array(adj.numpy()))
        second = coarsened(first.adjacency)
        sizes = [first.adjacency.shape[0], second.adjacency.shape[0]]
        coarser = level.prepared.coarser
        assert sizes == [coarser.layout.sizes[g], coarser.prepared.coarser.layout.sizes[g]]
        start = int(level.layout.starts[g])
        own = level.prepared.nodes[start : start + len(adj)]
        assert own.tolist() == first.parent.tolist()


def test_building_a_pyramid_reports_its_progress() -> None:
    fractions: list[float] = []
    kron_pyramid(sample().sparse, 2, fractions.append)
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    empty = kron_pyramid(SparseGraphs.from_edges([], [], []), 1, fractions.append)
    assert empty[0].indptr.tolist() == [0]


@pytest.mark.parametrize("kind", ["undirected", "weighted", "loops"])
def test_the_loops_of_ecc_do_not_change_the_adjacency_matrix(kind: str) -> None:
    batch = sample(**KINDS[kind])
    before, after = batch.sparse, pyramid_of(batch.sparse)
    exact(after.propagate(batch.x), before.propagate(batch.x))
    exact(after.degree, before.degree)
    exact(after.squared_norm, before.squared_norm)
    loops = batch.x.new_ones(len(batch.x))
    exact(after.propagate_channel(DERIVED - 1, batch.x), loops[:, None] * batch.x)


def test_edge_features_by_hand() -> None:
    """A path of three nodes with a feature for each edge; 1/√2 between nodes of degree 1 and 2."""
    a = path(3)
    graphs = SparseGraphs.from_csr(
        np.array([3]),
        a.indptr,
        a.indices,
        None,
        np.array([[5.0], [5], [7], [7]]),
        dtype=torch.float64,
    )
    made = pyramid_of(graphs, levels=1)
    assert made.adj.indices.tolist() == [0, 1, 0, 1, 2, 1, 2]
    own, weight, loop = (channel.values.tolist() for channel in made.channels)
    assert own == [0, 5, 5, 0, 7, 7, 0]
    assert weight == pytest.approx([0, 0.5**0.5, 0.5**0.5, 0, 0.5**0.5, 0.5**0.5, 0])
    assert loop == [1, 0, 0, 1, 0, 0, 1]
    coarser = made.prepared.coarser
    assert [channel.values.tolist() for channel in coarser.channels] == [[0], [0], [1]]


# --- the convolution -------------------------------------------------------------------------------------------------

INPUTS, OUTPUTS, CHANNELS, HIDDEN = 3, 4, 2, 5


def with_channels(graphs: SparseGraphs, seed: int = 0) -> SparseGraphs:
    """The graphs with random edge features."""
    values = randn(graphs.num_edges, CHANNELS, seed=seed).numpy()
    adj = graphs.adj
    return SparseGraphs.from_csr(
        graphs.layout.sizes.numpy(),
        adj.indptr.numpy(),
        adj.indices.numpy(),
        None,
        values,
        dtype=torch.float64,
    )


def make(models: int = 1) -> EdgeConditioned:
    return EdgeConditioned(INPUTS, OUTPUTS, CHANNELS, hidden=HIDDEN, models=models).double()


def ends(graphs: SparseGraphs) -> tuple[Tensor, Tensor]:
    """Sources and targets: [E] each."""
    target = torch.repeat_interleave(torch.arange(graphs.num_nodes), graphs.adj.indptr.diff())
    return graphs.adj.indices, target


def slow(conv: EdgeConditioned, graphs: SparseGraphs, x: Tensor) -> Tensor:
    """The mean over edges of Θ(e) x_j, with a matrix for each edge."""
    source, target = ends(graphs)
    model = target // (graphs.num_nodes // conv.models)
    features = torch.stack([c.values for c in graphs.channels], 1)
    phi = torch.einsum("ec,ecr->er", features, conv.filter.weight[model]) + conv.filter.bias[model]
    theta = conv.linear.weight.unflatten(1, (HIDDEN + 1, INPUTS))[model]  # [E, R + 1, in, out]
    phi = torch.cat([phi.relu(), torch.ones_like(phi[:, :1])], 1)
    matrices = torch.einsum("er,erio->eio", phi, theta)
    messages = torch.einsum("ei,eio->eo", x[source], matrices)
    total = x.new_zeros(len(x), OUTPUTS).index_add(0, target, messages)
    count = torch.bincount(target, minlength=len(x)).clamp(min=1)
    mean = (total / count[:, None]).unflatten(0, (conv.models, -1))
    return (mean + conv.linear.bias[:, None]).flatten(0, 1)


def check_gradients(conv: EdgeConditioned, a: Tensor, b: Tensor, x: Tensor) -> None:
    exact(a, b)
    cotangent = randn(*a.shape, seed=1)
    wanted = (x, *conv.parameters())
    for mine, other in zip(
        gradients((a * cotangent).sum(), *wanted),
        gradients((b * cotangent).sum(), *wanted),
        strict=True,
    ):
        exact(mine, other)


@pytest.mark.parametrize("kind", ["undirected", "directed", "everything"])
def test_the_convolution_equals_the_one_with_a_matrix_for_each_edge(kind: str) -> None:
    batch, conv = sample(**KINDS[kind]), make()
    graphs, x = with_channels(batch.sparse), batch.x.requires_grad_()
    check_gradients(conv, conv(graphs, x), slow(conv, graphs, x), x)
    exact(conv(graphs, x, 2), conv(graphs, x)[:, :2])


def test_the_convolution_equals_nnconv_of_pyg() -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    batch, conv = sample(directed=True), make()
    graphs, x = with_channels(batch.sparse), batch.x.requires_grad_()
    network = torch.nn.Sequential(
        torch.nn.Linear(CHANNELS, HIDDEN),
        torch.nn.ReLU(),
        torch.nn.Linear(HIDDEN, INPUTS * OUTPUTS),
    )
    theirs = pyg.NNConv(INPUTS, OUTPUTS, network, aggr="mean", root_weight=False).double()
    theta = conv.linear.weight[0].unflatten(0, (HIDDEN + 1, INPUTS)).flatten(1)  # [R + 1, in · out]
    pairs = {
        network[0].weight: conv.filter.weight[0].T,
        network[0].bias: conv.filter.bias[0],
        network[2].weight: theta[:-1].T,
        network[2].bias: theta[-1],
        theirs.bias: conv.linear.bias[0],
    }
    with torch.no_grad():
        for parameter, value in pairs.items():
            parameter.copy_(value)
    features = torch.stack([c.values for c in graphs.channels], 1)
    a, b = conv(graphs, x), theirs(x, torch.stack(ends(graphs)), features)
    exact(a, b)
    cotangent = randn(*a.shape, seed=1)
    other = gradients((b * cotangent).sum(), x, *pairs)
    exact(gradients((a * cotangent).sum(), x)[0], other[0])
    mine = gradients((a * cotangent).sum(), *conv.parameters())
    exact(mine[0][0], other[1].T)
    exact(mine[1][0], other[2])
    exact(mine[2][0], torch.cat([other[3].T, other[4][None]]).reshape(-1, OUTPUTS))
    exact(mine[3][0], other[5])


def side_by_side(
    graphs: SparseGraphs, x: Tensor, chosen: list[list[int]]
) -> tuple[SparseGraphs, Tensor]:
    """These graphs of each model as one batch; models with fewer nodes end with rows that belong to no graph."""
    sizes = graphs.layout.sizes[torch.tensor(chosen)]
    layout = Layout.from_sizes(sizes.reshape(-1), models=len(chosen))
    batch, nodes = graphs.with_empty_graph().select([g for own in chosen for g in own], layout)
    return batch, torch.cat([x, x.new_zeros(1, x.shape[1])])[nodes]


def test_models_side_by_side_convolve_like_single_models() -> None:
    batch, chosen = sample(), [[0, 3, 6], [4, 5, 2], [7, 1, 0]]
    graphs, conv = with_channels(batch.sparse), make(models=3)
    joint, x = side_by_side(graphs, batch.x, chosen)
    assert joint.layout.real is not None
    out = conv(joint, x.requires_grad_())
    check_gradients(conv, out, slow(conv, joint, x), x)
    for m, own in enumerate(chosen):
        alone = make()
        with torch.no_grad():
            for mine, all_models in zip(alone.parameters(), conv.parameters(), strict=True):
                mine.copy_(all_models[m : m + 1])
        part, nodes = graphs.select(own)
        start = m * (joint.num_nodes // 3)
        exact(out[start : start + len(nodes)], alone(part, batch.x[nodes]))


@pytest.mark.parametrize("models", [1, 2])
def test_the_convolution_of_a_batch_without_nodes_is_empty(models: int) -> None:
    graphs = with_channels(sample(sizes=[0, 0]).sparse)
    assert make(models)(graphs, torch.zeros(0, INPUTS, dtype=torch.float64)).shape == (0, OUTPUTS)


def test_the_convolution_rejects_dense_graphs_and_missing_edge_features() -> None:
    batch = sample()
    with pytest.raises(DataError, match="expected 2 edge features, got 0: give every edge"):
        make()(batch.sparse, batch.x)
    with pytest.raises(DataError, match=r"expected sparse graphs .* got dense graphs: use"):
        make()(batch.dense, batch.x)


# --- pooling ---------------------------------------------------------------------------------------------------------


def test_pooling_by_hand() -> None:
    """Two graphs: three nodes in two clusters, and two nodes in one cluster."""
    coarser = SparseGraphs.from_edges([2, 1], [0, 1], [1, 0])
    graphs = replace(
        SparseGraphs.from_edges([3, 2], [0, 3], [1, 4]),
        prepared=Prepared(nodes=torch.tensor([1, 0, 1, 0, 0]), coarser=coarser),
    )
    z = torch.tensor([[1.0, -5], [2, -6], [3, -7], [-4, 0], [-8, 9]], requires_grad=True)
    pooled = PyramidPool()(graphs, z, None)
    assert pooled.x.tolist() == [[2, -6], [3, -5], [-4, 9]]
    assert pooled.graphs is coarser
    assert pooled.losses == {}
    assert pooled.assignment.of_graph(0).tolist() == [[0, 1], [1, 0], [0, 1]]
    assert pooled.assignment.of_graph(1).tolist() == [[1], [1]]
    pooled.x.sum().backward()
    assert z.grad.tolist() == [[0, 1], [1, 1], [1, 0], [1, 0], [0, 1]]
    lifted = pooled.assignment.lift(torch.tensor([[1.0], [2], [3]]))
    assert lifted.tolist() == [[2], [1], [2], [3], [3]]


def test_pooling_without_coarser_graphs_is_an_error() -> None:
    batch = sample()
    with pytest.raises(
        DataError, match="expected a coarser graph for every pooling, got none: call"
    ):
        PyramidPool()(batch.sparse, batch.x, None)


def classifier(models: int = 1) -> GraphClassifier:
    conv = partial(EdgeConditioned, channels=DERIVED, hidden=HIDDEN)
    order = ("batch", "relu")
    sizes = [[INPUTS, 6], [6, 6], [6, 6]]
    encoders = [Encoder(conv, s, order=order, models=models) for s in sizes]
    head = mlp(6, [], 2, models)
    return GraphClassifier(encoders, [PyramidPool(), PyramidPool()], (), head, "mean").double()


def test_models_side_by_side_pool_like_single_models() -> None:
    """Rows that belong to no graph do not enter a maximum and have no gradient; empty graphs have zeros."""
    batch, chosen = sample(), [[0, 3, 6], [4, 5, 2]]
    graphs, model = pyramid_of(batch.sparse), classifier(models=2).eval()
    joint, x = side_by_side(graphs, batch.x, chosen)
    assert joint.layout.real is not None
    logits = model(joint, x.requires_grad_()).logits
    (of_x,) = gradients(logits.square().sum(), x)
    assert (of_x[~joint.layout.real] == 0).all()
    for m, own in enumerate(chosen):
        alone = classifier().eval()
        with torch.no_grad():
            for mine, all_models in zip(alone.parameters(), model.parameters(), strict=True):
                mine.copy_(all_models[m : m + 1])
        part, nodes = graphs.select(own)
        exact(logits[3 * m : 3 * m + 3], alone(part, batch.x[nodes]).logits)


def test_lifting_is_the_product_with_the_assignment_matrix() -> None:
    """With models side by side, where rows that belong to no graph get zeros."""
    batch, chosen = sample(), [[0, 3, 6], [4, 5, 2]]
    joint, x = side_by_side(pyramid_of(batch.sparse), batch.x, chosen)
    pooled = PyramidPool()(joint, x, None)
    h = randn(pooled.graphs.layout.total, 2, seed=1)
    lifted = pooled.assignment.lift(h)
    rows, clusters = joint.layout, pooled.graphs.layout
    for g in range(len(rows)):
        own = slice(rows.starts[g], rows.starts[g] + rows.sizes[g])
        coarse = slice(clusters.starts[g], clusters.starts[g] + clusters.sizes[g])
        exact(lifted[own], pooled.assignment.of_graph(g).double() @ h[coarse])
    assert (lifted[~rows.real] == 0).all()


def test_nodes_are_classified_with_the_pyramid() -> None:
    """Every node has logits, the same alone and in a batch, and every parameter a gradient."""
    sizes, architecture = (9, 1, 30, 0, 5), settings_for("ecc", "any", hidden=6).architecture
    model = build_for_nodes(architecture, INPUTS, 4, max(sizes)).double().eval()
    batch = sample(sizes, density=0.4)
    graphs = pyramid_of(batch.sparse, architecture.poolings)
    logits = model(graphs, batch.x).logits
    assert logits.shape == (sum(sizes), 4)
    for g, own in enumerate(logits.split(list(sizes))):
        alone, nodes = graphs.select([g])
        exact(model(alone, batch.x[nodes]).logits, own)
    cotangent = randn(*logits.shape, seed=1)
    for gradient in gradients((logits * cotangent).sum(), *model.parameters()):
        assert gradient.isfinite().all()
        assert gradient.abs().max() > 0


def test_lifting_shares_features_between_unconnected_nodes_of_a_cluster() -> None:
    """Without edges and convolutions, only lifting brings the maximum of a cluster to all of its nodes."""
    coarser = SparseGraphs.from_edges([1], [], [])
    graphs = replace(
        SparseGraphs.from_edges([3], [], []),
        prepared=Prepared(nodes=torch.tensor([0, 0, 0]), coarser=coarser),
    )
    model = NodeClassifier(
        [Unchanged(1), Unchanged(1)], [PyramidPool()], (), [Unchanged(2)], torch.nn.Identity()
    )
    x = torch.tensor([[1.0], [5], [2]])
    assert model(graphs, x).logits.tolist() == [[1, 5], [5, 5], [2, 5]]


@pytest.mark.parametrize("kind", ["undirected", "weighted", "loops"])
def test_gradients_are_finite_on_empty_edgeless_and_ordinary_graphs(kind: str) -> None:
    batch, model = sample(**KINDS[kind]), classifier()
    prediction = model(pyramid_of(batch.sparse), batch.x)
    assert prediction.logits.shape == (len(SIZES), 2)
    for gradient in gradients(prediction.logits.square().sum(), *model.parameters()):
        assert gradient.isfinite().all()
    for g, n in enumerate(SIZES):
        s = prediction.assignments[0].of_graph(g)
        assert s.shape[0] == n
        assert (s.sum(1) == 1).all()
        assert (s.sum(0) > 0).all()
