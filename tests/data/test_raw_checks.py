"""Graphs made by hand are checked wherever they enter: in `GraphDataset.from_raw`, `as_raw` and `write_jsonl`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffpool.data import Categories, GraphDataset, RawGraphs, as_raw
from diffpool.data.jsonl import write_jsonl
from diffpool.data.raw_checks import check_raw
from diffpool.errors import DataError

# An edge between nodes 0 and 1, and one between nodes 3 and 4.
FIELDS: dict[str, Any] = {
    "sizes": np.array([3, 3]),
    "indptr": np.array([0, 1, 2, 2, 3, 4, 4]),
    "source": np.array([1, 0, 4, 3]),
    "classes": Categories(np.array([[0], [1]], np.int32), (("a", "b"),)),
    "node_labels": Categories(np.zeros((6, 1), np.int32), (("C",),)),
    "node_attributes": np.ones((6, 2)),
    "edge_weights": np.ones(4),
}


def codes(*values: int) -> Categories:
    return Categories(np.array(values, np.int32)[:, None], (("a", "b"),))


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "a list": ({"sizes": [3, 3]}, "sizes as an array of integers"),
    "floats": ({"source": np.array([1.0, 0, 4, 3])}, "source as an array of integers"),
    "a negative size": ({"sizes": np.array([-3, 9])}, "sizes of at least 0, got -3"),
    "too many nodes": ({"sizes": np.array([3, 4])}, "for each of 7 nodes and one more, got 7"),
    "a short indptr": ({"indptr": np.array([0, 1, 2, 4])}, "for each of 6 nodes and one more"),
    "an indptr too far": ({"indptr": np.array([0, 1, 2, 2, 3, 4, 9])}, "indptr from 0 to"),
    "an indptr that falls": ({"indptr": np.array([0, 4, 2, 2, 3, 4, 4])}, "ascending order"),
    "no such node": ({"source": np.array([1, 0, 10**9, 3])}, "edge 2 from node 1000000000"),
    "a negative node": ({"source": np.array([1, 0, -1, 3])}, "edge 2 from node -1"),
    "two graphs": ({"source": np.array([1, 0, 0, 3])}, "nodes of one graph, got edge 2 from"),
    "an edge twice": (
        {"indptr": np.array([0, 2, 2, 2, 3, 4, 4]), "source": np.array([1, 1, 4, 3])},
        "without duplicates, got edge 1",
    ),
    "no reverse": (
        {"indptr": np.array([0, 1, 1, 2, 3, 4, 4]), "source": np.array([1, 1, 4, 3])},
        "directed=True",
    ),
    "no such class": ({"classes": codes(0, 7)}, "codes of classes from 0 to 1, .* got 7"),
    "a negative class": ({"classes": codes(0, -1)}, "codes of classes from 0 to 1, .* got -1"),
    "a class too few": ({"classes": codes(0)}, "classes for each of 2 graphs, got 1"),
    "no such label": ({"node_labels": codes(0, 0, 0, 0, 0, 2)}, "codes of node_labels"),
    "a label too few": ({"node_labels": codes(0)}, "node_labels for each of 6 nodes, got 1"),
    "NaN": ({"node_attributes": np.full((6, 1), np.nan)}, "graph 0: expected node_attributes"),
    "an attribute too few": ({"node_attributes": np.ones((5, 1))}, "6 nodes, got 5"),
    "flat attributes": ({"node_attributes": np.ones(6)}, "numbers with 2 dimensions"),
    "a negative weight": ({"edge_weights": np.array([1, -1, 1, 1.0])}, "weights of at least 0"),
    "a weight too few": ({"edge_weights": np.ones(3)}, "one weight for each of 4 edges, got 3"),
}

DOORS: dict[str, Callable[[RawGraphs, Path], Any]] = {
    "from_raw": lambda raw, folder: GraphDataset.from_raw(raw),
    "as_raw": lambda raw, folder: as_raw(raw),
    "a list": lambda raw, folder: as_raw([raw]),
    "write_jsonl": lambda raw, folder: write_jsonl(folder / "g.jsonl", raw),
}


def made(**changes: Any) -> RawGraphs:
    return RawGraphs("made", **{**FIELDS, **changes})


@pytest.mark.parametrize(("changes", "message"), FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_a_fault_is_an_error_where_the_graphs_enter(
    door: Callable[..., Any], changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        door(made(**changes), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_correct_graphs_are_accepted(door: Callable[..., Any], tmp_path: Path) -> None:
    door(made(), tmp_path)
    door(made(source=np.array([1, 0, 4, 3], np.uint64)), tmp_path)


def test_graphs_without_nodes_and_no_graphs_are_correct() -> None:
    none = np.zeros(0, np.int64)
    for sizes in (none, np.array([0, 0])):
        check_raw(RawGraphs("empty", sizes, np.array([0]), none))


def test_some_graphs_of_directed_graphs_are_correct_even_if_their_edges_have_a_reverse() -> None:
    raw = RawGraphs.from_edges("two", [2, 2], np.array([0, 1, 2]), np.array([1, 0, 3]))
    assert raw.directed
    check_raw(raw[:1])
