"""A generated data set with known dense and sparse parts: cliques, and paths, cycles or trees.

Every graph has two cliques and two sparse parts, joined in a ring by single edges. The class of a graph is the kind of
its sparse parts: paths, cycles or binary trees. The features of a node are its degree and random numbers, so all nodes
differ.
"""

from __future__ import annotations

import numpy as np
import torch

from diffpool.data import GraphDataset
from diffpool.graphs import SparseGraphs

KINDS = ("path", "cycle", "tree")
CLIQUES, PARTS = (6, 13), (8, 17)  # sizes; the upper end is excluded
CODE, SCALE = 4, 0.3  # number of random features, standard deviation


def cliques(num_graphs: int = 600, seed: int = 0) -> GraphDataset:
    """Generate the data set from a seed; the planted communities are the parts."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(num_graphs) % len(KINDS))
    sizes, ends, parts, first = [], [], [], 0
    for kind in y.tolist():
        starts, start = [], first
        for number in range(4):
            dense = number % 2 == 0
            size = int(rng.integers(*(CLIQUES if dense else PARTS)))
            ends.append(start + (_clique(size) if dense else _sparse(KINDS[kind], size)))
            parts.append(np.full(size, number))
            starts.append(start)
            start += size
        between = [(starts[i], starts[(i + 1) % 4] + 1) for i in range(4)]
        ends.append(np.array(between).T)
        sizes.append(start - first)
        first = start
    source, target = np.concatenate(ends, 1)
    degree = np.bincount(np.concatenate([source, target]), minlength=first)
    x = SCALE * np.concatenate([degree[:, None], rng.normal(size=(first, CODE))], 1)
    graphs = SparseGraphs.from_edges(
        np.array(sizes), np.concatenate([source, target]), np.concatenate([target, source])
    )
    return GraphDataset(
        name="cliques",
        graphs=graphs,
        x=torch.from_numpy(x).float(),
        y=torch.from_numpy(y.astype(np.int64)),
        class_names=KINDS,
        features=f"degree, random numbers ({CODE})",
        communities=torch.from_numpy(np.concatenate(parts)),
    )


def _clique(size: int) -> np.ndarray:
    """The edges of a clique: [2, E]."""
    return np.stack(np.triu_indices(size, 1))


def _sparse(kind: str, size: int) -> np.ndarray:
    """The edges of a path, a cycle or a binary tree: [2, E]."""
    child = np.arange(1, size)
    parent = (child - 1) // 2 if kind == "tree" else child - 1
    edges = np.stack([parent, child])
    return np.concatenate([edges, [[size - 1], [0]]], 1) if kind == "cycle" else edges
