"""How do time and memory of a classifier with one pooling grow with the size of a graph?

A forward and backward pass on one random graph with n nodes, 4 n edges and 64 clusters, on the CPU. Each size runs in
its own process, so that the peak memory of one does not hide that of another.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np
import torch

from benchmarks.record import begin, finish, parser
from diffpool.architecture import Architecture
from diffpool.builder import build
from diffpool.graphs import SparseGraphs
from diffpool.nn import GraphClassifier

SIZES = (1_000, 10_000, 100_000)
CLUSTERS, FEATURES, CLASSES = 64, 16, 2


def random_graph(num_nodes: int, num_edges: int) -> tuple[SparseGraphs, torch.Tensor]:
    """One graph with `num_edges` undirected edges, and random features."""
    rng = np.random.default_rng(0)
    edges = np.empty((0,), dtype=np.int64)
    while len(edges) < num_edges:
        pair = rng.integers(0, num_nodes, (2, num_edges))
        low, high = pair.min(0), pair.max(0)
        edges = np.unique(np.concatenate([edges, (low * num_nodes + high)[low < high]]))
    source, target = np.divmod(rng.permutation(edges)[:num_edges], num_nodes)
    graphs = SparseGraphs.from_edges(
        [num_nodes], np.concatenate([source, target]), np.concatenate([target, source])
    )
    return graphs, torch.from_numpy(rng.normal(size=(num_nodes, FEATURES))).float()


def model() -> GraphClassifier:
    architecture = Architecture(poolings=1, clusters=(CLUSTERS,))
    return build(architecture, FEATURES, CLASSES, largest=max(SIZES))


def check() -> None:
    """Compare with the definition, which uses an n × n matrix, on a small graph."""
    graphs, x = random_graph(200, 800)
    classifier = model().double().eval()
    prediction = classifier(graphs.to(dtype=torch.float64), x.double())
    s = prediction.assignments[0].of_graph(0)
    adj = torch.zeros(200, 200, dtype=torch.float64)
    row = torch.repeat_interleave(torch.arange(200), graphs.adj.indptr.diff())
    adj[row, graphs.adj.indices] = 1
    torch.testing.assert_close(prediction.graphs[1].adj, s.T @ adj @ s)  # type: ignore[union-attr]
    torch.testing.assert_close(prediction.losses["link"][0], (adj - s @ s.T).norm())


def measure(num_nodes: int, repeats: int) -> dict[str, Any]:
    """Median seconds of a forward and backward pass, and the peak memory of the process."""
    graphs, x = random_graph(num_nodes, 4 * num_nodes)
    classifier = model()
    before = _peak_gib()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        prediction = classifier(graphs, x)
        loss = prediction.logits.logsumexp(-1).mean() + sum(
            v.mean() for v in prediction.losses.values()
        )
        loss.backward()
        seconds.append(time.perf_counter() - start)
        del prediction, loss
    assert all(p.grad is not None and p.grad.isfinite().all() for p in classifier.parameters())
    return {
        "nodes": num_nodes,
        "edges": graphs.num_edges // 2,
        "seconds": statistics.median(seconds),
        "peak_gib": _peak_gib(),
        "start_gib": before,
    }


def _peak_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument(
        "--size", type=int, help="measure only this size, in this process (used internally)"
    )
    chosen = begin(options)
    if chosen.size:
        print(json.dumps(measure(chosen.size, chosen.repeats)))
        return
    check()
    rows = []
    print(f"{'nodes':>8} {'edges':>8} {'seconds':>9} {'peak GiB':>9} {'before, GiB':>13}")
    for size in SIZES:
        command = [sys.executable, "-m", "benchmarks.large_graph", "--size", str(size)]
        command += ["--repeats", str(chosen.repeats), "--threads", str(chosen.threads)]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        row = json.loads(output.splitlines()[-1])
        rows.append(row)
        print(
            f"{row['nodes']:8d} {row['edges']:8d} {row['seconds']:9.4f} {row['peak_gib']:9.3f} "
            f"{row['start_gib']:13.3f}",
            flush=True,
        )
    finish("large_graph", {"peak_gib": rows[-1]["peak_gib"], "rows": rows}, chosen)


if __name__ == "__main__":
    main()
