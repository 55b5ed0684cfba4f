"""Can ten folds of a data set like REDDIT-MULTI-12K be trained as one cohort, and in what time and memory?

The real data set was not available, so this one is generated to match it: 11,929 graphs of 11 classes, 391 nodes and
457 edges on average, 3,782 nodes in the largest; discussions are trees around hubs with some extra edges. Features are
the default for data sets without labels. It runs one epoch of the method `diffpool` on ten folds, including validation,
and says nothing about accuracy.

The benchmark checks that every training graph passes through the network of its fold exactly once, with all its nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import torch

from benchmarks.contest import peak
from benchmarks.record import begin, finish, parser
from diffpool.data import Categories, GraphDataset, RawGraphs, stratified_folds
from diffpool.experiments import Tenfold, settings_for
from diffpool.experiments.cohorts import make_cohort
from diffpool.experiments.plan import Plan
from diffpool.graphs import SparseGraphs
from diffpool.nn import GraphClassifier

GRAPHS, CLASSES, LARGEST = 11_929, 11, 3_782
LOG_MEAN, LOG_SD, SMALLEST = 5.2915, 1.2, 5  # log-normal sizes, before clipping
EARLY = 3  # node n · u^EARLY is chosen, with u uniform, so that early nodes are hubs
MORE_EDGES = 0.2  # extra edges per node in addition to the tree; some are duplicates
HUB = (0.1, 0.4)  # fraction of nodes that answer the first node, in the first and the last class


def reddit_shaped(graphs: int = GRAPHS, seed: int = 0) -> GraphDataset:
    """Generate graphs; their sizes are quantiles of a distribution and do not depend on the seed."""
    rng = np.random.default_rng(seed)
    normal = NormalDist(LOG_MEAN, LOG_SD)
    shares = (np.arange(graphs) + 0.5) / graphs
    sizes = np.exp([normal.inv_cdf(share) for share in shares]).astype(np.int64)
    sizes = sizes.clip(SMALLEST, LARGEST)
    sizes[-1] = LARGEST
    sizes = rng.permutation(sizes)
    classes = rng.permutation(np.arange(graphs) % CLASSES)
    source, target = _discussions(rng, sizes, np.linspace(*HUB, CLASSES)[classes])
    raw = RawGraphs.from_edges(
        "reddit-shaped",
        sizes,
        np.concatenate([source, target]),
        np.concatenate([target, source]),
        classes=Categories.from_values(classes),
    )
    return GraphDataset.from_raw(raw)


def _discussions(
    rng: np.random.Generator, sizes: np.ndarray, hub: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Edges in one direction: every later node answers the first or an earlier node, preferably an early one."""
    graph = np.repeat(np.arange(len(sizes)), sizes)
    start = (np.cumsum(sizes) - sizes)[graph]
    index = np.arange(len(graph)) - start

    def early(limit: np.ndarray) -> np.ndarray:
        return (limit * rng.random(len(limit)) ** EARLY).astype(np.int64)

    parent = start + np.where(rng.random(len(graph)) < hub[graph], 0, early(index))
    child = np.flatnonzero(index > 0)
    node = rng.integers(0, len(graph), round(MORE_EDGES * len(graph)))
    first, limit = start[node], sizes[graph[node]]
    one, other = first + early(limit), first + early(limit)
    apart = one != other
    return np.concatenate([child, one[apart]]), np.concatenate([parent[child], other[apart]])


@dataclass(frozen=True)
class Census:
    """Counts the graphs and nodes that pass through each model in training, on the device."""

    counts: torch.Tensor  # [M, 2]

    @classmethod
    def from_model(cls, model: GraphClassifier, models: int) -> Census:
        device = next(model.parameters()).device
        census = cls(torch.zeros(models, 2, dtype=torch.int64, device=device))
        model.register_forward_pre_hook(census.count)
        return census

    def count(self, model: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
        if model.training:
            graphs: SparseGraphs = inputs[0]
            sizes = graphs.layout.device_sizes.view(len(self.counts), -1)
            self.counts.add_(torch.stack([(sizes > 0).sum(1), sizes.sum(1)], 1))


def measure(dataset: GraphDataset, device: str, folds: int = 10, seed: int = 0) -> dict[str, Any]:
    """Train one epoch of all folds as one cohort: seconds, MiB, graphs trained."""
    sizes, y = dataset.graphs.layout.sizes.numpy(), dataset.y.numpy()
    splits = tuple(stratified_folds(y, seed, folds))
    method = settings_for("diffpool", dataset.name, epochs=1)
    tasks = Tenfold().tasks(Plan(method, seed, y, (splits,)), {})
    dataset = dataset.to(device)
    cohort = make_cohort(tasks, dataset)
    census = Census.from_model(cohort.model, folds)
    rows: list[Any] = []
    mib = peak(lambda: rows.extend(cohort.train_epoch()), device)
    expected = [[len(split.train), int(sizes[split.train].sum())] for split in splits]
    assert census.counts.tolist() == expected, "a graph was dropped, truncated or trained twice"
    graphs = sum(count for count, _ in expected)
    total = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else None
    return {
        "folds": folds,
        "seconds": round(rows[0].seconds, 2),
        "mib": None if mib is None else round(mib),
        "mib_with_data": None if total is None else round(total),
        "graphs_trained": graphs,
        "nodes_trained": sum(nodes for _, nodes in expected),
        "graphs_a_second": round(graphs / rows[0].seconds, 1),
        "train_loss": [round(row.train_loss, 3) for row in rows],
    }


def shape(dataset: GraphDataset) -> dict[str, Any]:
    """Statistics of the data set."""
    graphs = dataset.graphs
    return {
        "graphs": len(dataset),
        "mean_nodes": round(graphs.num_nodes / len(dataset), 2),
        "mean_edges": round(graphs.adj.indices.numel() / 2 / len(dataset), 2),
        "largest": dataset.largest,
        "largest_degree": int(graphs.degree.max()),
        "classes": dataset.num_classes,
        "features": dataset.features,
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--graphs", type=int, default=GRAPHS)
    options.add_argument("--folds", type=int, default=10)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    chosen = begin(options)
    dataset = reddit_shaped(chosen.graphs, chosen.seed)
    result = {"device": chosen.device, "data": shape(dataset)}
    print(result, flush=True)
    result |= measure(dataset, chosen.device, chosen.folds, chosen.seed)
    print(result, flush=True)
    finish("reddit_shape" if chosen.device == "cuda" else "reddit_shape_cpu", result, chosen)


if __name__ == "__main__":
    main()
