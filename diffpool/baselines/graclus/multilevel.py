"""Graclus: Dhillon, Guan and Kulis, "Weighted Graph Cuts without Eigenvectors: A Multilevel Approach" (PAMI 2007).

Finds any number of clusters with a small normalized cut in three phases: coarsen the graph by matching heavy edges,
cluster the coarsest graph, and refine the clusters on every finer graph by weighted kernel k-means. Other libraries use
the name Graclus for the coarsening phase alone.

Choices of ours, and deviations from the paper:

- Matching takes the edges in order of w/d_i + w/d_j, the paper's criterion for normalized cut, with random ties; the
  paper visits nodes in random order and takes the best edge of each.
- Graphs are coarsened while they have more than 5k nodes, as in the paper, and more than 200: clustering smaller graphs
  directly gives a smaller cut.
- The coarsest graph is clustered by merging the two clusters with the cheapest union until k are left, which works best
  for many small clusters. For few clusters, we also run the paper's bisection, here by the second eigenvector, and keep
  the better result.
- Refinement uses batch steps and chains of single moves on every graph, with σ = 0: see `kernel_kmeans`.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from diffpool.baselines.graclus.kernel_kmeans import Graph, indicator, normalized_cut, refine
from diffpool.errors import DataError, SettingError

COARSEST = 200  # nodes of a graph that is not coarsened further
STALLED = 0.9  # coarsening ends when matching leaves more than this fraction of the nodes
FEW = 20  # maximum number of clusters for bisection
SLACK = 1e-3  # tolerance in the order of costs: the exact order would check all leaves of a star for every union


def graclus(adjacency: csr_array, clusters: int, seed: int = 0) -> np.ndarray:
    """The cluster of each node of an undirected graph with weights ≥ 0: [n] int64 in 0 … k−1.

    No cluster is empty if the graph has at least k nodes; otherwise each node is its own cluster.
    """
    graph = Graph.from_adjacency(_checked(adjacency))
    if clusters < 1:
        raise SettingError(
            f"expected at least one cluster, got {clusters}: choose a positive number"
        )
    if len(graph) <= clusters:
        return np.arange(len(graph))
    generator = np.random.default_rng(seed)
    # each graph, and the node of the next graph that each of its nodes is in
    finer: list[tuple[Graph, np.ndarray]] = []
    while len(graph) > max(5 * clusters, COARSEST):
        merged = heavy_edge_matching(graph, generator)
        if (count := int(merged.max()) + 1) > STALLED * len(graph):
            break
        finer.append((graph, merged))
        graph = Graph.from_adjacency(coarser(graph.adjacency, merged, count))
    starts = [join(graph, clusters)]
    if clusters <= FEW and len(graph) <= 2 * COARSEST:
        starts.append(bisect(graph, clusters))
    starts = [refine(graph, start, clusters) for start in starts]
    labels = min(starts, key=lambda found: normalized_cut(graph.adjacency, found))
    for graph, merged in reversed(finer):
        labels = refine(graph, labels[merged], clusters)
    return labels


def hierarchy(adjacency: csr_array, counts: Sequence[int], seed: int = 0) -> np.ndarray:
    """The cluster of each node after 1, 2, … levels, where each level clusters SᵀAS of the last: [n, levels] int64."""
    columns = np.empty((adjacency.shape[0], len(counts)), dtype=np.int64)
    labels = np.arange(adjacency.shape[0])
    for level, clusters in enumerate(counts):
        found = graclus(adjacency, clusters, seed)
        columns[:, level] = labels = found[labels]
        adjacency = coarser(adjacency, found, int(found.max(initial=-1)) + 1)
    return columns


def coarser(adjacency: csr_array, labels: np.ndarray, clusters: int) -> csr_array:
    """SᵀAS: [n, n], [n] → [k, k]; edges inside a cluster become a loop."""
    s = indicator(labels, clusters)
    return csr_array(s.T @ (adjacency @ s))


def heavy_edge_matching(graph: Graph, generator: np.random.Generator) -> np.ndarray:
    """A number for each node, equal for the two ends of a matched edge: [n]."""
    a = np.repeat(np.arange(len(graph)), np.diff(graph.adjacency.indptr))
    once = a < graph.adjacency.indices  # no loops
    a, b, weight = a[once], graph.adjacency.indices[once], graph.adjacency.data[once]
    score = weight / graph.degree[a] + weight / graph.degree[b]
    order = np.lexsort((generator.random(len(a)), -score))
    first = np.arange(len(graph))
    left = np.stack([a[order], b[order]], axis=1)  # [edges, 2], the heaviest first
    while len(left):
        # Take every edge that is the first of both its ends: the same edges as taking them one by one.
        rank = np.arange(len(left))
        earliest = np.empty(len(graph), dtype=np.int64)
        earliest[left[::-1].ravel()] = rank[::-1].repeat(2)  # the last write wins
        taken = (earliest[left] == rank[:, None]).all(axis=1)
        first[left[taken, 1]] = left[taken, 0]
        free = np.ones(len(graph), dtype=bool)
        free[left[taken]] = False
        left = left[free[left].all(axis=1)]
    return np.unique(first, return_inverse=True)[1]


def join(graph: Graph, clusters: int) -> np.ndarray:
    """Start with one cluster per node; merge the two linked clusters with the cheapest union until k are left: [n].

    A union costs L_a/V_a + L_b/V_b − (L_a + L_b + 2w)/(V_a + V_b). The cost hardly ever falls while clusters grow, so
    an old cost serves as a lower bound; the heap has one entry for each cluster, with its cheapest union.
    """
    inside, volume = graph.loops.tolist(), graph.degree.tolist()
    ratio = (graph.loops / graph.degree).tolist()  # L_c/V_c
    ends, rows = graph.adjacency.indptr.tolist(), range(len(graph))
    entries = list(
        zip(graph.adjacency.indices.tolist(), graph.adjacency.data.tolist(), strict=True)
    )
    links = [dict(entries[ends[i] : ends[i + 1]]) for i in rows]
    for i in rows:
        links[i].pop(i, None)

    def cheapest(a: int, among: dict[int, float]) -> tuple[float, int]:
        l, v = inside[a], volume[a]
        costs = [
            (ratio[b] - (l + inside[b] + 2 * w) / (v + volume[b]), b) for b, w in among.items()
        ]
        cost, b = min(costs)
        return ratio[a] + cost, b

    def entry(a: int) -> tuple[float, int, int, int]:
        cost, b = cheapest(a, links[a])
        return cost, len(links[a]), a, b  # among equal costs, leaves before hubs

    into = np.arange(len(graph))
    heap = [entry(a) for a in rows if links[a]]
    heapq.heapify(heap)
    remaining = len(graph)
    while remaining > clusters and heap:
        bound, _, a, b = heap[0]
        if not links[a]:  # it was merged into another cluster, or has no links left
            heapq.heappop(heap)
            continue
        weight = links[a].get(b)
        if weight is None or cheapest(a, {b: weight})[0] > bound + SLACK:
            heapq.heapreplace(heap, entry(a))
            continue
        if len(links[a]) < len(links[b]):
            a, b = b, a
        inside[a] += inside[b] + 2 * weight
        volume[a] += volume[b]
        ratio[a] = inside[a] / volume[a]
        into[b] = a
        remaining -= 1
        del links[a][b], links[b][a]
        for c, more in links[b].items():
            del links[c][b]
            links[a][c] = links[c][a] = links[a].get(c, 0.0) + more
        links[b] = {}
    while not np.array_equal(into, into[into]):
        into = into[into]
    root, labels = np.unique(into, return_inverse=True)
    # more components than clusters: combine them, but keep the largest apart
    if remaining > clusters:
        combined = np.empty(remaining, dtype=np.int64)
        by_volume = np.argsort(-np.array(volume)[root], kind="stable")
        combined[by_volume] = np.arange(remaining) % clusters
        labels = combined[labels]
    return labels


def bisect(graph: Graph, clusters: int) -> np.ndarray:
    """Start with one cluster; divide the one whose division lowers Σ (1 − L_c/V_c) most until there are k: [n]."""
    adjacency, labels = graph.adjacency.toarray(), np.zeros(len(graph), dtype=np.int64)

    def best_division(cluster: int) -> tuple[float, np.ndarray]:
        members = np.flatnonzero(labels == cluster)
        if len(members) < 2:
            return -np.inf, members
        gain, part = divide(adjacency[np.ix_(members, members)], graph.degree[members])
        return gain, members[part]

    divisions = [best_division(0)]
    for new in range(1, clusters):
        old = max(range(new), key=lambda cluster: divisions[cluster][0])
        labels[divisions[old][1]] = new
        divisions[old] = best_division(old)
        divisions.append(best_division(new))
    return labels


def divide(adjacency: np.ndarray, degree: np.ndarray) -> tuple[float, np.ndarray]:
    """Divide a cluster at the best threshold of the second eigenvector of D⁻¹A: the gain in Σ L/V, and one part."""
    scale = 1 / np.sqrt(degree)
    vector = np.linalg.eigh(adjacency * scale[:, None] * scale)[1][:, -2] * scale
    order = np.argsort(vector, kind="stable")
    adjacency, degree = adjacency[order][:, order], degree[order]
    head, tail = _ratios(adjacency, degree), _ratios(adjacency[::-1, ::-1], degree[::-1])
    value = head[:-1] + tail[-2::-1]
    best = int(value.argmax())
    return float(value[best] - head[-1]), order[: best + 1]


def _ratios(adjacency: np.ndarray, degree: np.ndarray) -> np.ndarray:
    """L/V of the first 1, 2, … nodes: [n]."""
    return np.diag(adjacency.cumsum(axis=0).cumsum(axis=1)) / degree.cumsum()


def _checked(adjacency: csr_array) -> csr_array:
    """Float64 without duplicate or zero entries. Raises `DataError` unless it is a weighted undirected graph."""
    rows, columns = adjacency.shape
    if rows != columns:
        raise DataError(
            f"expected a square adjacency matrix, got {rows} × {columns}: it needs one row and column for each node"
        )
    adjacency = csr_array(adjacency, dtype=np.float64, copy=True)
    adjacency.sum_duplicates()
    adjacency.eliminate_zeros()
    if not (np.isfinite(adjacency.data).all() and (adjacency.data > 0).all()):
        worst = adjacency.data[~(adjacency.data > 0) | ~np.isfinite(adjacency.data)][0]
        raise DataError(f"expected finite weights of at least 0, got {worst}: remove or replace it")
    mirrored = adjacency.T.tocsr()
    if not (
        np.array_equal(adjacency.indptr, mirrored.indptr)
        and np.array_equal(adjacency.indices, mirrored.indices)
        and np.allclose(adjacency.data, mirrored.data, rtol=1e-6)
    ):
        raise DataError("expected a symmetric adjacency matrix, got an asymmetric one: use A + Aᵀ")
    return adjacency
