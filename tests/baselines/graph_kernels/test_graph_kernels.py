"""Graph kernels: laws, hand-computed values, and scikit-learn compatibility."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from torch_geometric.data import Data

from diffpool.baselines.graph_kernels import (
    KERNELS,
    DegreeGraphlet,
    GraphKernel,
    Graphlet,
    ShortestPath,
    WeisfeilerLehman,
    WeisfeilerLehmanAssignment,
    bitsets,
    gram,
    gram_matrices,
    refinement,
)
from diffpool.baselines.graph_kernels.refinement import (
    Signatures,
    group_equal,
    hashes,
    next_colors,
)
from diffpool.data import Categories, RawGraphs
from diffpool.errors import DataError, SettingError

EVERY = [
    Graphlet(),
    Graphlet(labels="none"),
    Graphlet(size=4, samples=200),
    DegreeGraphlet(),
    ShortestPath(),
    ShortestPath(labels="degree"),
    WeisfeilerLehman(h=3),
    WeisfeilerLehman(h=0),
    WeisfeilerLehmanAssignment(h=3),
    WeisfeilerLehmanAssignment(labels="none"),
]
every_kernel = pytest.mark.parametrize("kernel", EVERY, ids=str)


def raw_of(*graphs: tuple[int, list[tuple[int, int]]], labels: str | None = None) -> RawGraphs:
    """Graphs from their number of nodes and undirected edges; `labels` has one letter for each node."""
    sizes = [n for n, _ in graphs]
    starts = np.cumsum([0, *sizes])
    ends = [
        (start + u, start + v)
        for start, (_, edges) in zip(starts, graphs, strict=False)
        for u, v in edges
    ]
    source, target = np.array(ends, np.int64).reshape(-1, 2).T
    tables = (
        {} if labels is None else {"node_labels": Categories.from_values(np.array(list(labels)))}
    )
    return RawGraphs.from_edges("graphs", sizes, source, target, one_way=True, **tables)


def random_raw(
    sizes: list[int], seed: int = 0, density: float = 0.3, labels: int | None = 3
) -> RawGraphs:
    rng = np.random.default_rng(seed)
    graphs = []
    for n in sizes:
        u, v = np.triu_indices(n, 1)
        there = rng.random(len(u)) < density
        graphs.append((n, list(zip(u[there].tolist(), v[there].tolist(), strict=True))))
    words = (
        None
        if labels is None
        else "".join("abcdefgh"[i] for i in rng.integers(labels, size=sum(sizes)))
    )
    return raw_of(*graphs, labels=words)


def relabeled(raw: RawGraphs, seed: int = 0) -> RawGraphs:
    """Permute the nodes of each graph."""
    rng = np.random.default_rng(seed)
    order = np.concatenate(
        [start + rng.permutation(n) for start, n in zip(raw.starts, raw.sizes, strict=True)]
    )
    number = np.argsort(order)
    tables = {} if raw.node_labels is None else {"node_labels": raw.node_labels.rows(order)}
    return RawGraphs.from_edges(
        raw.name, raw.sizes, number[raw.source], number[raw.target], **tables
    )


SIZES = [5, 0, 1, 12, 70, 2, 9, 130, 64, 65]


# --- values by hand

PATH, TRIANGLE = (3, [(0, 1), (1, 2)]), (3, [(0, 1), (1, 2), (0, 2)])


def test_wl_of_a_path_and_a_triangle() -> None:
    """Colors by round: path aba and triangle aab. Round 0: (2a, 1b) and (2a, 1b).

    Round 1: a|b twice, b|aa once; a|ab twice, b|aa once.
    """
    found = gram_matrices("wl", raw_of(PATH, TRIANGLE, labels="abaaab"))
    assert found[0][0, 1] == 1
    assert found[1][0, 1] == pytest.approx((5 + 1) / (5 + 5))
    # Round 2: path a|b → (a|b)|(b|aa) twice and (b|aa)|(a|b)²; no color in common.
    assert found[2][0, 1] == pytest.approx((5 + 1) / 15)


def test_wl_assignment_of_a_path_and_a_triangle() -> None:
    found = gram_matrices("wl-oa", raw_of(PATH, TRIANGLE, labels="abaaab"))
    assert found[0][0, 1] == 1
    assert found[1][0, 1] == pytest.approx((3 + 1) / 6)
    assert found[2][0, 1] == pytest.approx((3 + 1) / 9)
    assert list(found) == [0, 1, 2, 3, 4, 5]


def test_wl_assignment_takes_the_smaller_count() -> None:
    found = WeisfeilerLehmanAssignment(h=0).fit_transform(
        raw_of((5, []), (3, []), labels="aaabbabb")
    )
    assert found[0, 1] == pytest.approx((1 + 2) / np.sqrt(5 * 3))


def test_shortest_paths_of_a_path_and_a_triangle() -> None:
    """Path aba: (a, b, 1) twice, (a, a, 2) once. Triangle aab: (a, b, 1) twice, (a, a, 1) once."""
    found = ShortestPath().fit_transform(raw_of(PATH, TRIANGLE, labels="abaaab"))
    assert found[0, 1] == pytest.approx(4 / 5)
    without = ShortestPath(labels="none").fit_transform(raw_of(PATH, TRIANGLE, labels="abaaab"))
    assert without[0, 1] == pytest.approx(2 * 3 / (np.sqrt(5) * 3))


def test_graphlets_of_a_star_and_a_clique() -> None:
    """Star with center b, leaves a, a, c: paths a-b-a once, a-b-c twice. Clique abac: triangles aab, aac, abc twice."""
    star = (4, [(0, 1), (0, 2), (0, 3)])
    clique = (4, [(i, j) for i in range(4) for j in range(i)])
    kite = (4, [(0, 1), (1, 2), (0, 2), (0, 3)])  # triangle baa, and the paths a-b-c twice
    found = Graphlet().fit_transform(raw_of(star, clique, kite, labels="baacabacbaac"))
    assert found[0, 1] == 0
    assert found[0, 2] == pytest.approx(2 * 2 / np.sqrt(5 * 5))
    assert found[1, 2] == pytest.approx(1 / np.sqrt(6 * 5))


def test_degree_graphlets_of_two_paths_and_a_star() -> None:
    """Paths aab and aba have degrees 1, 2, 1 and differ in the middle label: a1 a2 b1 and a1 a1 b2.

    The star with center b and leaves a, a, c has a1 a1 b3 once and a1 b3 c1 twice: nothing in common with path aba.
    """
    star = (4, [(0, 1), (0, 2), (0, 3)])
    found = DegreeGraphlet().fit_transform(raw_of(PATH, PATH, star, labels="aabababaac"))
    np.testing.assert_array_equal(found, np.eye(3))
    longer = (4, [(0, 1), (1, 2), (2, 3)])
    found = DegreeGraphlet().fit_transform(
        raw_of(longer, (5, [*longer[1], (3, 4)]), labels="abaaabaab")
    )
    # a1 b2 a2 and b2 a2 a1 count as the same; the longer path has a1 a2 b2, a2 a2 b2 and a2 a2 b1
    assert found[0, 1] == pytest.approx(2 / np.sqrt(4 * 3))


def test_without_labels_wl_uses_degrees_and_the_other_kernels_use_none() -> None:
    raw = random_raw(SIZES, labels=None)
    for kernel, same in [
        (WeisfeilerLehman(), WeisfeilerLehman(labels="degree")),
        (WeisfeilerLehmanAssignment(), WeisfeilerLehmanAssignment(labels="degree")),
        (ShortestPath(), ShortestPath(labels="none")),
        (Graphlet(), Graphlet(labels="none")),
        (DegreeGraphlet(), Graphlet(labels="none")),
    ]:
        np.testing.assert_array_equal(kernel.fit_transform(raw), same.fit_transform(raw))


def test_a_loop_makes_a_node_its_own_neighbor_in_wl_only() -> None:
    plain, loop = raw_of(TRIANGLE, labels="aaa"), raw_of((3, [*TRIANGLE[1], (0, 0)]), labels="aaa")
    both = [plain, loop]
    assert WeisfeilerLehman(h=1).fit_transform(both)[0, 1] < 1
    assert ShortestPath().fit_transform(both)[0, 1] == 1
    assert Graphlet().fit_transform(both)[0, 1] == 1


def test_sampled_graphlets_of_graphs_with_a_single_type() -> None:
    clique, empty = random_raw([8], density=1), random_raw([30], density=0)
    raw = [clique, empty, random_raw([20], density=1), random_raw([3], density=1)]
    for size in (4, 5):
        found = Graphlet(size=size, samples=50).fit_transform(raw)
        np.testing.assert_array_equal(found, [[1, 0, 1, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0] * 4])


def test_sampled_graphlets_have_the_expected_frequencies() -> None:
    """A star with 9 leaves: 4 in 10 sets of 4 nodes contain the center, and are stars; the others have no edge."""
    star = raw_of((10, [(0, i) for i in range(1, 10)]))
    ((empty, stars),) = Graphlet(size=4, samples=20_000).fit(star).levels_[0].features.toarray()
    assert empty + stars == 20_000
    assert stars / 20_000 == pytest.approx(0.4, abs=0.015)


# --- laws


@every_kernel
def test_a_gram_matrix_is_symmetric_and_positive_semidefinite(kernel: GraphKernel) -> None:
    found = clone(kernel).fit_transform(random_raw(SIZES))
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, found.T)
    assert np.linalg.eigvalsh(found).min() > -1e-12
    assert found.min() >= 0
    assert found.max() <= 1 + 1e-12


@every_kernel
def test_the_diagonal_is_1_or_0_without_features(kernel: GraphKernel) -> None:
    raw = random_raw(SIZES)
    found = clone(kernel).fit_transform(raw)
    diagonal = np.diag(found)
    assert set(diagonal.tolist()) <= {0.0, 1.0}
    assert diagonal[raw.sizes > 5].all()
    assert not found[raw.sizes == 0].any()
    assert not np.isnan(found).any()


@every_kernel
def test_transform_gives_the_block_of_the_joint_matrix(kernel: GraphKernel) -> None:
    raw = random_raw(SIZES * 2, labels=6)
    joint = clone(kernel).fit_transform(raw)
    train, test = np.arange(0, 20, 2), np.arange(1, 20, 2)
    split = clone(kernel).fit(raw[train])
    np.testing.assert_allclose(split.transform(raw[test]), joint[np.ix_(test, train)], atol=1e-14)
    np.testing.assert_array_equal(split.transform(raw[train]), joint[np.ix_(train, train)])


@pytest.mark.parametrize("kernel", [k for k in EVERY if k.get_params().get("size") != 4], ids=str)
def test_the_order_of_the_nodes_does_not_matter(kernel: GraphKernel) -> None:
    raw = random_raw(SIZES)
    np.testing.assert_array_equal(
        clone(kernel).fit_transform(raw), clone(kernel).fit_transform(relabeled(raw))
    )
    assert np.diag(clone(kernel).fit(raw).transform(relabeled(raw)))[raw.sizes > 5].all()


@every_kernel
def test_the_block_size_does_not_matter(
    kernel: GraphKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = random_raw(SIZES[:7] * 2)
    expected = clone(kernel).fit_transform(raw)
    monkeypatch.setattr(gram, "BLOCK", 50)
    monkeypatch.setattr(gram, "PANEL", 100)
    monkeypatch.setattr(bitsets, "BLOCK", 40)
    monkeypatch.setattr(refinement, "BLOCK", 7)
    np.testing.assert_array_equal(clone(kernel).fit_transform(raw), expected)


@pytest.mark.parametrize("share", [0.0, 0.5, 2.0])
@every_kernel
def test_dense_and_sparse_columns_give_the_same_matrix(
    kernel: GraphKernel, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = random_raw(SIZES)
    expected = clone(kernel).fit_transform(raw)
    monkeypatch.setattr(gram, "DENSE", share)
    monkeypatch.setattr(gram, "EXACT", 0)  # float64 throughout
    np.testing.assert_array_equal(clone(kernel).fit_transform(raw), expected)


def test_large_counts_are_exact() -> None:
    """Integers above 2^24, which float32 cannot all represent."""
    raw = raw_of((5000, []), (4999, []), labels="a" * 4999 + "b" + "a" * 4998 + "b")
    found = WeisfeilerLehman(h=0).fit_transform(raw)
    expected = (4999 * 4998 + 1) / np.sqrt((4999**2 + 1) * (4998**2 + 1))
    assert found[0, 1] == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("name", KERNELS)
def test_graphs_with_no_nodes_or_no_edges(name: str) -> None:
    kernel = KERNELS[name]()
    found = kernel.fit_transform(raw_of((0, []), (1, []), (3, []), labels="aaab"))
    if name.startswith("wl"):
        assert np.diag(found).tolist() == [0, 1, 1]
    else:
        assert not found.any()
    assert not KERNELS[name]().fit_transform(raw_of((0, []), (0, []))).any()
    assert not kernel.transform(raw_of((0, []))).any()


@pytest.mark.parametrize("name", KERNELS)
def test_gram_matrices_equal_those_of_the_kernel_classes(name: str) -> None:
    raw = random_raw(SIZES)
    shares: list[float] = []
    found = gram_matrices(name, raw, shares.append)
    if name.startswith("wl"):
        assert list(found) == [0, 1, 2, 3, 4, 5]
        for h, matrix in found.items():
            np.testing.assert_array_equal(matrix, KERNELS[name](h=h).fit_transform(raw))
    else:
        assert list(found) == [None]
        np.testing.assert_array_equal(found[None], KERNELS[name]().fit_transform(raw))
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert shares[0] >= 0


# --- color refinement


def test_signatures_with_colliding_hashes_are_distinguished() -> None:
    raw, seeds = random_raw(SIZES), []
    signatures = Signatures.from_colors(raw, np.diff(raw.indptr))
    _, expected = group_equal(signatures)

    def colliding(signatures: Signatures, seed: int) -> np.ndarray:
        seeds.append(seed)
        found = hashes(signatures, seed)
        return found % np.uint64(2) if seed < 2 else found

    _, found = group_equal(signatures, colliding)
    assert seeds == [0, 1, 2]
    assert ((found[:, None] == found) == (expected[:, None] == expected)).all()


def test_known_colors_keep_their_numbers() -> None:
    one, other = random_raw(SIZES, seed=1), random_raw(SIZES, seed=2)
    numbers = {"a": 0, "b": 1, "c": 2}
    colors = [np.array([numbers[w] for w in raw.node_labels.words()]) for raw in (one, other)]
    first, known = next_colors(Signatures.from_colors(one, colors[0]))
    again, grown = next_colors(Signatures.from_colors(one, colors[0]), known)
    np.testing.assert_array_equal(first, again)
    assert len(grown) == len(known)
    later, grown = next_colors(Signatures.from_colors(other, colors[1]), known)
    assert later.max() + 1 == len(grown) > len(known)
    np.testing.assert_array_equal(grown.own[: len(known)], known.own)


# --- errors


def test_invalid_arguments_raise_clear_errors() -> None:
    raw = random_raw([4, 5])
    with pytest.raises(DataError, match="at least one graph, got an empty list"):
        WeisfeilerLehman().fit([])
    with pytest.raises(DataError, match="at least one graph, got none"):
        ShortestPath().fit(raw[:0])
    with pytest.raises(NotFittedError, match="not fitted yet"):
        Graphlet().transform(raw)
    for h in (-1, 1.5):
        with pytest.raises(SettingError, match=f"nonnegative integer for h, got {h}"):
            WeisfeilerLehmanAssignment(h=h).fit(raw)
    with pytest.raises(SettingError, match="to be auto, labels, degree or none, got 'color'"):
        WeisfeilerLehman(labels="color").fit(raw)
    with pytest.raises(SettingError, match="graphs has none: use 'degree' or 'none'"):
        ShortestPath(labels="labels").fit(random_raw([4], labels=None))
    with pytest.raises(SettingError, match="size of 3, 4 or 5, got 6"):
        Graphlet(size=6).fit(raw)
    with pytest.raises(SettingError, match="no labels with graphlets of size 4, got 'labels'"):
        Graphlet(size=4, labels="labels").fit(raw)
    with pytest.raises(SettingError, match="at least one sample, got 0"):
        Graphlet(samples=0).fit(raw)
    with pytest.raises(
        SettingError,
        match="the kernel to be one of graphlet, graphlet-degree, shortest-path, wl, wl-oa, got 'rbf'",
    ):
        gram_matrices("rbf", raw)
    with pytest.raises(
        DataError, match="1 node label columns in graphs, as in the fitted graphs, got 0"
    ):
        WeisfeilerLehman().fit(raw).transform(random_raw([4], labels=None))


# --- in scikit-learn, on every form of graphs


def networkx_graphs(count: int = 30) -> tuple[list[nx.Graph], list[str]]:
    """Cycles and paths, with labels."""
    graphs, y = [], []
    for i in range(count):
        graph = nx.cycle_graph(5 + i % 7) if i % 2 else nx.path_graph(5 + i % 7)
        nx.set_node_attributes(graph, {node: "ab"[node % 2] for node in graph}, "label")
        graphs.append(graph)
        y.append("ring" if i % 2 else "path")
    return graphs, y


@pytest.mark.parametrize("name", ["shortest-path", "wl", "wl-oa"])
def test_a_kernel_works_in_a_pipeline(name: str) -> None:
    graphs, y = networkx_graphs()
    model = make_pipeline(KERNELS[name](), SVC(kernel="precomputed", C=100.0))
    assert cross_val_score(model, graphs, y, cv=3).mean() > 0.9
    assert clone(model).fit(graphs, y).predict(graphs[:4]).tolist() == y[:4]


def test_a_grid_search_chooses_h() -> None:
    graphs, y = networkx_graphs()
    model = make_pipeline(WeisfeilerLehman(), SVC(kernel="precomputed"))
    search = GridSearchCV(model, {"weisfeilerlehman__h": [0, 2], "svc__C": [1, 100]}, cv=3)
    assert search.fit(graphs, y).best_params_["weisfeilerlehman__h"] == 2


def test_raw_graphs_can_be_cross_validated() -> None:
    raw = random_raw([6] * 20 + [20] * 20)
    model = make_pipeline(Graphlet(), SVC(kernel="precomputed"))
    assert cross_val_score(model, raw, np.repeat([0, 1], 20), cv=4).shape == (4,)


@every_kernel
def test_every_form_of_graphs_gives_the_same_matrix(kernel: GraphKernel) -> None:
    raw = random_raw([5, 8, 13, 30], labels=None)
    edges = [raw[g] for g in range(4)]
    forms: list[list[Any]] = [
        [
            Data(edge_index=torch.tensor(np.stack([r.source, r.target])), num_nodes=r.num_nodes)
            for r in edges
        ],
        [
            scipy.sparse.csr_array(
                (np.ones(r.num_edges), r.source, r.indptr), shape=(r.num_nodes,) * 2
            )
            for r in edges
        ],
        edges,
    ]
    forms.append(
        [nx.from_scipy_sparse_array(matrix, edge_attribute="strength") for matrix in forms[1]]
    )
    for graph in forms[-1]:
        nx.set_edge_attributes(graph, 1.0, "strength")
    expected = clone(kernel).fit_transform(raw)
    for graphs in forms:
        np.testing.assert_array_equal(clone(kernel).fit_transform(graphs), expected)


def test_a_directed_edge_counts_as_an_undirected_one() -> None:
    raw = random_raw(SIZES)
    half = raw.source < raw.target
    one_way = RawGraphs.from_edges(
        "graphs", raw.sizes, raw.source[half], raw.target[half], node_labels=raw.node_labels
    )
    assert one_way.directed
    for name in KERNELS:
        expected = KERNELS[name]().fit_transform(raw)
        np.testing.assert_array_equal(KERNELS[name]().fit_transform(one_way), expected)
