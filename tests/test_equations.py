"""Equations 3, 4 and 6 and the two losses: edge lists, dense blocks and the paper's formulas agree."""

from __future__ import annotations

import pytest
import reference
import torch
from samples import CLUSTERS, SIZES, Sample, gradients, local, randn, sample
from torch import Tensor

from diffpool import equations
from diffpool.graphs import DenseGraphs, Graphs, SparseGraphs
from diffpool.layout import Layout

STORAGES = ("sparse", "dense")
# Clusters per graph: different numbers, the same number (more than some graphs have nodes), and one.
COUNTS = {"graph": CLUSTERS, "dataset": (4,) * len(SIZES), "one": (1,) * len(SIZES)}


def exact(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)


def ours(
    graphs: Graphs, logits: Tensor, z: Tensor, clusters: Layout
) -> tuple[Tensor, DenseGraphs, Tensor, Tensor, Tensor]:
    """S, A', X' and the two losses."""
    s = equations.assignment(logits, graphs.layout, clusters)
    pooled = equations.pooled_graphs(graphs, s, clusters)
    x = equations.pooled_features(graphs, s, z, clusters)
    link = equations.link_loss(graphs, s, pooled)
    return s, pooled, x, link, equations.entropy_loss(graphs, s)


def theirs(
    adjs: list[Tensor], logits: list[Tensor], zs: list[Tensor], counts: tuple[int, ...]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The same computed with the formulas of the paper, with local columns."""
    width = max(counts)
    ss = [reference.assignment(part, k) for part, k in zip(logits, counts, strict=True)]
    pairs = list(zip(adjs, ss, strict=True))
    return (
        local(ss, width),
        local([reference.pooled_adjacency(adj, s) for adj, s in pairs], width),
        torch.cat([reference.pooled_features(s, z) for s, z in zip(ss, zs, strict=True)]),
        torch.stack([reference.link_loss(adj, s) for adj, s in pairs]),
        torch.stack([reference.entropy_loss(s) for s in ss]),
    )


def weighted_sum(parts: tuple[Tensor, ...]) -> Tensor:
    """A scalar that combines all outputs, to test all gradients at once."""
    return sum((part * randn(*part.shape, seed=i)).sum() for i, part in enumerate(parts))


@pytest.mark.parametrize("clusters", COUNTS)
@pytest.mark.parametrize("storage", STORAGES)
def test_values_and_gradients_equal_those_of_the_paper(
    ragged: Sample, storage: str, clusters: str
) -> None:
    counts = COUNTS[clusters]
    graphs = getattr(ragged, storage)
    logits = randn(graphs.num_nodes, max(counts), seed=10).requires_grad_()
    z = randn(graphs.num_nodes, 3, seed=11).requires_grad_()
    s, pooled, *rest = ours(graphs, logits, z, Layout.from_sizes(counts))
    fast = (s, pooled.adj, *rest)
    parts = (reference.blocks(h, ragged.sizes) for h in (logits, z))
    slow = theirs(ragged.adjs, *parts, counts)
    for a, b in zip(fast, slow, strict=True):
        exact(a, b)
    for a, b in zip(
        gradients(weighted_sum(fast), logits, z),
        gradients(weighted_sum(slow), logits, z),
        strict=True,
    ):
        exact(a, b)


@pytest.mark.parametrize("clusters", COUNTS)
def test_gradients_with_respect_to_a_coarse_adjacency_equal_those_of_the_paper(
    clusters: str,
) -> None:
    counts = COUNTS[clusters]
    batch = sample(weighted=True, directed=True, loops=True)
    adjs = [adj.requires_grad_() for adj in batch.adjs]
    layout = Layout.from_sizes(batch.sizes)
    logits = randn(layout.total, max(counts), seed=10)
    z = randn(layout.total, 3, seed=11)
    graphs = DenseGraphs.from_adj(layout, local(adjs, max(batch.sizes)))
    s, pooled, *rest = ours(graphs, logits, z, Layout.from_sizes(counts))
    fast = weighted_sum((s, pooled.adj, *rest, pooled.degree, pooled.trace()))
    slow_parts = theirs(adjs, *(reference.blocks(h, batch.sizes) for h in (logits, z)), counts)
    blocks = reference.blocks(slow_parts[1], list(counts), list(counts))
    traces = torch.stack([block.trace() for block in blocks])
    slow = weighted_sum((*slow_parts, slow_parts[1].sum(1), traces))
    for a, b in zip(gradients(fast, *adjs), gradients(slow, *adjs), strict=True):
        exact(a, b)


def test_two_poolings_in_a_row_equal_those_of_the_paper(ragged: Sample) -> None:
    """The second pooling gets dense blocks that depend on the logits."""
    first, second = CLUSTERS, tuple((k + 1) // 2 for k in CLUSTERS)
    logits = randn(sum(SIZES), max(first), seed=10).requires_grad_()
    more = randn(sum(first), max(second), seed=11).requires_grad_()
    z = randn(sum(SIZES), 3, seed=12)
    _, pooled, x, *_ = ours(ragged.sparse, logits, z, Layout.from_sizes(first))
    _, last, *rest = ours(pooled, more, x, Layout.from_sizes(second))
    fast = (last.adj, *rest)
    _, adj, x, *_ = theirs(
        ragged.adjs,
        reference.blocks(logits, list(SIZES)),
        reference.blocks(z, list(SIZES)),
        first,
    )
    blocks = reference.blocks(adj, list(first), list(first))
    parts = (reference.blocks(h, list(first)) for h in (more, x))
    _, *slow = theirs(blocks, *parts, second)
    for a, b in zip(fast, slow, strict=True):
        exact(a, b)
    for a, b in zip(
        gradients(weighted_sum(fast), logits, more),
        gradients(weighted_sum(tuple(slow)), logits, more),
        strict=True,
    ):
        exact(a, b)


def test_the_equations_of_a_hand_computed_case() -> None:
    """A path of three nodes; the first two form a cluster."""
    graphs = SparseGraphs.from_edges([3], [0, 1, 1, 2], [1, 0, 2, 1], dtype=torch.float64)
    s = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    z = torch.tensor([[1.0], [10.0], [100.0]], dtype=torch.float64)
    clusters = Layout.from_sizes([2])
    pooled = equations.pooled_graphs(graphs, s, clusters)
    assert pooled.adj.tolist() == [[2, 1], [1, 0]]
    assert equations.pooled_features(graphs, s, z, clusters).tolist() == [[11], [100]]
    # A − SSᵀ is −1 three times on the diagonal and 1 twice next to it.
    exact(equations.link_loss(graphs, s, pooled), torch.tensor([5.0], dtype=torch.float64).sqrt())
    assert equations.entropy_loss(graphs, s).tolist() == [0]
    half = torch.full((3, 2), 0.5, dtype=torch.float64)
    exact(equations.entropy_loss(graphs, half), torch.tensor([2.0], dtype=torch.float64).log())


# --- laws --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clusters", COUNTS)
@pytest.mark.parametrize("storage", STORAGES)
def test_pooling_keeps_the_total_edge_weight(ragged: Sample, storage: str, clusters: str) -> None:
    counts = COUNTS[clusters]
    graphs = getattr(ragged, storage)
    logits = randn(graphs.num_nodes, max(counts), seed=1)
    _, pooled, *_ = ours(graphs, logits, ragged.x, Layout.from_sizes(counts))
    totals = torch.stack([adj.sum() for adj in ragged.adjs])
    exact(pooled.readout(pooled.degree, "sum"), totals)


@pytest.mark.parametrize("clusters", COUNTS)
def test_the_rows_of_an_assignment_are_distributions_over_the_clusters_of_their_graph(
    clusters: str,
) -> None:
    counts = COUNTS[clusters]
    graphs = sample().sparse
    s = equations.assignment(
        randn(graphs.num_nodes, max(counts), seed=1), graphs.layout, Layout.from_sizes(counts)
    )
    assert (s >= 0).all()
    for n, k, part in zip(SIZES, counts, reference.blocks(s, list(SIZES)), strict=True):
        exact(part[:, :k].sum(1), torch.ones(n, dtype=torch.float64))
        assert not part[:, k:].any()


@pytest.mark.parametrize("storage", STORAGES)
def test_the_losses_and_gradients_of_a_graph_do_not_depend_on_the_rest_of_the_batch(
    ragged: Sample, storage: str
) -> None:
    logits = randn(sum(SIZES), max(CLUSTERS), seed=1).requires_grad_()
    z = randn(sum(SIZES), 3, seed=2)
    _, _, _, *losses = ours(getattr(ragged, storage), logits, z, Layout.from_sizes(CLUSTERS))
    (together,) = gradients(sum(loss.sum() for loss in losses), logits)
    start = 0
    for graph, n in enumerate(SIZES):
        alone = getattr(ragged.of([graph]), storage)
        rows, k = slice(start, start + n), CLUSTERS[graph]
        mine = logits[rows, :k].detach().requires_grad_()
        _, _, _, *own = ours(alone, mine, z[rows], Layout.from_sizes([k]))
        for loss, single in zip(losses, own, strict=True):
            exact(loss[graph], single[0])
        (gradient,) = gradients(sum(loss.sum() for loss in own), mine)
        exact(together[rows, :k], gradient)
        assert not together[rows, k:].any()
        start += n


@pytest.mark.parametrize("seed", range(3))
def test_a_single_graph_is_pooled_as_in_pyg(seed: int) -> None:
    """PyG divides the link loss by n². There is no padding here, so everything else is as in the paper."""
    dense_diff_pool = pytest.importorskip("torch_geometric.nn").dense_diff_pool
    n, k = 7, 3
    batch = sample([n], seed=seed, edgeless=(), weighted=True)
    logits = randn(n, k, seed=seed).requires_grad_()
    z = batch.x.requires_grad_()
    x, adj, link, entropy = dense_diff_pool(z, batch.adjs[0], logits)
    _, pooled, pooled_x, our_link, our_entropy = ours(
        batch.sparse, logits, z, Layout.from_sizes([k])
    )
    pairs = (
        (pooled_x, x[0]),
        (pooled.adj, adj[0]),
        (our_link[0], link * n**2),
        (our_entropy[0], entropy),
    )
    for a, b in pairs:
        exact(a, b)
        for mine, other in zip(
            gradients((a * randn(*a.shape, seed=5)).sum(), logits, z),
            gradients((b * randn(*b.shape, seed=5)).sum(), logits, z),
            strict=True,
        ):
            exact(mine, other)


# --- where a root or a logarithm has no derivative ---------------------------------------------------------------


def one_hot(clusters: list[int], width: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.nn.functional.one_hot(torch.tensor(clusters), width).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("storage", STORAGES)
def test_the_link_loss_and_its_gradient_are_zero_at_a_perfect_fit(
    storage: str, dtype: torch.dtype
) -> None:
    """Cliques with self-loops and the assignment of each clique to a cluster: A = SSᵀ."""
    s = one_hot([0, 0, 1, 1, 1, 2, 0, 0], 3, dtype)
    cliques = [s[:6] @ s[:6].T, s[6:7] @ s[6:7].T, torch.zeros(0, 0, dtype=dtype), s[7:] @ s[7:].T]
    batch = Sample(cliques, [torch.zeros(len(c), 1, dtype=dtype) for c in cliques])
    graphs = getattr(batch, storage)
    s.requires_grad_()
    pooled = equations.pooled_graphs(graphs, s, Layout.from_sizes([3, 1, 0, 3]))
    loss = equations.link_loss(graphs, s, pooled)
    assert loss.tolist() == [0, 0, 0, 0]
    (gradient,) = gradients(loss.sum(), s)
    assert torch.equal(gradient, torch.zeros_like(s))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_saturated_logits_at_a_perfect_fit_have_finite_losses_and_gradients(
    dtype: torch.dtype,
) -> None:
    s = one_hot([0, 0, 1, 1, 1, 2], 3, dtype)
    batch = Sample([s @ s.T], [torch.zeros(6, 1, dtype=dtype)])
    for scale in (1.0, 10.0, 20.0, 40.0, 1000.0):
        logits = (scale * s).requires_grad_()
        *_, link, entropy = ours(batch.sparse, logits, batch.x, Layout.from_sizes([3]))
        (gradient,) = gradients((link + entropy).sum(), logits)
        assert torch.isfinite(link + entropy).all()
        assert torch.isfinite(gradient).all()


EXTREMES = {
    "an empty graph": ([0], (), [0]),
    "an empty graph with clusters": ([0], (), [3]),
    "a single node": ([1], (), [1]),
    "a single node with more clusters": ([1], (), [3]),
    "an edgeless graph": ([4], (0,), [2]),
    "fewer nodes than clusters": ([3], (), [5]),
    "all of them": ([0, 1, 4, 3, 0], (2,), [0, 1, 2, 5, 3]),
    "no graph at all": ([], (), []),
}


@pytest.mark.parametrize("scale", [1.0, 1000.0], ids=["soft", "one-hot"])
@pytest.mark.parametrize("case", EXTREMES)
def test_losses_and_gradients_are_finite_at_the_extremes(case: str, scale: float) -> None:
    sizes, edgeless, counts = EXTREMES[case]
    graphs = (
        sample(sizes, edgeless=edgeless).sparse
        if sizes
        else SparseGraphs.from_edges([], [], [], dtype=torch.float64)
    )
    logits = (scale * randn(graphs.num_nodes, max(counts, default=0), seed=1)).requires_grad_()
    z = randn(graphs.num_nodes, 3, seed=2).requires_grad_()
    s, pooled, *rest = ours(graphs, logits, z, Layout.from_sizes(counts))
    parts = (s, pooled.adj, *rest, pooled.inverse_degree)
    assert all(torch.isfinite(part).all() for part in parts)
    for gradient in gradients(sum(part.sum() for part in parts), logits, z):
        assert torch.isfinite(gradient).all()


def test_the_entropy_of_a_certain_node_is_zero_with_a_finite_gradient() -> None:
    graphs = SparseGraphs.from_edges([2], [], [], dtype=torch.float64)
    s = one_hot([0, 1], 2).requires_grad_()
    entropy = equations.entropy_loss(graphs, s)
    assert entropy.tolist() == [0]
    assert torch.isfinite(*gradients(entropy.sum(), s)).all()
