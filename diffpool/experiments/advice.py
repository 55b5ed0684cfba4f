"""Warnings about a data set and a method before training: imbalanced classes, and pooling to a single cluster."""

from __future__ import annotations

import numpy as np

from diffpool.architecture import Architecture, cluster_counts
from diffpool.data import GraphDataset

IMBALANCED = 3.0  # the largest class has at least this many times the graphs of the smallest
SUGGESTED_CLUSTERS = 4


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
    a, sizes = architecture, dataset.graphs.layout.sizes.numpy()
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
