"""Graclus: hand-computed cuts, laws of its phases, and cuts compared with METIS and spectral clustering."""

from __future__ import annotations

import itertools
import os
from math import ceil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from benchmarks.graclus import metis, planted, relative, sample, spectral
from diffpool.baselines.graclus import graclus, hierarchy, kernel_kmeans, normalized_cut
from diffpool.baselines.graclus.kernel_kmeans import Graph, Moves, batch_step, chain, refine
from diffpool.baselines.graclus.multilevel import bisect, coarser, heavy_edge_matching, join
from diffpool.data.tu_collection import load_raw
from diffpool.errors import DataError, SettingError

TRIANGLES = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)]  # two, joined by an edge


def weighted(edges: dict[tuple[int, int], float], nodes: int) -> csr_array:
    adjacency = np.zeros((nodes, nodes))
    for (a, b), weight in edges.items():
        adjacency[a, b] = adjacency[b, a] = weight
    return csr_array(adjacency)


def plain(edges: list[tuple[int, int]], nodes: int) -> csr_array:
    return weighted(dict.fromkeys(edges, 1.0), nodes)


def same_partition(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(((a[:, None] == a) == (b[:, None] == b)).all())


@st.composite
def graphs(draw: st.DrawFn, min_nodes: int = 1) -> csr_array:
    """Small graphs with weights, loops, isolated nodes and several components."""
    n = draw(st.integers(min_nodes, 12))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    density = draw(st.sampled_from([0.0, 0.1, 0.3, 0.8]))
    upper = np.triu(rng.random((n, n)) < density) * rng.integers(1, 4, (n, n))
    if draw(st.booleans()):
        upper = np.triu(upper, 1)
    return csr_array((upper + np.triu(upper, 1).T).astype(np.float64))


@st.composite
def clustered(draw: st.DrawFn) -> tuple[csr_array, np.ndarray, int]:
    """A graph with random labels that leave no cluster empty."""
    adjacency = draw(graphs(min_nodes=2))
    n = adjacency.shape[0]
    clusters = draw(st.integers(1, n))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    labels = np.concatenate([np.arange(clusters), rng.integers(clusters, size=n - clusters)])
    return adjacency, rng.permutation(labels), clusters


def test_the_normalized_cut_by_hand() -> None:
    path = plain([(0, 1), (1, 2), (2, 3)], 4)
    assert normalized_cut(path, np.array([0, 0, 1, 1])) == pytest.approx(1 / 3 + 1 / 3)
    assert normalized_cut(path, np.array([0, 1, 1, 1])) == pytest.approx(1 / 1 + 1 / 5)
    assert normalized_cut(path, np.array([0, 0, 0, 0])) == 0


def test_a_loop_adds_volume_but_is_not_cut() -> None:
    adjacency = weighted({(0, 0): 2, (0, 1): 1}, 2)
    assert normalized_cut(adjacency, np.array([0, 1])) == pytest.approx(1 / 3 + 1 / 1)


def test_clusters_without_volume_do_not_count() -> None:
    adjacency = plain([(0, 1)], 4)
    assert normalized_cut(adjacency, np.array([0, 1, 2, 3])) == pytest.approx(2)
    assert normalized_cut(csr_array((3, 3)), np.array([0, 1, 2])) == 0


def test_two_triangles_are_separated_at_the_edge_between_them() -> None:
    adjacency = plain(TRIANGLES, 6)
    labels = graclus(adjacency, 2)
    assert same_partition(labels, np.array([0, 0, 0, 1, 1, 1]))
    assert normalized_cut(adjacency, labels) == pytest.approx(2 / 7)


def test_a_star_gives_up_one_leaf_for_each_other_cluster() -> None:
    labels = graclus(plain([(0, leaf) for leaf in range(1, 9)], 9), 3)
    assert sorted(np.bincount(labels)) == [1, 1, 7]


def test_matching_takes_the_heaviest_edge() -> None:
    path = Graph.from_adjacency(weighted({(0, 1): 1, (1, 2): 5, (2, 3): 1}, 4))
    merged = heavy_edge_matching(path, np.random.default_rng(0))
    assert same_partition(merged, np.array([0, 1, 1, 2]))


def test_matching_divides_a_weight_by_the_degrees_of_both_ends() -> None:
    # 3/9 + 3/5 is less than 2/5 + 2/2 and less than 3/9 + 3/3
    edges = {(0, 1): 3.0, (0, 2): 3.0, (0, 3): 3.0, (1, 4): 2.0}
    merged = heavy_edge_matching(Graph.from_adjacency(weighted(edges, 5)), np.random.default_rng(0))
    assert merged[1] == merged[4]
    assert merged[0] in (merged[2], merged[3])


@given(graphs())
def test_a_matching_joins_pairs_of_neighbors_and_is_maximal(
    adjacency: csr_array,
) -> None:
    merged = heavy_edge_matching(Graph.from_adjacency(adjacency), np.random.default_rng(0))
    size = np.bincount(merged)
    linked = adjacency.toarray() > 0
    np.fill_diagonal(linked, False)
    assert size.max() <= 2
    for pair in np.flatnonzero(size == 2):
        assert linked[np.ix_(merged == pair, merged == pair)].any()
    alone = size[merged] == 1
    assert not linked[np.ix_(alone, alone)].any()


@given(clustered())
def test_a_coarser_graph_has_the_same_cut(case: tuple[csr_array, np.ndarray, int]) -> None:
    adjacency, merged, count = case
    labels = np.arange(count) % 3
    small = coarser(adjacency, merged, count)
    assert normalized_cut(small, labels) == pytest.approx(normalized_cut(adjacency, labels[merged]))


@given(clustered())
def test_a_batch_step_with_a_positive_definite_kernel_never_raises_the_cut(
    case: tuple[csr_array, np.ndarray, int],
) -> None:
    adjacency, labels, clusters = case
    graph = Graph.from_adjacency(adjacency)
    found = batch_step(graph, labels, clusters, sigma=1.0)
    before = normalized_cut(graph.adjacency, labels)
    assert normalized_cut(graph.adjacency, found) <= before + 1e-9


@given(clustered(), st.integers(0, 4))
def test_the_gain_of_a_move_is_the_decrease_of_the_cut(
    case: tuple[csr_array, np.ndarray, int], steps: int
) -> None:
    adjacency, labels, clusters = case
    graph = Graph.from_adjacency(adjacency)
    moves = Moves(graph, labels, clusters)
    for _ in range(steps):
        node, gain = moves.best()
        if gain == -np.inf:
            break
        before = normalized_cut(graph.adjacency, moves.labels)
        moves.move(node)
        after = normalized_cut(graph.adjacency, moves.labels)
        assert gain == pytest.approx(before - after, abs=1e-6)
    expected = Moves(graph, moves.labels, clusters)
    np.testing.assert_allclose(moves.entering, expected.entering, atol=1e-6)
    np.testing.assert_allclose(moves.gain, expected.entering.max(axis=0), atol=1e-6)
    free = ~moves.fixed
    np.testing.assert_allclose(moves.leaving[free], expected.leaving[free], atol=1e-6)


@given(clustered())
def test_refinement_never_raises_the_cut_and_empties_no_cluster(
    case: tuple[csr_array, np.ndarray, int],
) -> None:
    adjacency, labels, clusters = case
    graph = Graph.from_adjacency(adjacency)
    before = normalized_cut(graph.adjacency, labels)
    for change in (chain, refine):
        found = change(graph, labels, clusters)
        assert normalized_cut(graph.adjacency, found) <= before + 1e-9
        assert np.bincount(found, minlength=clusters).min() > 0


def test_a_chain_accepts_worse_clusters_on_the_way_to_better_ones() -> None:
    adjacency = plain([(0, 1), (0, 2), (0, 3), (0, 4), (1, 3)], 5)
    graph, labels = Graph.from_adjacency(adjacency), np.array([0, 0, 1, 0, 0])
    assert normalized_cut(adjacency, labels) == pytest.approx(1 / 9 + 1 / 1)
    assert Moves(graph, labels, 2).best()[1] < 0  # every single move raises the cut
    found = chain(graph, labels, 2)
    assert same_partition(found, np.array([0, 1, 0, 1, 0]))
    assert normalized_cut(adjacency, found) == pytest.approx(2 / 6 + 2 / 4)


@pytest.mark.parametrize("start", [join, bisect])
@given(case=clustered())
def test_the_initial_clustering_has_the_requested_number_of_clusters(
    start: object, case: tuple[csr_array, np.ndarray, int]
) -> None:
    adjacency, _, clusters = case
    assert callable(start)
    labels = start(Graph.from_adjacency(adjacency), clusters)
    assert np.array_equal(np.unique(labels), np.arange(clusters))


@given(graphs(), st.integers(1, 14))
def test_no_cluster_is_empty_if_there_are_enough_nodes(adjacency: csr_array, clusters: int) -> None:
    n = adjacency.shape[0]
    labels = graclus(adjacency, clusters)
    assert labels.dtype == np.int64
    assert np.array_equal(np.unique(labels), np.arange(min(n, clusters)))
    if n <= clusters:
        assert np.array_equal(labels, np.arange(n))


@pytest.mark.parametrize("seed", range(6))
def test_the_optimal_cut_is_found_in_graphs_of_six_nodes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((6, 6)) < 0.5) * rng.uniform(0.1, 2, (6, 6))
    adjacency = csr_array(upper + np.triu(upper, 1).T)
    for clusters in (2, 3):
        every = itertools.product(range(clusters), repeat=6)
        cuts = [normalized_cut(adjacency, np.array(l)) for l in every if len(set(l)) == clusters]
        found = normalized_cut(adjacency, graclus(adjacency, clusters))
        assert found == pytest.approx(min(cuts), abs=1e-9)


@pytest.mark.parametrize("clusters", [1, 2, 3])
def test_components_are_not_cut_if_there_are_at_least_as_many_as_clusters(clusters: int) -> None:
    edges = [(0, 1), (1, 2), (3, 4), (4, 5), (5, 6), (7, 8)]
    adjacency = plain(edges, 9)
    labels = graclus(adjacency, clusters)
    assert len(np.unique(labels)) == clusters
    assert normalized_cut(adjacency, labels) == 0


def test_isolated_nodes_are_the_cheapest_clusters() -> None:
    adjacency = plain(TRIANGLES, 8)  # 6 and 7 have no edges
    labels = graclus(adjacency, 4)
    assert same_partition(labels, np.array([0, 0, 0, 1, 1, 1, 2, 3]))


def test_graphs_without_edges_or_nodes_can_be_clustered() -> None:
    assert np.array_equal(np.unique(graclus(csr_array((5, 5)), 3)), [0, 1, 2])
    assert graclus(csr_array((0, 0)), 3).shape == (0,)
    assert hierarchy(csr_array((0, 0)), [3, 2]).shape == (0, 2)


@pytest.mark.parametrize(("nodes", "clusters"), [(60, 2), (150, 10), (500, 4), (600, 20)])
def test_a_planted_partition_is_found(nodes: int, clusters: int) -> None:
    labels = graclus(planted(nodes, clusters, 0.7, 0.03).adjacency, clusters)
    assert same_partition(labels, np.arange(nodes) % clusters)


def test_the_same_seed_gives_the_same_clusters() -> None:
    adjacency = planted(400, 4, 0.08, 0.02).adjacency
    assert np.array_equal(graclus(adjacency, 4, seed=3), graclus(adjacency, 4, seed=3))


def test_graphs_too_large_for_chains_use_batch_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel_kmeans, "MAX_LINKS", 0)
    labels = graclus(planted(400, 4, 0.5, 0.03).adjacency, 4)
    assert same_partition(labels, np.arange(400) % 4)


def test_each_level_of_a_hierarchy_clusters_the_previous_clusters() -> None:
    adjacency = planted(90, 6, 0.6, 0.05).adjacency
    levels = hierarchy(adjacency, [12, 6, 1])
    assert levels.shape == (90, 3)
    assert [len(np.unique(column)) for column in levels.T] == [12, 6, 1]
    assert np.array_equal(levels[:, 0], graclus(adjacency, 12))
    above = graclus(coarser(adjacency, levels[:, 0], 12), 6)
    assert np.array_equal(levels[:, 1], above[levels[:, 0]])


def test_a_level_may_ask_for_more_clusters_than_there_are_nodes() -> None:
    levels = hierarchy(plain(TRIANGLES, 6), [2, 4])
    assert np.array_equal(levels[:, 0], levels[:, 1])


@pytest.mark.parametrize(
    ("adjacency", "message"),
    [
        (np.ones((2, 3)), "square adjacency matrix, got 2 × 3"),
        (np.array([[0, 1], [0, 0]]), "symmetric"),
        (np.array([[0, 1], [2, 0]]), "symmetric"),
        (np.array([[0.0, -1], [-1, 0]]), "weights of at least 0, got -1.0"),
        (np.array([[0.0, np.nan], [np.nan, 0]]), "weights of at least 0, got nan"),
    ],
)
def test_a_matrix_that_is_no_undirected_graph_is_an_error(
    adjacency: np.ndarray, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        graclus(csr_array(adjacency), 2)


def test_zero_clusters_is_an_error() -> None:
    with pytest.raises(SettingError, match="at least one cluster, got 0"):
        graclus(plain(TRIANGLES, 6), 0)


PLANTED = [
    *[(100, 2, 0.3, 0.05), (200, 2, 0.1, 0.04), (300, 3, 0.15, 0.05), (400, 8, 0.3, 0.03)],
    *[(500, 5, 0.1, 0.02), (500, 20, 0.5, 0.05)],
]
DATASETS = ["PROTEINS", "DD", "COLLAB", "REDDIT-MULTI-12K-sub1111"]


def relative_cut(adjacency: csr_array, clusters: int) -> float:
    """Our cut divided by that of the better peer."""
    pytest.importorskip("pymetis", reason="pymetis is not installed")
    cuts = [normalized_cut(adjacency, f(adjacency, clusters)) for f in (graclus, metis, spectral)]
    return relative(*cuts)


@pytest.mark.parametrize("kind", PLANTED)
def test_cuts_of_planted_partitions_are_as_good_as_those_of_metis_and_spectral_clustering(
    kind: tuple[int, int, float, float],
) -> None:
    assert relative_cut(planted(*kind).adjacency, kind[1]) <= 1.05


@pytest.mark.parametrize("name", DATASETS)
def test_cuts_of_real_graphs_are_as_good_as_those_of_metis_and_spectral_clustering(
    name: str,
) -> None:
    pytest.importorskip("pymetis", reason="pymetis is not installed")
    folder = os.environ.get("DIFFPOOL_DATA")
    if not folder or not (Path(folder) / f"{name}.zip").is_file():
        pytest.skip(f"DIFFPOOL_DATA names no folder with {name}.zip")
    chosen = sample(load_raw(name, folder), 4, largest=200)
    for share in (0.1, 0.25):
        ratios = [relative_cut(adjacency, ceil(share * adjacency.shape[0])) for adjacency in chosen]
        assert np.mean(ratios) <= 1.05
