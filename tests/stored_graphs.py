"""Graphs with every kind of table, for tests of data sets on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np


def lines(count: int = 40, seed: int = 0) -> list[dict[str, Any]]:
    """Graphs with every kind of table; the names of categories come in no order, and graph 3 has no nodes."""
    rng = np.random.default_rng(seed)
    found = []
    for g in range(count):
        nodes = 0 if g == 3 else int(rng.integers(1, 9))
        pairs = rng.integers(0, max(nodes, 1), (2 * nodes, 2))
        edges = [pair for pair in np.unique(pairs, axis=0).tolist() if nodes]
        graph = {
            "id": f"g{g}",
            "nodes": nodes,
            "edges": edges,
            "node_labels": [str(v) for v in rng.integers(0, 30 - g // 2, nodes)],
            "node_attributes": rng.normal(size=(nodes, 2)).tolist(),
            "edge_labels": [[f"e{v}", int(v) % 2] for v in rng.integers(0, 5, len(edges))],
            "edge_attributes": rng.normal(size=(len(edges), 1)).tolist(),
            "edge_weights": rng.uniform(0, 2, len(edges)).tolist(),
            "label": "odd" if g % 2 else "even",
        }
        if g % 7 == 0:
            graph["directed"] = True
        if g % 3 == 0:
            graph["source"] = g / 3
        found.append(graph)
    return found


def written(path: Path, graphs: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(graph) + "\n" for graph in graphs))
    return path
