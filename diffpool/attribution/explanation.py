"""The explanation of one graph: scores of the nodes and edges of every level, as NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class LevelScores:
    """The scores of one level: of the input nodes at level 0, of clusters at the others."""

    nodes: np.ndarray  # [n] float64: one score for each node of this level
    edges: np.ndarray  # [2, E] int64: source and target; in undirected graphs, each pair once
    edge_scores: np.ndarray  # [E] float64
    input_nodes: (
        np.ndarray
    )  # [nodes of the graph] float64: the scores of this level, spread to the input nodes
    members: (
        np.ndarray
    )  # [nodes of the graph] int64: the node of this level that each input node belongs to
    total: float | None = (
        None  # what all scores of this level add up to; None if the method does not promise it
    )
    gap: float = 0.0  # sum of the scores − total

    @property
    def shares(self) -> np.ndarray:
        """The share of each node of this level in the prediction: score / Σ|score|, [n]."""
        total = np.abs(self.nodes).sum()
        return self.nodes / total if total > 0 else np.zeros_like(self.nodes)

    @property
    def used(self) -> np.ndarray:
        """[n] bool: which nodes of this level are the first choice of some input node."""
        return np.isin(np.arange(len(self.nodes)), self.members)

    def to_json(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "nodes": _rounded(self.nodes),
            "shares": _rounded(self.shares),
            "edges": self.edges.T.tolist(),
            "edge_scores": _rounded(self.edge_scores),
            "input_nodes": _rounded(self.input_nodes),
            "members": self.members.tolist(),
        }
        if self.total is not None:
            facts |= {"total": float(f"{self.total:.6g}"), "gap": float(f"{self.gap:.3g}")}
        return facts


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why a model gives a graph its output for a class or target."""

    graph: int  # counted from 0
    method: str
    target: int  # the explained class or target: a column of the model's outputs
    target_name: Any  # of the class; None for regression
    output: float  # the probability of the class, or the predicted target
    levels: tuple[LevelScores, ...]  # starting with the input

    def to_json(self) -> dict[str, Any]:
        facts = {"graph": self.graph, "method": self.method}
        if self.target_name is not None:
            facts["class"] = self.target_name
            facts["probability"] = float(f"{self.output:.6g}")
        else:
            facts["target"] = self.target
            facts["prediction"] = float(f"{self.output:.6g}")
        return {**facts, "levels": [level.to_json() for level in self.levels]}


def first_choices(assignments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The cluster of each input node after each pooling, [n]: the first choice of its cluster before."""
    found: list[np.ndarray] = []
    for s in assignments:
        # a graph without nodes has no columns
        first = s.argmax(1) if s.size else np.zeros(len(s), np.int64)
        found.append(first[found[-1]] if found else first)
    return found


def spread(scores: np.ndarray, s: np.ndarray, members: np.ndarray, how: str) -> np.ndarray:
    """The scores of clusters [k] divided among the nodes: [n].

    `soft`: a node gets the part of each cluster that the cluster takes from it, S_ic / Σ_j S_jc, by the assignment s
    [n, k]. `first`: the score of a cluster is divided equally among its members, and is lost if there are none;
    `members` [n] is the cluster of each node.
    """
    if how == "first":
        s = (members[:, None] == np.arange(s.shape[1])).astype(np.float64)
    mass = s.sum(0)
    return s @ (scores / np.where(mass > 0, mass, 1.0))


def _rounded(values: np.ndarray) -> list[float]:
    return [float(f"{value:.6g}") for value in values]
