"""How good and how fast is our Graclus compared with METIS and spectral clustering?

Normalized cut and time on planted partitions, and on samples of each data set with ceil(0.1 n) and ceil(0.25 n)
clusters; then the time for whole data sets with ceil(0.25 n) clusters and a quarter of these at the second level.

METIS minimizes the weight of the edges between parts of equal size, so its normalized cut does not reflect its quality.
Spectral clustering is scikit-learn's, with k-means. An empty cluster would cost nothing, so a cluster that a peer
leaves empty gets the cheapest node. Graphs with more than `--largest` nodes are not sampled, because spectral
clustering is slow there.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array
from threadpoolctl import threadpool_limits

from benchmarks.record import begin, finish, parser, words_of
from diffpool.baselines.graclus import graclus, hierarchy, normalized_cut
from diffpool.data import RawGraphs
from diffpool.data.tu_collection import load_raw

DATASETS = ("PROTEINS", "DD", "COLLAB", "REDDIT-MULTI-12K-sub1111")
SHARES = (0.1, 0.25)  # clusters per node
SMALLEST = 8  # minimum number of nodes of a sampled graph
# (nodes, clusters, probability of an edge inside and between clusters): from easy to hard
PLANTED = (
    *((100, 2, 0.3, 0.05), (200, 2, 0.1, 0.04), (300, 3, 0.15, 0.05), (400, 8, 0.3, 0.03)),
    *((600, 12, 0.3, 0.02), (1000, 5, 0.05, 0.01), (1000, 20, 0.3, 0.03), (2000, 20, 0.1, 0.005)),
)


@dataclass(frozen=True, eq=False)
class Case:
    adjacency: csr_array
    clusters: int


def planted(nodes: int, clusters: int, inside: float, between: float, seed: int = 0) -> Case:
    """Clusters of equal size, with these probabilities of an edge inside and between clusters."""
    rng = np.random.default_rng(seed)
    label = np.arange(nodes) % clusters
    probability = np.where(label[:, None] == label, inside, between)
    edges = np.triu(rng.random((nodes, nodes)) < probability, 1)
    return Case(csr_array((edges | edges.T).astype(np.float64)), clusters)


def matrices(raw: RawGraphs, graphs: np.ndarray) -> Iterator[csr_array]:
    """The adjacency matrix of each of these graphs."""
    raw = raw.select(graphs).undirected()
    weights = np.ones(raw.num_edges) if raw.edge_weights is None else raw.edge_weights
    for start, n in zip(raw.starts, raw.sizes, strict=True):
        indptr = raw.indptr[start : start + n + 1]
        edges = slice(indptr[0], indptr[-1])
        columns = raw.source[edges] - start
        yield csr_array((weights[edges], columns, indptr - indptr[0]), shape=(n, n))


def sample(raw: RawGraphs, count: int, largest: int) -> list[csr_array]:
    """`count` random graphs with `SMALLEST` to `largest` nodes."""
    candidates = np.flatnonzero((raw.sizes >= SMALLEST) & (raw.sizes <= largest))
    count = min(count, len(candidates))
    chosen = np.random.default_rng(0).choice(candidates, count, replace=False)
    return list(matrices(raw, chosen))


def metis(adjacency: csr_array, clusters: int) -> np.ndarray:
    import pymetis

    edges = csr_array(adjacency - diags_array(adjacency.diagonal()))  # METIS does not support loops
    edges.eliminate_zeros()
    where = pymetis.CSRAdjacency(edges.indptr.tolist(), edges.indices.tolist())
    weights = edges.data.round().astype(int).tolist()  # and only integer weights
    parts = pymetis.part_graph(clusters, where, eweights=weights)[1]
    return filled(adjacency, np.array(parts, dtype=np.int64), clusters)


def spectral(adjacency: csr_array, clusters: int) -> np.ndarray:
    from sklearn.cluster import SpectralClustering

    model = SpectralClustering(clusters, affinity="precomputed", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # graphs may be disconnected
        labels = model.fit_predict(adjacency.toarray())
    return filled(adjacency, labels.astype(np.int64), clusters)


def filled(adjacency: csr_array, labels: np.ndarray, clusters: int) -> np.ndarray:
    """Move the cheapest node into each empty cluster."""
    labels, degree = labels.copy(), adjacency.sum(axis=1)
    row = np.repeat(np.arange(len(labels)), np.diff(adjacency.indptr))
    for empty in np.flatnonzero(np.bincount(labels, minlength=clusters) == 0):
        same = labels[row] == labels[adjacency.indices]
        own = np.bincount(row[same], adjacency.data[same], minlength=len(labels))
        volume = np.bincount(labels, degree, minlength=clusters)[labels]
        inside = np.bincount(labels, own, minlength=clusters)[labels]
        with np.errstate(divide="ignore", invalid="ignore"):
            cost = inside / volume - (inside - 2 * own) / (volume - degree)
        # as its own cluster, a node without edges costs nothing
        cost = np.where(degree > 0, cost, -1)
        cost[np.bincount(labels, minlength=clusters)[labels] == 1] = np.inf
        labels[cost.argmin()] = empty
    return labels


WHO: dict[str, Callable[[csr_array, int], np.ndarray]] = {
    "ours": graclus,
    "metis": metis,
    "spectral": spectral,
}


def compare(cases: list[Case]) -> dict[str, Any]:
    """Mean cut and seconds of each method, and our cut relative to the better peer, on average and at worst."""
    cuts: dict[str, list[float]] = {who: [] for who in WHO}
    seconds: dict[str, float] = dict.fromkeys(WHO, 0.0)
    for case in cases:
        for who, cluster in WHO.items():
            start = time.perf_counter()
            labels = cluster(case.adjacency, case.clusters)
            seconds[who] += time.perf_counter() - start
            assert len(np.unique(labels)) == case.clusters
            cuts[who].append(normalized_cut(case.adjacency, labels))
    ratios = [relative(*case) for case in zip(*cuts.values(), strict=True)]
    return {
        "graphs": len(cases),
        "nodes": round(float(np.mean([case.adjacency.shape[0] for case in cases]))),
        "clusters": round(float(np.mean([case.clusters for case in cases]))),
        "cut": {who: round(float(np.mean(values)), 4) for who, values in cuts.items()},
        "relative": round(float(np.mean(ratios)), 4),
        "worst": round(max(ratios), 4),
        "above_5_percent": sum(ratio > 1.05 for ratio in ratios),
        "seconds": {who: round(value, 3) for who, value in seconds.items()},
    }


def relative(ours: float, *peers: float) -> float:
    """Our cut divided by the best cut of the peers; 1 if both are zero."""
    best = min(peers)
    return ours / best if best > 1e-9 else 1.0 if ours < 1e-9 else np.inf


def whole(raw: RawGraphs) -> dict[str, Any]:
    """The seconds for two levels of all graphs, and of the slowest graph."""
    seconds = []
    for adjacency in matrices(raw, np.arange(len(raw))):
        first = max(ceil(0.25 * adjacency.shape[0]), 1)
        start = time.perf_counter()
        hierarchy(adjacency, [first, ceil(0.25 * first)])
        seconds.append(time.perf_counter() - start)
    return {
        "graphs": len(raw),
        "seconds": round(sum(seconds), 1),
        "slowest": round(max(seconds), 2),
        "largest": int(raw.sizes.max()),
    }


def line(name: str, row: dict[str, Any]) -> str:
    cuts = ", ".join(
        f"{who} {row['cut'][who]:.3f} ({row['seconds'][who] / row['graphs'] * 1e3:.0f} ms)"
        for who in WHO
    )
    return f"{name:32s} {cuts}; {row['relative']:.3f}, at worst {row['worst']:.3f}"


def run(chosen: argparse.Namespace) -> dict[str, Any]:
    rows, times = {}, {}
    cases = [planted(*kind, seed) for kind in PLANTED for seed in range(chosen.seeds)]
    rows["planted"] = compare(cases)
    print(line("planted", rows["planted"]), flush=True)
    for name in words_of(chosen.datasets, DATASETS, "data sets"):
        raw = load_raw(name, chosen.data_dir)
        graphs = sample(raw, chosen.graphs, chosen.largest)
        for share in SHARES:
            cases = [Case(a, ceil(share * a.shape[0])) for a in graphs]
            rows[f"{name} {share:g}"] = row = compare(cases)
            print(line(f"{name} {share:g}", row), flush=True)
        if not chosen.no_whole:
            times[name] = whole(raw)
            print(f"{name:32s} whole: {times[name]['seconds']} s", flush=True)
    return {"rows": rows, "whole": times}


def main() -> None:
    options = parser(__doc__)
    options.set_defaults(threads=1)
    options.add_argument("--data-dir", required=True, type=Path, help="folder with the zip files")
    options.add_argument("--datasets", default=",".join(DATASETS))
    options.add_argument(
        "--graphs", type=int, default=50, help="graphs sampled from each data set (default 50)"
    )
    options.add_argument(
        "--largest", type=int, default=1000, help="maximum nodes of a graph (default 1000)"
    )
    options.add_argument(
        "--seeds", type=int, default=3, help="seeds for each planted partition (default 3)"
    )
    options.add_argument("--no-whole", action="store_true", help="skip whole data sets")
    chosen = begin(options)
    with threadpool_limits(chosen.threads):
        result = run(chosen)
    names = ("numpy", "scipy", "scikit-learn", "pymetis")
    finish("graclus", {**result, "libraries": {name: version(name) for name in names}}, chosen)


if __name__ == "__main__":
    main()
