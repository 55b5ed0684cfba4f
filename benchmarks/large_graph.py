"""How do time and memory of a classifier with one pooling grow with the size of a graph?

One graph with n nodes, 4 n edges and 64 planted communities, pooled to 64 clusters, on the CPU. Training steps
(forward, backward, Adam), prediction, and training steps with activation checkpointing, which keeps only the input and
output of the two networks before the pooling and computes them again in the backward pass. Each measurement runs in its
own process, so that the peak memory of one does not hide that of another.
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
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from benchmarks.record import begin, finish, parser
from diffpool.architecture import Architecture
from diffpool.builder import build
from diffpool.graphs import SparseGraphs
from diffpool.nn import GraphClassifier
from diffpool.training import Optimizer, Training, train_step

SIZES = (10_000, 100_000, 1_000_000)
MODES = ("training", "prediction", "checkpointing")
CLUSTERS, FEATURES, CLASSES = 64, 16, 2
EDGES = 4  # per node
WITHIN = 0.8  # of the edges are within a community


def planted_graph(num_nodes: int) -> tuple[SparseGraphs, Tensor]:
    """One graph with up to `EDGES` undirected edges per node, and the noisy code of its community for each node."""
    rng = np.random.default_rng(0)
    members = -(-num_nodes // CLUSTERS)  # of a community
    source = rng.integers(0, num_nodes, EDGES * num_nodes)
    near = source // members * members + rng.integers(0, members, len(source))
    far = rng.integers(0, num_nodes, len(source))
    target = np.where(rng.random(len(source)) < WITHIN, near.clip(max=num_nodes - 1), far)
    low, high = np.minimum(source, target), np.maximum(source, target)
    low, high = np.divmod(np.unique((low * num_nodes + high)[low < high]), num_nodes)
    graphs = SparseGraphs.from_edges(
        [num_nodes], np.concatenate([low, high]), np.concatenate([high, low])
    )
    codes = rng.normal(size=(CLUSTERS, FEATURES)).astype(np.float32)
    x = codes[np.arange(num_nodes) // members]
    x += rng.standard_normal(x.shape, np.float32)
    return graphs, torch.from_numpy(x)


def model() -> GraphClassifier:
    architecture = Architecture(poolings=1, clusters=(CLUSTERS,))
    return build(architecture, FEATURES, CLASSES, largest=max(SIZES))


def check() -> None:
    """Compare with the definition, which uses an n × n matrix, on a small graph."""
    graphs, x = planted_graph(200)
    classifier = model().double().eval()
    prediction = classifier(graphs.to(dtype=torch.float64), x.double())
    s = prediction.assignments[0].of_graph(0)
    adj = torch.zeros(200, 200, dtype=torch.float64)
    row = torch.repeat_interleave(torch.arange(200), graphs.adj.indptr.diff())
    adj[row, graphs.adj.indices] = 1
    torch.testing.assert_close(prediction.graphs[1].adj, s.T @ adj @ s)  # type: ignore[union-attr]
    torch.testing.assert_close(prediction.losses["link"][0], (adj - s @ s.T).norm())


class Checkpointed(torch.nn.Module):
    """A network whose intermediate results are computed again in the backward pass."""

    def __init__(self, network: torch.nn.Module):
        super().__init__()
        self.network = network

    def forward(self, *inputs: Any) -> Any:
        return checkpoint(self.network, *inputs, use_reentrant=False)


def measure(num_nodes: int, mode: str, repeats: int) -> dict[str, Any]:
    """Median seconds of a training step or of a prediction, and the peak memory of the process."""
    graphs, x = planted_graph(num_nodes)
    torch.manual_seed(0)
    classifier = model()
    optimizer = Optimizer(classifier, Training())
    if mode == "checkpointing":
        classifier.encoders[0] = Checkpointed(classifier.encoders[0])
        classifier.poolers[0].gnn = Checkpointed(classifier.poolers[0].gnn)
    plan, y, real = classifier.plan(graphs), torch.zeros(1, dtype=torch.int64), torch.ones(1, 1)
    before, seconds, losses = _peak_gib(), [], []
    for _ in range(repeats):
        start = time.perf_counter()
        if mode == "prediction":
            with torch.no_grad():
                losses.append(float(classifier.eval()(graphs, x, plan).logits.sum()))
        else:
            _, loss = train_step(classifier, optimizer, graphs, plan, x, y, real.bool(), {})
            losses.append(float(loss))
        seconds.append(time.perf_counter() - start)
    assert np.isfinite(losses).all()
    assert mode == "prediction" or losses[-1] < losses[0]
    return {
        "nodes": num_nodes,
        "edges": graphs.num_edges // 2,
        "mode": mode,
        "seconds": statistics.median(seconds),
        "peak_gib": _peak_gib(),
        "start_gib": before,
    }


def _peak_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--size", type=int, help="measure only this size (used internally)")
    options.add_argument("--mode", choices=MODES, help="and only this mode (used internally)")
    chosen = begin(options)
    if chosen.size:
        print(json.dumps(measure(chosen.size, chosen.mode, chosen.repeats)))
        return
    check()
    rows = []
    print(
        f"{'nodes':>9} {'edges':>9} {'mode':>13} {'seconds':>9} {'peak GiB':>9} {'before, GiB':>13}"
    )
    for size in SIZES:
        for mode in MODES:
            command = [sys.executable, "-m", "benchmarks.large_graph", "--size", str(size)]
            command += ["--mode", mode]
            command += ["--repeats", str(chosen.repeats), "--threads", str(chosen.threads)]
            output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            row = json.loads(output.splitlines()[-1])
            rows.append(row)
            print(
                f"{row['nodes']:9d} {row['edges']:9d} {mode:>13} {row['seconds']:9.3f} "
                f"{row['peak_gib']:9.3f} {row['start_gib']:13.3f}",
                flush=True,
            )
    peak = max(row["peak_gib"] for row in rows if row["mode"] == "training")
    finish("large_graph", {"peak_gib": peak, "rows": rows}, chosen)


if __name__ == "__main__":
    main()
