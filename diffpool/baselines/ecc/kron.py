"""The coarser graphs of ECC: keep about half of the nodes, chosen by an eigenvector, and apply Kron reduction.

Simonovsky and Komodakis, "Dynamic edge-conditioned filters in convolutional neural networks on graphs" (CVPR 2017),
use the pyramid of Shuman, Faraji and Vandergheynst (2016):

1. Keep the nodes where the eigenvector of the Laplacian's largest eigenvalue is not negative.
2. Kron reduction: the Laplacian of the kept nodes K is L_KK − L_KR L_RR⁻¹ L_RK, where R are the removed nodes. It
   preserves the effective resistance between any two kept nodes, and is dense.
3. Sparsify it (Spielman and Srivastava, 2011): keep an edge with a probability proportional to its weight times the
   effective resistance between its ends, and divide its weight by that probability.

Our choices (the authors did not publish their code for such graphs):

- Each connected component has its own eigenvector, with the sign that makes its largest entry positive, so that hubs
  stay.
- Far from that entry an eigenvector vanishes, and its signs are rounding errors. The nodes there are decided by the
  eigenvector of the Laplacian restricted to them, recursively. A node without neighbors among them stays.
- A removed node is pooled into the kept node that a random walk from it is most likely to reach first.
- Each edge is kept independently, where Spielman and Srivastava draw edges with replacement. There is one pyramid, the
  same in every run; the paper's best results are means over five random pyramids.
- Weights below `ROUNDING` times the largest degree count as zero.

Small graphs use dense matrices, which are faster, and exact effective resistances. Large graphs use sparse matrices;
the reduced Laplacian is computed and sparsified `COLUMNS` columns at a time. Memory is linear in the nodes and in the
kept edges, which number at most 1.8 K ln K for K nodes in expectation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.linalg import cholesky, eigh_tridiagonal, solve_triangular
from scipy.sparse import coo_array, csc_array, csr_array, diags_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

EDGES = 0.16 / 0.3**2  # edges per node, divided by ln K: as in GSPBox with its ε of 0.3
SMALL = 128  # graphs with at most this many nodes use dense matrices
COLUMNS = 256  # columns of the reduced Laplacian computed at a time
PROJECTIONS = 96  # random projections, which give effective resistances within about 15 %
MAX_STEPS = 300  # of the Lanczos method
VANISHES = 1e-6  # entries of an eigenvector below this fraction of the largest count as zero
ROUNDING = 1e-10

Matrix: TypeAlias = np.ndarray | csr_array
Sparsify = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]  # i, j, weight → weight


@dataclass(frozen=True, eq=False)
class Coarsened:
    """A coarser graph."""

    adjacency: csr_array  # [K, K]
    parent: np.ndarray  # [n] int64: the node of the coarser graph that each node is pooled into


def coarsened(adjacency: csr_array) -> Coarsened:
    """Coarsen an undirected graph with nonnegative weights [n, n] once; self-loops are ignored."""
    laplacian = laplacian_of(adjacency)
    kept = kept_nodes(laplacian)
    return kron_reduction(laplacian, kept, resistance_sparsifier(laplacian, kept))


def laplacian_of(adjacency: csr_array) -> Matrix:
    """D − A: [n, n]. Edges so light that they would only add rounding errors are dropped."""
    edges = coo_array(adjacency)
    heavy = edges.data > ROUNDING * adjacency.sum(1).max(initial=0)
    chosen = heavy & (edges.row != edges.col)
    parts = edges.data[chosen], (edges.row[chosen], edges.col[chosen])
    adjacency = coo_array(parts, shape=adjacency.shape)
    if adjacency.shape[0] <= SMALL:
        weights = adjacency.toarray()
        return np.diag(weights.sum(1)) - weights
    return csr_array(diags_array(adjacency.sum(1)) - adjacency)


def kept_nodes(laplacian: Matrix) -> np.ndarray:
    """Which nodes are kept: [n] bool. Every component keeps a node, and isolated nodes are kept."""
    kept = np.ones(laplacian.shape[0], bool)
    undecided = [np.arange(laplacian.shape[0])]
    while undecided:
        among = undecided.pop()
        part = laplacian[among][:, among]
        if len(among) <= SMALL:
            part = _dense(part)
        for nodes in _components(part):
            vector = largest_eigenvector(part[nodes][:, nodes])
            size = np.abs(vector)
            largest = np.argmax(size > (1 - VANISHES) * size.max())  # the first among ties
            vanishes = size < VANISHES * size.max()
            removed = (vector * vector[largest] < 0) & ~vanishes
            kept[among[nodes[removed]]] = False
            if vanishes.any():
                undecided.append(among[nodes[vanishes]])
    return kept


def _components(matrix: Matrix) -> Iterator[np.ndarray]:
    """The nodes of each connected component with at least two nodes."""
    _, component = connected_components(csr_array(matrix), directed=False)
    sizes = np.bincount(component)
    for nodes in np.split(np.argsort(component, kind="stable"), np.cumsum(sizes)[:-1]):
        if len(nodes) > 1:
            yield nodes


def largest_eigenvector(matrix: Matrix) -> np.ndarray:
    """The eigenvector of the largest eigenvalue of a symmetric matrix: [n].

    If that eigenvalue has several eigenvectors, as in a clique, it is the projection of a fixed vector on their span.
    """
    n = matrix.shape[0]
    vector = np.random.default_rng(0).standard_normal(n)
    if n <= SMALL:
        values, vectors = np.linalg.eigh(_dense(matrix))
        vectors = vectors[:, values > (1 - 1e-9) * values[-1]]
        return vectors @ (vector @ vectors)
    # Our own Lanczos iteration, because ARPACK restarts with random vectors and so loses that projection.
    steps = min(n, MAX_STEPS)
    basis, diagonal, off_diagonal = np.empty((steps, n)), np.empty(steps), np.empty(steps)
    norm = np.linalg.norm(vector)
    for step in range(steps):
        basis[step] = vector / norm
        known = basis[: step + 1]
        vector = matrix @ basis[step]
        length = np.linalg.norm(vector)
        diagonal[step] = vector @ basis[step]
        for _ in range(2):  # the second pass removes the rounding errors of the first
            vector = vector - (known @ vector) @ known
        off_diagonal[step] = norm = np.linalg.norm(vector)
        last = step + 1 == steps or norm <= 1e-12 * length
        if last or step % 8 == 7:
            value, weight = eigh_tridiagonal(
                diagonal[: step + 1], off_diagonal[:step], select="i", select_range=(step, step)
            )
            if last or norm * abs(weight[-1, 0]) <= 1e-9 * value[0]:
                break
    return weight[:, 0] @ known


def kron_reduction(
    laplacian: Matrix, kept: np.ndarray, sparsify: Sparsify | None = None
) -> Coarsened:
    """The graph on the kept nodes ([n] bool); `sparsify` maps its edges to their new weights."""
    stay, gone = np.flatnonzero(kept), np.flatnonzero(~kept)
    rows = laplacian[stay]
    direct, across = rows[:, stay], rows[:, gone]  # L_KK, L_KR
    solve = _solver(laplacian[gone][:, gone])
    min_weight = ROUNDING * laplacian.diagonal().max(initial=0)
    nearest, highest = np.zeros(len(gone), np.int64), np.zeros(len(gone))
    edges = [np.empty((3, 0))]  # i, j, weight
    for first in range(0, len(stay), COLUMNS):
        columns = slice(first, first + COLUMNS)
        # −L_RR⁻¹ L_RK: the probability that a random walk from a removed node reaches this kept node first
        reaches = -solve(_dense(across[columns]).T)  # [R, columns]
        weights = -_dense(direct[:, columns]) - across @ reaches  # [K, columns]
        i, j = np.nonzero(np.tril(weights, -1 - first) > min_weight)
        weight = weights[i, j]
        if sparsify is not None:
            weight = sparsify(i, first + j, weight)
        found = np.stack([i, first + j, weight])
        edges.append(found[:, weight > 0])
        reaches = reaches.round(9)  # so that rounding errors do not decide ties: the first one wins
        best = reaches.argmax(1)
        probability = reaches[np.arange(len(gone)), best]
        nearest = np.where(probability > highest, first + best, nearest)
        highest = np.maximum(probability, highest)
    i, j, weight = np.concatenate(edges, 1)
    ends = np.concatenate([i, j]).astype(np.int64), np.concatenate([j, i]).astype(np.int64)
    size = len(stay)
    adjacency = csr_array((np.concatenate([weight, weight]), ends), shape=(size, size))
    parent = np.empty(len(kept), np.int64)
    parent[stay], parent[gone] = np.arange(size), nearest
    return Coarsened(adjacency, parent)


def resistance_sparsifier(laplacian: Matrix, kept: np.ndarray) -> Sparsify:
    """Sample edges by effective resistance, which Kron reduction preserves: computed on the graph before it."""
    points = resistance_embedding(laplacian)[kept]
    rng = np.random.default_rng(0)
    factor = EDGES * np.log(max(len(points), 2))

    def sparsify(i: np.ndarray, j: np.ndarray, weight: np.ndarray) -> np.ndarray:
        between = points[i] - points[j]
        resistance = np.einsum("ed,ed->e", between, between)
        probability = np.minimum(factor * weight * resistance, 1)
        return np.where(rng.random(len(i)) < probability, weight / probability, 0)

    return sparsify


def resistance_embedding(laplacian: Matrix) -> np.ndarray:
    """Points whose squared distances are the effective resistances within a component: [n, D].

    For large graphs only in expectation: L⁺ Bᵀ W^½ Q with the incidence matrix B and random signs Q (Spielman and
    Srivastava).
    """
    n = laplacian.shape[0]
    _, component = connected_components(csr_array(laplacian), directed=False)
    free = np.ones(n, bool)
    # one node of each component is at the origin
    free[np.unique(component, return_index=True)[1]] = False
    grounded = laplacian[free][:, free]
    if isinstance(grounded, np.ndarray):
        root = cholesky(grounded, lower=True)
        points = np.zeros((n, len(root)))
        points[free] = solve_triangular(root, np.eye(len(root)), lower=True).T
        return points
    upper = coo_array(laplacian)
    chosen = upper.row < upper.col
    root = np.sqrt(-upper.data[chosen] / PROJECTIONS)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (len(root), PROJECTIONS))
    edge, ones = np.arange(len(root)), np.ones(len(root))
    nodes = (upper.row[chosen], upper.col[chosen])
    ends = [csr_array((ones, (i, edge)), shape=(n, len(root))) for i in nodes]
    right = (ends[0] - ends[1]) @ (signs * root[:, None])
    points = np.zeros((n, PROJECTIONS))
    points[free] = _solver(grounded)(right[free])
    return points


def _solver(matrix: Matrix) -> Callable[[np.ndarray], np.ndarray]:
    """X ↦ M⁻¹X for a symmetric, diagonally dominant M."""
    if isinstance(matrix, np.ndarray):
        return lambda right: np.linalg.solve(matrix, right)
    if matrix.shape[0] == 0:
        return lambda right: right
    options = {"SymmetricMode": True}
    factors = splu(
        csc_array(matrix), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0, options=options
    )
    return factors.solve


def _dense(matrix: Matrix) -> np.ndarray:
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
