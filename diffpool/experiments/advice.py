"""Advice before and after training: classes that cannot be learned, imbalanced classes, pooling to a single cluster."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from diffpool.analysis.usage import usage_measures
from diffpool.architecture import Architecture, cluster_counts
from diffpool.data import GraphDataset, RawGraphs
from diffpool.errors import DataError
from diffpool.nn import GraphClassifier
from diffpool.training import CohortBatches

IMBALANCED = 3.0  # the largest class has at least this many times the graphs of the smallest
SUGGESTED_CLUSTERS = 4
SAME_CLUSTER = 0.95  # of the nodes
ALIKE = 1e-5  # the largest difference between rows of S that are equal up to rounding
CHECKED = 100  # validation graphs of each model
MANY_CLASSES = (
    10  # more classes than this, with fewer than two graphs each, are taken for ids or numbers
)


def check_classes(raw: RawGraphs) -> None:
    """Raise an error if all graphs have the same class, or if nearly every graph has its own."""
    if raw.classes is None:
        return
    counts = np.bincount(raw.classes.codes[:, 0])
    found = np.flatnonzero(counts)
    if len(found) == 1:
        only = raw.classes.labels()[found[0]]
        raise DataError(
            f"{raw.name}: all {len(raw)} graphs have the class {only!r}: a classifier needs graphs of at least two "
            "classes. Add graphs of another class, or use other labels."
        )
    if len(found) > MANY_CLASSES and 2 * len(found) > len(raw):
        raise DataError(
            f"{raw.name}: {len(raw)} graphs have {len(found)} different classes: for numbers to predict use --target, "
            "for classes name another column with --label (in Python: DiffPoolRegressor, or other classes)."
        )


def class_counts(dataset: GraphDataset, graphs: np.ndarray | None = None) -> dict[str, int]:
    """The number of graphs in each class, among all graphs or the given ones."""
    y = dataset.y.cpu().numpy()
    counts = np.bincount(y if graphs is None else y[graphs], minlength=dataset.num_classes)
    return dict(zip(map(str, dataset.class_names), counts.tolist(), strict=True))


def imbalance(dataset: GraphDataset) -> str | None:
    """A warning if the classes are imbalanced; None if they are balanced, and for regression."""
    if dataset.regression:
        return None
    counts = {name: count for name, count in class_counts(dataset).items() if count}
    largest, smallest = max(counts.values(), default=0), min(counts.values(), default=1)
    if largest < IMBALANCED * smallest:
        return None
    common = max(counts, key=lambda name: counts[name])
    return (
        f"the classes are imbalanced: always predicting {common!r} has an accuracy of "
        f"{100 * largest / len(dataset):.0f} %. Look at balanced accuracy, macro F1 and ROC AUC instead; "
        "class_weight='balanced' (--class-weight balanced) gives every class the same total weight in the loss"
    )


def trivial_pooling(architecture: Architecture, dataset: GraphDataset) -> str | None:
    """A warning if the first pooling gives most graphs a single cluster: the model is then almost flat."""
    a, sizes = architecture, dataset.sizes
    sizes = sizes[sizes > 1]
    if a.poolings == 0 or a.pooler == "pyramid" or a.clusters != "graph" or not len(sizes):
        return None
    share = float((cluster_counts(a, dataset.largest)[0].counts(sizes) <= 1).mean())
    if share <= 0.5:
        return None
    return (
        f"pooling is trivial: {100 * share:.0f} % of the graphs have a single cluster after the first pooling, because "
        f"they are small (median {np.median(sizes):.0f} nodes) and ratio is {a.cluster_ratio:g}. "
        f"For more clusters, use min_clusters={SUGGESTED_CLUSTERS} (--min-clusters {SUGGESTED_CLUSTERS}) "
        "or a larger ratio"
    )


def collapsed_pooling(
    architecture: Architecture,
    model: GraphClassifier,
    dataset: GraphDataset,
    validation: Sequence[np.ndarray],
) -> str | None:
    """A warning if the first pooling puts nearly all nodes of the validation graphs into one cluster.

    The cluster of a node is the largest entry of its row of S. Graphs with a single cluster are not counted, and
    neither are those whose nodes all look the same to the pooling network, such as rings.
    """
    if architecture.poolings == 0 or architecture.pooler != "diffpool":
        return None
    share = _largest_clusters(model, dataset, [numbers[:CHECKED] for numbers in validation])
    if share is None or share <= SAME_CLUSTER:
        return None
    return (
        f"pooling uses a single cluster: {100 * share:.0f} % of the nodes of validation graphs are in the largest "
        "cluster of their graph, so the model may be almost flat. Try another link_weight (0.1), entropy_weight or "
        "learning_rate, or more clusters (a larger ratio); `diffpool analyze` shows how many are used"
    )


@torch.no_grad()
def _largest_clusters(
    model: GraphClassifier, dataset: GraphDataset, graphs: Sequence[np.ndarray]
) -> float | None:
    """The share of nodes in the largest cluster of their graph; None if no graph could have several clusters."""
    model.eval()
    batches, nodes, largest = CohortBatches(dataset, model.clusters), 0, 0.0
    for batch in batches.batches(graphs, [CHECKED] * len(graphs)):
        assignment = model(batch.graphs, batch.x, batch.plan).assignments[0]
        sizes, real = batch.graphs.layout.sizes.tolist(), batch.real.flatten().tolist()
        for number in [n for n, size in enumerate(sizes) if size and real[n]]:
            s = assignment.of_graph(number).cpu().numpy()
            if s.shape[1] > 1 and np.ptp(s, axis=0).max() > ALIKE:
                nodes += len(s)
                largest += len(s) * usage_measures(s)["largest"]
    return largest / nodes if nodes else None
