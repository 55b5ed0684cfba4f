"""NMI and adjusted Rand index agree with scikit-learn, modularity with NetworkX."""

from __future__ import annotations

import numpy as np
import pytest
from analysis.drawn import clique, graph

from diffpool.analysis import agreement, modularity
from diffpool.analysis.communities import contingency, mutual_information, rand_index


@pytest.mark.parametrize("clusters", [(1, 1), (1, 3), (2, 2), (4, 7), (30, 5)])
def test_both_measures_agree_with_scikit_learn(clusters: tuple[int, int]) -> None:
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    rng = np.random.default_rng(sum(clusters))
    a, b = (rng.integers(count, size=40) for count in clusters)
    table = contingency(a, b)
    assert mutual_information(table) == pytest.approx(normalized_mutual_info_score(a, b), abs=1e-9)
    assert rand_index(table) == pytest.approx(adjusted_rand_score(a, b), abs=1e-9)


def test_equal_communities_agree_by_any_name() -> None:
    found = agreement(np.array([3, 3, 1, 1]), np.array([0, 0, 5, 5]), "planted")
    assert found["planted_nmi"] == pytest.approx(1)
    assert found["planted_ari"] == pytest.approx(1)


def test_one_community_has_no_agreement() -> None:
    assert agreement(np.array([0, 1]), np.array([0, 0]), "planted") == {}


def test_modularity_agrees_with_networkx() -> None:
    nx = pytest.importorskip("networkx")
    two = graph(8, [*clique(range(4)), *clique(range(4, 8)), (3, 4)])
    labels = np.array([0] * 4 + [1] * 4)
    expected = nx.community.modularity(
        nx.from_scipy_sparse_array(two.adjacency), [set(range(4)), set(range(4, 8))]
    )
    assert modularity(two.adjacency, labels) == pytest.approx(expected)
    assert modularity(two.adjacency, np.zeros(8, int)) == pytest.approx(0)


def test_a_graph_without_edges_has_no_modularity() -> None:
    assert modularity(graph(3, []).adjacency, np.zeros(3, int)) is None


def test_louvain_finds_two_cliques() -> None:
    pytest.importorskip("networkx")
    found = graph(10, [*clique(range(5)), *clique(range(5, 10)), (4, 5)]).louvain
    assert found is not None
    assert len(set(found[:5])) == len(set(found[5:])) == 1
    assert found[0] != found[9]
