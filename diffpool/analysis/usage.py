"""How many of its clusters a graph uses, how certain the assignment is, and how equal in size the clusters are.

The cluster of a node is its first choice, the largest entry in its row of S, as in the paper. A cluster is used if it
is the first choice of some node.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

COVERED_SHARE = 0.9  # share of the nodes in `clusters_of_most`


def composed(assignments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The assignment of the input nodes after each pooling, S₁, S₁S₂, …: [n, k₁], [n, k₂], …"""
    found: list[np.ndarray] = []
    for s in assignments:
        found.append(found[-1] @ s if found else s)
    return found


def usage_measures(s: np.ndarray) -> dict[str, float]:
    """Measures of one assignment [n, k].

    `clusters`: k. `used`: clusters that are the first choice of some node; `used_share`: used / k. `effective`:
    exp(entropy of their sizes), the number of equally large clusters with the same entropy. `clusters_of_most`: the
    smallest number of clusters that together hold 90 % of the nodes. `largest`: the share of nodes in the largest
    cluster. `entropy`: mean entropy of the rows of S, divided by log k; 0 is a hard choice, 1 a uniform row.
    `unused_peak` and `used_peak`: the largest entry in a column of S, averaged over unused and used clusters.
    """
    nodes, clusters = s.shape
    counts = np.bincount(s.argmax(1), minlength=clusters)
    used = counts > 0
    shares = np.sort(counts[used] / nodes)[::-1]
    peaks = s.max(0)
    measures = {
        "clusters": float(clusters),
        "used": float(used.sum()),
        "used_share": float(used.mean()),
        "effective": float(np.exp(-(shares * np.log(shares)).sum())),
        "clusters_of_most": float(np.searchsorted(shares.cumsum(), COVERED_SHARE - 1e-9) + 1),
        "largest": float(shares[0]),
        "used_peak": float(peaks[used].mean()),
    }
    if not used.all():
        measures["unused_peak"] = float(peaks[~used].mean())
    if clusters > 1:
        p = s.astype(np.float64)
        terms = p * np.log(np.maximum(p, 1e-300))
        measures["entropy"] = float(-terms.sum(1).mean() / np.log(clusters))
    return measures
