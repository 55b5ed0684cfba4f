"""Graclus: Dhillon, Guan and Kulis, "Weighted Graph Cuts without Eigenvectors: A Multilevel Approach" (PAMI 2007).

Clusters the nodes of a graph into any number of clusters with a small normalized cut, in three phases: coarsening by
matching the heaviest edges, clustering the coarsest graph, and refining these clusters by weighted kernel k-means on
every finer graph. It is not the coarsening phase alone, which others call Graclus.

Where the paper leaves a choice, or we deviate:

- Matching takes the edges in order of w/d_i + w/d_j, the paper's criterion for normalized cut, ties at random; the
  paper visits nodes at random and takes the best edge of each.
- Graphs are coarsened while they have more than 5k nodes, as in the paper, and more than 200: smaller ones have a
  smaller cut if they are clustered as they are.
- The coarsest graph is clustered by joining the two clusters whose union costs least until k are left, which is best
  for many small clusters. A few clusters are also found by the paper's bisection, here by the second eigenvector, and
  the better of the two results is taken.
- Refinement is by batch steps and chains of single moves on every graph, with σ = 0: see `kernel_kmeans`.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from diffpool.baselines.kernel_kmeans import Graph, indicator, normalized_cut, refine
from diffpool.errors import DataError, SettingError

COARSEST = 200  # nodes
STALLED = 0.9  # a matching that leaves more of the nodes than this ends the coarsening
FEW = 20  # clusters that bisection finds
SLACK = 1e-3  # by which costs may be out of order: the exact order needs all leaves of a star for every union


def graclus(adjacency: csr_array, clusters: int, seed: int = 0) -> np.ndarray:
    """The cluster of each node of an undirected graph with weights ≥ 0: [n] int64 in 0 … k−1.

    No cluster is empty if there are enough nodes; each node has its own if there are not more.
    """
    graph = Graph.from_adjacency(_checked(adjacency))
    if clusters < 1:
        raise SettingError(
            f"expected at least one cluster, got {clusters}: ask for a positive number"
        )
    if len(graph) <= clusters:
        return np.arange(len(graph))
    generator = np.random.default_rng(seed)
    finer: list[tuple[Graph, np.ndarray]] = []  # each graph and where its nodes are in the next
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
    """The cluster of each node after 1, 2, … levels, the next level clustering SᵀAS: [n, levels] int64."""
    columns = np.empty((adjacency.shape[0], len(counts)), dtype=np.int64)
    labels = np.arange(adjacency.shape[0])
    for level, clusters in enumerate(counts):
        found = graclus(adjacency, clusters, seed)
        columns[:, level] = labels = found[labels]
        adjacency = coarser(adjacency, found, int(found.max(initial=-1)) + 1)
    return columns


def coarser(adjacency: csr_array, labels: np.ndarray, clusters: int) -> csr_array:
    """SᵀAS: [n, n], [n] → [k, k]; what is inside a cluster becomes a loop."""
    s = indicator(labels, clusters)
    return csr_array(s.T @ (adjacency @ s))


def heavy_edge_matching(graph: Graph, generator: np.random.Generator) -> np.ndarray:
    """A number for each node, the same for the two ends of a matched edge: [n]."""
    a = np.repeat(np.arange(len(graph)), np.diff(graph.adjacency.indptr))
    once = a < graph.adjacency.indices  # no loops
    a, b, weight = a[once], graph.adjacency.indices[once], graph.adjacency.data[once]
    score = weight / graph.degree[a] + weight / graph.degree[b]
    order = np.lexsort((generator.random(len(a)), -score))
    first = np.arange(len(graph))
    left = np.stack([a[order], b[order]], axis=1)  # [edges, 2], the heaviest first
    while len(left):
        # An edge is taken if it is the first of both its ends: what taking one by one would take too.
        rank = np.arange(len(left))
        earliest = np.empty(len(graph), dtype=np.int64)
        earliest[left[::-1].ravel()] = rank[::-1].repeat(2)  # the last one written stays
        taken = (earliest[left] == rank[:, None]).all(axis=1)
        first[left[taken, 1]] = left[taken, 0]
        free = np.ones(len(graph), dtype=bool)
        free[left[taken]] = False
        left = left[free[left].all(axis=1)]
    return np.unique(first, return_inverse=True)[1]


def join(graph: Graph, clusters: int) -> np.ndarray:
    """Every node a cluster, then the two linked ones whose union costs least become one, until k are left: [n].

    The union costs L_a/V_a + L_b/V_b − (L_a + L_b + 2w)/(V_a + V_b). It hardly ever falls while clusters grow, so
    that a cost from earlier serves as a lower bound, and the heap has one for each cluster: of its cheapest union.
    """
    inside, volume = graph.loops.tolist(), graph.degree.tolist()
    share = (graph.loops / graph.degree).tolist()  # L_c/V_c
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
            (share[b] - (l + inside[b] + 2 * w) / (v + volume[b]), b) for b, w in among.items()
        ]
        least, b = min(costs)
        return share[a] + least, b

    def entry(a: int) -> tuple[float, int, int, int]:
        least, b = cheapest(a, links[a])
        return least, len(links[a]), a, b  # of equal costs the leaf's before the hub's

    into = np.arange(len(graph))
    heap = [entry(a) for a in rows if links[a]]
    heapq.heapify(heap)
    remaining = len(graph)
    while remaining > clusters and heap:
        bound, _, a, b = heap[0]
        if not links[a]:  # it has become part of another, or there is nothing to join
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
        share[a] = inside[a] / volume[a]
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
    if remaining > clusters:  # more components than clusters: the largest ones apart
        place = np.empty(remaining, dtype=np.int64)
        place[np.argsort(-np.array(volume)[root], kind="stable")] = np.arange(remaining) % clusters
        labels = place[labels]
    return labels


def bisect(graph: Graph, clusters: int) -> np.ndarray:
    """One cluster, then the one whose best division lowers Σ (1 − L_c/V_c) most is divided, until there are k: [n]."""
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
    """A cluster in two by the second eigenvector of D⁻¹A, cut at its best place: the gain in Σ L/V, and one part."""
    scale = 1 / np.sqrt(degree)
    vector = np.linalg.eigh(adjacency * scale[:, None] * scale)[1][:, -2] * scale
    order = np.argsort(vector, kind="stable")
    adjacency, degree = adjacency[order][:, order], degree[order]
    head, tail = _shares(adjacency, degree), _shares(adjacency[::-1, ::-1], degree[::-1])
    value = head[:-1] + tail[-2::-1]
    best = int(value.argmax())
    return float(value[best] - head[-1]), order[: best + 1]


def _shares(adjacency: np.ndarray, degree: np.ndarray) -> np.ndarray:
    """L/V of the first 1, 2, … nodes: [n]."""
    return np.diag(adjacency.cumsum(axis=0).cumsum(axis=1)) / degree.cumsum()


def _checked(adjacency: csr_array) -> csr_array:
    """Float64, without entries given twice or zero; an error if it is no undirected graph with weights."""
    rows, columns = adjacency.shape
    if rows != columns:
        raise DataError(
            f"expected a square adjacency matrix, got {rows} × {columns}: give one row and column for each node"
        )
    adjacency = csr_array(adjacency, dtype=np.float64, copy=True)
    adjacency.sum_duplicates()
    adjacency.eliminate_zeros()
    if not (np.isfinite(adjacency.data).all() and (adjacency.data > 0).all()):
        worst = adjacency.data[~(adjacency.data > 0) | ~np.isfinite(adjacency.data)][0]
        raise DataError(f"expected weights of 0 or more, got {worst}: give finite weights")
    mirrored = adjacency.T.tocsr()
    if not (
        np.array_equal(adjacency.indptr, mirrored.indptr)
        and np.array_equal(adjacency.indices, mirrored.indices)
        and np.allclose(adjacency.data, mirrored.data, rtol=1e-6)
    ):
        raise DataError("expected a symmetric adjacency matrix, got another one: give A + Aᵀ")
    return adjacency
