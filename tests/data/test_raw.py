"""Raw graphs: edges are merged and sorted with their tables, regardless of their order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffpool.data import Categories, ColumnNames, RawGraphs
from diffpool.data.raw import concatenate
from diffpool.errors import DataError


@st.composite
def edges(draw: st.DrawFn) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Sizes, sources and targets of a few graphs, with duplicates and self-loops, in any order or sorted by source."""
    sizes = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    starts = np.cumsum([0, *sizes])
    pairs: list[tuple[int, int]] = []
    for g, n in enumerate(sizes):
        if n:
            node = st.integers(0, n - 1)
            found = draw(st.lists(st.tuples(node, node), max_size=12))
            pairs += [(starts[g] + a, starts[g] + b) for a, b in found]
    pairs = sorted(pairs) if draw(st.booleans()) else draw(st.permutations(pairs))
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return sizes, both[:, 0], both[:, 1]


def pairs_of(raw: RawGraphs) -> list[tuple[int, int]]:
    return list(zip(raw.target.tolist(), raw.source.tolist(), strict=True))


@given(edges())
@settings(max_examples=150, deadline=None)
def test_edges_are_sorted_and_merged_with_the_first_label_and_the_sum_of_weights(
    given_edges: tuple[list[int], np.ndarray, np.ndarray],
) -> None:
    sizes, source, target = given_edges
    number = np.arange(len(source))
    raw = RawGraphs.from_edges(
        "r",
        sizes,
        source,
        target,
        edge_weights=number + 1.0,
        edge_labels=Categories.from_values(number)
        if len(number)
        else Categories(np.empty((0, 1), np.int32), ((),)),
        edge_attributes=number[:, None] * 1.0,
    )
    expected: dict[tuple[int, int], list[int]] = {}
    for e, pair in enumerate(zip(target.tolist(), source.tolist(), strict=True)):
        expected.setdefault(pair, []).append(e)
    assert pairs_of(raw) == sorted(expected)
    for i, pair in enumerate(sorted(expected)):
        first = expected[pair][0]
        assert raw.edge_weights[i] == sum(e + 1 for e in expected[pair])
        assert raw.edge_labels.words()[i] == str(first)
        assert raw.edge_attributes[i, 0] == first
    assert raw.directed == any((s, t) not in expected for t, s in expected)
    assert raw.edge_counts.sum() == raw.num_edges


@given(edges())
@settings(max_examples=150, deadline=None)
def test_the_missing_reverse_of_an_edge_is_added_with_its_features(
    given_edges: tuple[list[int], np.ndarray, np.ndarray],
) -> None:
    sizes, source, target = given_edges
    number = np.arange(len(source), dtype=float)
    raw = RawGraphs.from_edges("r", sizes, source, target, edge_attributes=number[:, None])
    both = raw.undirected()
    assert not both.directed
    before = dict(zip(pairs_of(raw), raw.edge_attributes[:, 0], strict=True))
    after = dict(zip(pairs_of(both), both.edge_attributes[:, 0], strict=True))
    assert list(after) == sorted({*before, *((s, t) for t, s in before)})
    for (t, s), value in after.items():
        assert value == (before[t, s] if (t, s) in before else before[s, t])
    one_way = RawGraphs.from_edges(
        "r", sizes, source, target, one_way=True, edge_attributes=number[:, None]
    )
    assert pairs_of(one_way) == pairs_of(both)


@given(edges(), st.data())
@settings(max_examples=100, deadline=None)
def test_selected_graphs_can_be_joined_again(
    given_edges: tuple[list[int], np.ndarray, np.ndarray], data: st.DataObject
) -> None:
    sizes, source, target = given_edges
    total = sum(sizes)
    raw = RawGraphs.from_edges(
        "r",
        sizes,
        source,
        target,
        node_attributes=np.arange(total)[:, None] * 1.0,
        node_labels=Categories(
            np.arange(total, dtype=np.int32)[:, None], (tuple(map(str, range(total))),)
        ),
        classes=Categories.from_values(np.arange(len(sizes))),
        edge_weights=np.arange(len(source)) + 1.0,
    )
    cut = data.draw(st.integers(0, len(sizes)))
    parts = [raw[:cut], raw[cut:]] if 0 < cut < len(sizes) else [raw[g] for g in range(len(raw))]
    again = concatenate(parts)
    for field in ("sizes", "indptr", "source", "node_attributes", "edge_weights"):
        assert np.array_equal(getattr(again, field), getattr(raw, field)), field
    assert again.node_labels.words() == raw.node_labels.words()
    assert again.classes.words() == raw.classes.words()


def test_columns_follow_their_graphs() -> None:
    def part(count: int, **columns: list) -> RawGraphs:
        empty = np.empty(0, np.int64)
        return RawGraphs.from_edges("a", [1] * count, empty, empty, columns=columns)

    joined = concatenate([part(2, id=["a", "b"]), part(1, note=[3])])
    assert joined.columns == {"id": ["a", "b", None], "note": [None, None, 3]}
    assert joined[[2, 0]].columns == {"id": [None, "a"], "note": [3, None]}


def test_categories_of_parts_are_merged_by_name_in_numerical_order() -> None:
    def part(labels: list[Any]) -> RawGraphs:
        return RawGraphs.from_edges(
            "p",
            [len(labels)],
            np.empty(0),
            np.empty(0),
            node_labels=Categories.from_values(np.array(labels)),
        )

    joined = concatenate([part([10, 2]), part([-1, 2]), part([7, 10])])
    assert joined.node_labels.names == (("-1", "2", "7", "10"),)
    assert joined.node_labels.words() == ["10", "2", "-1", "2", "7", "10"]


def test_a_part_without_rows_may_have_any_number_of_columns() -> None:
    edgeless = RawGraphs.from_edges(
        "p", [1], np.empty(0), np.empty(0), edge_attributes=np.empty((0, 1))
    )
    pair = RawGraphs.from_edges(
        "p", [2], np.array([0]), np.array([1]), edge_attributes=np.array([[1.0, 2.0]])
    )
    assert concatenate([edgeless, pair]).edge_attributes.tolist() == [[1.0, 2.0]]
    assert concatenate([edgeless, edgeless]).edge_attributes.shape == (0, 1)


def test_names_that_are_not_finite_numbers_are_sorted_as_words() -> None:
    names = ["nan", "2", "x", "inf", "10", "1"]
    for order in (names, names[::-1]):
        parts = [
            RawGraphs.from_edges(
                "p",
                [1],
                np.empty(0),
                np.empty(0),
                node_labels=Categories.from_values(np.array([n])),
            )
            for n in order
        ]
        assert concatenate(parts).node_labels.names == (("1", "2", "10", "inf", "nan", "x"),)


def test_tables_of_the_wrong_size_are_an_error() -> None:
    def make(**tables: Any) -> RawGraphs:
        return RawGraphs.from_edges("p", [2], np.array([0, 1]), np.array([1, 0]), **tables)

    with pytest.raises(DataError, match="one row of node_attributes for each of 2 nodes, got 3"):
        make(node_attributes=np.zeros((3, 1)))
    with pytest.raises(DataError, match="one row of edge_attributes for each of 2 edges, got 1"):
        make(edge_attributes=np.zeros((1, 1)))
    with pytest.raises(DataError, match="one row of classes for each of 1 graphs, got 2"):
        make(classes=Categories.from_values(np.array([0, 1])))
    with pytest.raises(DataError, match="expected node numbers from 0 to 1, got 2"):
        RawGraphs.from_edges("p", [2], np.array([0]), np.array([2]))
    with pytest.raises(DataError, match="in every graph or in none"):
        concatenate([make(), make(node_attributes=np.zeros((2, 1)))])
    with pytest.raises(DataError, match="the same columns of node_attributes"):
        concatenate(
            [make(node_attributes=np.zeros((2, 2))), make(node_attributes=np.zeros((2, 1)))]
        )
    with pytest.raises(DataError, match="at least one graph"):
        concatenate([])


def test_repr_lists_the_tables() -> None:
    raw = RawGraphs.from_edges(
        "p", [2, 1], np.array([0]), np.array([1]), node_attributes=np.zeros((3, 1)), one_way=True
    )
    assert repr(raw) == "RawGraphs(p: 2 graphs, 3 nodes, 2 directed edges, node_attributes)"


# --- numbers


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3.5e38, -1e300])
@pytest.mark.parametrize("field", ["node_attributes", "edge_attributes", "targets"])
def test_a_number_beyond_float32_is_an_error_that_names_the_graph(field: str, value: float) -> None:
    rows = {"node_attributes": 6, "edge_attributes": 3, "targets": 3}[field]
    table = np.ones((rows, 2))
    table[-1, 1] = value
    with pytest.raises(DataError, match=f"graph 2: expected {field} from -3.4e.38 to 3.4e.38"):
        RawGraphs.from_edges("toy", [2, 2, 2], [0, 2, 4], [1, 3, 5], **{field: table})


def test_weights_of_parallel_edges_may_not_add_up_to_more_than_float32() -> None:
    with pytest.raises(DataError, match=r"graph 1: expected edge_weights .* got 6e.38"):
        RawGraphs.from_edges("toy", [2, 2], [0, 2, 2], [1, 3, 3], edge_weights=[1, 3e38, 3e38])


def test_tables_may_be_lists() -> None:
    raw = RawGraphs.from_edges(
        "toy", [2], [0, 1], [1, 0], edge_weights=[1, 2.5], node_attributes=[[1, 2], [3, 4]]
    )
    assert raw.edge_weights is not None
    assert raw.edge_weights.tolist() == [2.5, 1]  # sorted by target
    assert raw.node_attributes is not None
    assert raw.node_attributes.dtype == np.float64


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            {"edge_weights": [[1], [2]]},
            r"expected edge_weights as an array \[edges\], got \[2, 1\]",
        ),
        ({"node_attributes": [1, 2]}, r"expected node_attributes as an array \[rows, columns\]"),
        ({"node_attributes": [[1], [1, 2]]}, "expected node_attributes as rows of numbers"),
        ({"node_attributes": [["a"], ["b"]]}, "expected node_attributes as rows of numbers"),
        ({"targets": np.ma.masked_array([[1.0]], [[True]])}, "expected targets without masked"),
    ],
)
def test_a_table_of_another_shape_or_type_is_an_error(tables: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        RawGraphs.from_edges("toy", [2], [0, 1], [1, 0], **tables)


def test_graphs_with_other_names_of_columns_are_not_joined() -> None:
    names = [ColumnNames(node_attributes=("a", "b")), ColumnNames(node_attributes=("b", "a")), None]
    table = {"node_attributes": np.ones((1, 2))}
    none = np.empty(0, np.int64)
    first, other, unnamed = (
        RawGraphs.from_edges("g", [1], none, none, **table, names=own) for own in names
    )
    assert concatenate([first, first]).names == names[0]
    assert concatenate([first, unnamed]).names is None
    with pytest.raises(DataError, match=r"columns of node_attributes .* got a, b and b, a"):
        concatenate([first, other])
    empty = RawGraphs.from_edges("g", [0], none, none, names=ColumnNames())
    assert concatenate([first[:0], first]).names == names[0]
    assert empty.names == ColumnNames()


def test_classes_of_different_types_are_not_joined() -> None:
    none = np.empty(0, np.int64)
    words, numbers = (
        RawGraphs.from_edges("g", [1], none, none, classes=Categories.from_values(np.array([own])))
        for own in ("1", 1)
    )
    with pytest.raises(DataError, match="expected classes of one type in every graph, got int and"):
        concatenate([numbers, words])
