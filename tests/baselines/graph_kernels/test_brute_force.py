"""Graph kernels compared with their definitions, written as loops, on random labeled graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from itertools import combinations, permutations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from diffpool.baselines.graph_kernels import (
    DegreeGraphlet,
    GraphKernel,
    Graphlet,
    ShortestPath,
    WeisfeilerLehman,
    WeisfeilerLehmanAssignment,
)


@st.composite
def graphs(draw: st.DrawFn) -> nx.Graph:
    """Up to 9 nodes with labels a to c, and random edges."""
    n = draw(st.integers(0, 9))
    graph = nx.empty_graph(n)
    for node in graph:
        graph.nodes[node]["label"] = draw(st.sampled_from("abc"))
    pairs = list(combinations(range(n), 2))
    if pairs:
        graph.add_edges_from(draw(st.lists(st.sampled_from(pairs), max_size=20)))
    return graph


lists = st.lists(graphs(), min_size=1, max_size=5).filter(lambda listed: sum(map(len, listed)) > 0)
Rounds = list[dict[int, Hashable]]


def label(graph: nx.Graph, node: int) -> str:
    return graph.nodes[node]["label"]


def colors(graph: nx.Graph, h: int) -> Rounds:
    """The color of each node in rounds 0 to h, as nested tuples."""
    rounds: Rounds = [{node: label(graph, node) for node in graph}]
    for _ in range(h):
        last = rounds[-1]
        rounds.append(
            {v: (last[v], tuple(sorted(map(repr, (last[u] for u in graph[v]))))) for v in graph}
        )
    return rounds


def wl_features(graph: nx.Graph, h: int) -> Counter[Hashable]:
    return Counter((i, color) for i, last in enumerate(colors(graph, h)) for color in last.values())


def path_features(graph: nx.Graph) -> Counter[Hashable]:
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    return Counter(
        (*sorted([label(graph, u), label(graph, v)]), lengths[u][v])
        for u, v in combinations(graph, 2)
        if v in lengths[u]
    )


def graphlet_features(graph: nx.Graph) -> Counter[Hashable]:
    found: Counter[Hashable] = Counter()
    for nodes in combinations(graph, 3):
        part = graph.subgraph(nodes)
        if nx.is_connected(part):
            # the smallest description over all orders of the nodes
            found[
                min(
                    (
                        *(label(graph, v) for v in order),
                        *(part.has_edge(u, v) for u, v in combinations(order, 2)),
                    )
                    for order in permutations(nodes)
                )
            ] += 1
    return found


def degree_graphlet_features(graph: nx.Graph) -> Counter[Hashable]:
    parts = (graph.subgraph(nodes) for nodes in combinations(graph, 3))
    return Counter(
        (part.number_of_edges(), *sorted((label(graph, v), graph.degree[v]) for v in part))
        for part in parts
        if nx.is_connected(part)
    )


def dot(a: Counter[Hashable], b: Counter[Hashable]) -> float:
    return sum(count * b[key] for key, count in a.items())


def best_assignment(one: nx.Graph, other: nx.Graph, h: int) -> float:
    """The best matching of the nodes, where a pair is worth the number of rounds with equal colors."""
    first, second = colors(one, h), colors(other, h)
    worth = np.array(
        [
            [sum(a[u] == b[v] for a, b in zip(first, second, strict=True)) for v in other]
            for u in one
        ],
        float,
    ).reshape(len(one), len(other))
    return worth[linear_sum_assignment(worth, maximize=True)].sum()


def cosine(value: Callable[[nx.Graph, nx.Graph], float], rows: list, columns: list) -> np.ndarray:
    def normalized(a: nx.Graph, b: nx.Graph) -> float:
        squared = value(a, a) * value(b, b)
        return value(a, b) / np.sqrt(squared) if squared else 0.0

    return np.array([[normalized(a, b) for b in columns] for a in rows])


def check(kernel: GraphKernel, value: Callable[[nx.Graph, nx.Graph], float], listed: list) -> None:
    expected = cosine(value, listed, listed)
    np.testing.assert_allclose(kernel.fit_transform(listed), expected, atol=1e-14)
    half = listed[: (len(listed) + 1) // 2]
    if sum(map(len, half)):  # graphs without nodes do not determine the label columns
        found = kernel.fit(half).transform(listed)
        np.testing.assert_allclose(found, cosine(value, listed, half), atol=1e-14)


@given(lists, st.integers(0, 4))
def test_wl_counts_colors(listed: list[nx.Graph], h: int) -> None:
    check(WeisfeilerLehman(h), lambda a, b: dot(wl_features(a, h), wl_features(b, h)), listed)


@given(lists, st.integers(0, 3))
def test_wl_assignment_is_the_best_assignment(listed: list[nx.Graph], h: int) -> None:
    check(WeisfeilerLehmanAssignment(h), lambda a, b: best_assignment(a, b, h), listed)


@given(lists)
def test_shortest_path_counts_pairs_by_labels_and_distance(listed: list[nx.Graph]) -> None:
    check(ShortestPath(), lambda a, b: dot(path_features(a), path_features(b)), listed)


@given(lists)
def test_graphlet_counts_connected_triples_by_labels(listed: list[nx.Graph]) -> None:
    check(Graphlet(), lambda a, b: dot(graphlet_features(a), graphlet_features(b)), listed)


@given(lists)
def test_degree_graphlet_counts_triples_by_unordered_labels_and_degrees(
    listed: list[nx.Graph],
) -> None:
    def value(a: nx.Graph, b: nx.Graph) -> float:
        return dot(degree_graphlet_features(a), degree_graphlet_features(b))

    check(DegreeGraphlet(), value, listed)


@given(lists)
def test_graphlet_counts_triples_without_labels(listed: list[nx.Graph]) -> None:
    def features(graph: nx.Graph) -> Counter[Hashable]:
        parts = (graph.subgraph(nodes) for nodes in combinations(graph, 3))
        return Counter(part.number_of_edges() for part in parts if nx.is_connected(part))

    check(Graphlet(labels="none"), lambda a, b: dot(features(a), features(b)), listed)


def triples(graph: nx.Graph) -> Counter[Hashable]:
    """The connected triples from pairs of neighbors, for graphs that have too many triples to enumerate."""
    found: Counter[Hashable] = Counter()
    for middle in graph:
        for u, v in combinations(graph[middle], 2):
            a, b = sorted([label(graph, u), label(graph, v)])
            if not graph.has_edge(u, v):
                found[a, label(graph, middle), b] += 1
            elif middle < min(u, v):
                found["triangle", *sorted([a, b, label(graph, middle)])] += 1
    return found


@pytest.mark.parametrize("n", [63, 64, 65, 129, 200])
@pytest.mark.parametrize("features", [path_features, triples])
def test_graphs_with_several_words(
    n: int, features: Callable[[nx.Graph], Counter[Hashable]]
) -> None:
    """Long distances, and triangles across the words of 64 nodes that a graph is divided into."""
    near, ring = nx.random_geometric_graph(n, 1.6 / np.sqrt(n), seed=n), nx.cycle_graph(n)
    for graph in (near, ring):
        for node, data in graph.nodes.items():
            data.clear()
            data["label"] = "abc"[node * 7 % 3]
    counted = {graph: features(graph) for graph in (near, ring)}
    kernel = ShortestPath() if features is path_features else Graphlet()
    check(kernel, lambda a, b: dot(counted[a], counted[b]), [near, ring])
