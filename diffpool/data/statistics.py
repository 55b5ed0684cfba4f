"""Statistics of a data set."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffpool.data.features import FeatureMap
from diffpool.data.raw import RawGraphs

PART = 10_000  # graphs at a time


def statistics(raw: RawGraphs) -> dict[str, Any]:
    """Counts and means, as plain values. Undirected edges and self-loops count once."""
    graphs = max(len(raw), 1)
    loops = isolated = 0
    for part in raw.parts(PART):  # a data set on disk may be larger than memory
        loops += part.self_loops
        isolated += int((np.diff(part.undirected().indptr) == 0).sum())
    edges = raw.num_edges if raw.directed else (raw.num_edges + loops) // 2
    counts = {}
    if raw.classes is not None:
        found = np.bincount(raw.classes.codes[:, 0], minlength=len(raw.classes.names[0]))
        counts = dict(zip(raw.classes.names[0], found.tolist(), strict=True))
    labels, edge_labels = raw.node_labels, raw.edge_labels
    return {
        "name": raw.name,
        "graphs": len(raw),
        "classes": len(counts),
        "class_counts": counts,
        "targets": 0 if raw.targets is None else raw.targets.shape[1],
        "nodes": raw.num_nodes,
        "edges": edges,
        "mean_nodes": round(raw.num_nodes / graphs, 2),
        "mean_edges": round(edges / graphs, 2),
        "max_nodes": int(raw.sizes.max(initial=0)),
        "empty_graphs": int((raw.sizes == 0).sum()),
        "isolated_nodes": isolated,
        "self_loops": loops,
        "directed": raw.directed,
        "node_labels": [] if labels is None else [len(names) for names in labels.names],
        "node_attributes": 0 if raw.node_attributes is None else raw.node_attributes.shape[1],
        "edge_labels": [] if edge_labels is None else [len(names) for names in edge_labels.names],
        "edge_attributes": 0 if raw.edge_attributes is None else raw.edge_attributes.shape[1],
        "edge_weights": raw.edge_weights is not None,
        "features": FeatureMap.choose(raw).describe(),
    }
