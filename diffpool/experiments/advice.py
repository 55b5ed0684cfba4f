"""Advice before training: classes that cannot be learned, imbalanced classes, and pooling to a single cluster."""

from __future__ import annotations

import numpy as np

from diffpool.architecture import Architecture, cluster_counts
from diffpool.data import GraphDataset, RawGraphs
from diffpool.errors import DataError

IMBALANCED = 3.0  # the largest class has at least this many times the graphs of the smallest
SUGGESTED_CLUSTERS = 4
MANY_CLASSES = 10  # more than these, with fewer than two graphs each, are ids or numbers


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
