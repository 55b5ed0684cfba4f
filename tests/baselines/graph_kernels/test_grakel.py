"""Comparison with GraKeL on ENZYMES and PROTEINS.

WL and WL optimal assignment are equal. GraKeL's shortest paths are ordered pairs of nodes: (a, b, d) and (b, a, d) are
two features, and (a, a, d) counts twice. Ours are unordered: the kernels are equal after multiplying our counts by √2
for two different labels and by 2 for equal labels.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffpool.baselines.graph_kernels import (
    ShortestPath,
    WeisfeilerLehman,
    WeisfeilerLehmanAssignment,
)
from diffpool.baselines.graph_kernels.labels import LABEL_BITS
from diffpool.data import RawGraphs
from diffpool.data.tu_collection import load_raw

grakel = pytest.importorskip("grakel", reason="GraKeL is not installed")

FEW = 60  # graphs for slow kernels


@pytest.fixture(params=["ENZYMES", "PROTEINS"])
def raw(request: pytest.FixtureRequest) -> RawGraphs:
    folder = os.environ.get("DIFFPOOL_DATA")
    if not folder or not (Path(folder) / f"{request.param}.zip").is_file():
        pytest.skip(f"DIFFPOOL_DATA names no folder with {request.param}.zip")
    return load_raw(request.param, folder)


def as_grakel(raw: RawGraphs) -> list[Any]:
    """[edges by node, labels by node] for each graph, including nodes without edges."""
    assert raw.node_labels is not None
    label, graphs = raw.node_labels.codes[:, 0].tolist(), []
    for start, n in zip(raw.starts.tolist(), raw.sizes.tolist(), strict=True):
        edges = {
            i: {
                int(j) - start: 1.0
                for j in raw.source[raw.indptr[start + i] : raw.indptr[start + i + 1]]
            }
            for i in range(n)
        }
        graphs.append([edges, {i: label[start + i] for i in range(n)}])
    return graphs


@pytest.mark.parametrize("h", [1, 5])
def test_wl_equals_that_of_grakel(raw: RawGraphs, h: int) -> None:
    theirs = grakel.WeisfeilerLehman(n_iter=h, normalize=True).fit_transform(as_grakel(raw))
    ours = WeisfeilerLehman(h).fit_transform(raw)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_wl_assignment_equals_that_of_grakel(raw: RawGraphs) -> None:
    raw = raw[: 2 * FEW]
    theirs = grakel.WeisfeilerLehmanOptimalAssignment(n_iter=5, normalize=True)
    ours = WeisfeilerLehmanAssignment(5).fit_transform(raw)
    np.testing.assert_allclose(ours, theirs.fit_transform(as_grakel(raw)), rtol=1e-12)


def test_shortest_path_with_ordered_pairs_equals_that_of_grakel(raw: RawGraphs) -> None:
    raw = raw[:FEW]
    theirs = grakel.ShortestPath(normalize=True).fit_transform(as_grakel(raw))
    (level,) = ShortestPath().fit(raw).levels_
    label = (1 << LABEL_BITS) - 1
    a, b = level.known >> LABEL_BITS & label, level.known & label
    x = level.features.toarray() * np.where(a == b, 2, np.sqrt(2))
    norm = np.linalg.norm(x, axis=1)
    defined = np.flatnonzero(norm > 0)  # GraKeL divides 0 by 0 for a graph without edges
    ours = (x @ x.T)[np.ix_(defined, defined)] / np.outer(norm[defined], norm[defined])
    np.testing.assert_allclose(ours, theirs[np.ix_(defined, defined)], rtol=1e-12)


def test_shortest_path_without_labels_equals_that_of_grakel(raw: RawGraphs) -> None:
    """All labels are equal then, so the order of a pair does not matter."""
    raw = raw[:FEW]
    theirs = grakel.ShortestPath(normalize=True, with_labels=False).fit_transform(as_grakel(raw))
    ours = ShortestPath(labels="none").fit_transform(raw)
    defined = np.ix_(*[np.flatnonzero(np.diag(ours))] * 2)
    np.testing.assert_allclose(ours[defined], theirs[defined], rtol=1e-12)
