"""JSON lines files: every key, every message, and graphs that are written and read again."""

from __future__ import annotations

import gzip
import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffpool.data import archive, jsonl
from diffpool.data.categories import Categories
from diffpool.data.jsonl import iter_jsonl, read_jsonl, write_jsonl
from diffpool.data.raw import (
    EDGE_TABLES,
    GRAPH_TABLES,
    NODE_TABLES,
    RawGraphs,
    concatenate,
)
from diffpool.errors import DataError, SettingError


def assert_same(a: RawGraphs, b: RawGraphs) -> None:
    """The same graphs, apart from their name and from categories without rows."""
    assert a.directed == b.directed
    for name in ("sizes", "indptr", "source"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), name)
    for name in (*NODE_TABLES, *EDGE_TABLES, *GRAPH_TABLES):
        one, other = getattr(a, name), getattr(b, name)
        assert (one is None) == (other is None), name
        if isinstance(one, Categories):
            assert one.codes.shape == other.codes.shape, name
            assert one.codes.dtype == other.codes.dtype == np.int32
            for c in range(one.columns):
                assert one.words(c) == other.words(c), name
        elif one is not None:
            assert one.dtype == other.dtype == np.float64
            np.testing.assert_array_equal(one, other, name)


def write(path: Path, *graphs: Any) -> Path:
    lines = [g if isinstance(g, str) else json.dumps(g) for g in graphs]
    path.write_text("\n".join(lines) + "\n")
    return path


PATH = {"nodes": 3, "edges": [[0, 1], [1, 2]]}
FULL = {
    "id": "first",
    "edges": [[0, 1], [1, 2]],
    "node_labels": ["b", 10, True],
    "node_attributes": [[1, 2], [3, 4], [5, 6.5]],
    "edge_labels": [["x", 1], ["y", 2]],
    "edge_attributes": [[0.5], [0.25]],
    "edge_weights": [2, 0.5],
    "label": "yes",
    "target": [1, -2.5],
}


def test_a_hand_written_line_is_read_as_it_is_written(tmp_path: Path) -> None:
    raw = read_jsonl(write(tmp_path / "own.jsonl", FULL))
    assert raw.name == "own"
    assert (len(raw), raw.num_nodes, raw.directed) == (1, 3, False)
    assert raw.source.tolist() == [1, 0, 2, 1]
    assert raw.target.tolist() == [0, 1, 1, 2]
    assert raw.node_labels.names == (("10", "True", "b"),)
    assert raw.node_labels.words() == ["b", "10", "True"]
    assert raw.node_attributes.tolist() == [[1, 2], [3, 4], [5, 6.5]]
    assert raw.edge_labels.words(0) == ["x", "x", "y", "y"]
    assert raw.edge_labels.words(1) == ["1", "1", "2", "2"]
    assert raw.edge_attributes.tolist() == [[0.5], [0.5], [0.25], [0.25]]
    assert raw.edge_weights.tolist() == [2, 2, 0.5, 0.5]
    assert raw.classes.words() == ["yes"]
    assert raw.targets.tolist() == [[1, -2.5]]


def test_an_undirected_edge_is_written_once_or_in_both_directions(tmp_path: Path) -> None:
    once = read_jsonl(write(tmp_path / "a.jsonl", PATH))
    both = {"nodes": 3, "edges": [[0, 1], [1, 0], [2, 1], [1, 2]]}
    assert_same(once, read_jsonl(write(tmp_path / "b.jsonl", both)))


def test_directed_and_undirected_graphs_stay_in_order(tmp_path: Path) -> None:
    graphs = [
        {**PATH, "label": 0, "node_labels": [0, 1, 2]},
        {**PATH, "label": 1, "node_labels": [3, 4, 5], "directed": True},
        {"nodes": 1, "edges": [[0, 0]], "label": 2, "node_labels": [6], "directed": False},
    ]
    raw = read_jsonl(write(tmp_path / "mixed.jsonl", *graphs))
    assert raw.directed
    assert raw.source.tolist() == [1, 0, 2, 1, 3, 4, 6]
    assert raw.target.tolist() == [0, 1, 1, 2, 4, 5, 6]
    assert raw.classes.words() == ["0", "1", "2"]
    assert raw.node_labels.words() == ["0", "1", "2", "3", "4", "5", "6"]


def test_parallel_edges_are_merged_and_their_weights_add_up(tmp_path: Path) -> None:
    graph = {"nodes": 2, "edges": [[0, 1], [0, 1]], "edge_weights": [1, 2], "edge_labels": [7, 8]}
    raw = read_jsonl(write(tmp_path / "a.jsonl", graph))
    assert raw.edge_weights.tolist() == [3, 3]
    assert raw.edge_labels.words() == ["7", "7"]


def test_names_are_ordered_as_numbers_and_then_as_words(tmp_path: Path) -> None:
    labels = [10, "b", 9, "a", -1]
    graph = {"edges": [], "node_labels": labels}
    raw = read_jsonl(write(tmp_path / "a.jsonl", graph))
    assert raw.node_labels.names == (("-1", "9", "10", "a", "b"),)
    assert raw.node_labels.words() == [str(name) for name in labels]


def test_true_and_false_are_classes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {**PATH, "label": True}, {**PATH, "label": False})
    assert read_jsonl(path).classes.words() == ["True", "False"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([7, 3], (3, 7)),
        ([True, False], (False, True)),
        (["b", "a"], ("a", "b")),
        (["7", "3"], ("3", "7")),
    ],
)
def test_classes_keep_their_type_when_read_and_written(
    given: list, expected: tuple, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.jsonl", *({**PATH, "label": label} for label in given))
    raw = read_jsonl(path)
    assert raw.classes.labels() == expected
    assert {type(v) for v in raw.classes.labels()} == {type(v) for v in expected}
    write_jsonl(tmp_path / "b.jsonl", raw)
    again = read_jsonl(tmp_path / "b.jsonl").classes
    assert (again.type, again.labels()) == (raw.classes.type, expected)


def test_graphs_without_label_are_for_prediction(tmp_path: Path) -> None:
    raw = read_jsonl(write(tmp_path / "a.jsonl", PATH, PATH), name="mine")
    assert (raw.name, raw.classes, raw.targets) == ("mine", None, None)


def test_blank_lines_and_a_byte_order_mark_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf\n" + json.dumps(PATH).encode() + b"\r\n\n  \n")
    assert len(read_jsonl(path)) == 1


def test_a_graph_without_edges_or_nodes_has_the_columns_of_the_others(tmp_path: Path) -> None:
    empty = {key: [] for key in ("edges", "node_labels", "node_attributes", "edge_labels")}
    empty |= {"edge_attributes": [], "edge_weights": [], "label": "b", "target": [0, 0]}
    raw = read_jsonl(write(tmp_path / "a.jsonl", empty, FULL, empty))
    assert raw.sizes.tolist() == [0, 3, 0]
    assert raw.edge_labels.columns == 2
    first, second, third = iter_jsonl(tmp_path / "a.jsonl", 1)
    assert third.edge_labels.columns == second.edge_labels.columns == 2
    assert third.node_attributes.shape == (0, 2)
    assert first.edge_attributes.shape == (0, 1)  # the width is not known yet


def test_the_chunks_together_are_the_file(tmp_path: Path) -> None:
    graphs = [{"nodes": n, "edges": [[0, n - 1]], "label": f"c{n}"} for n in range(1, 8)]
    path = write(tmp_path / "a.jsonl", *graphs)
    parts = list(iter_jsonl(path, 3))
    assert [len(part) for part in parts] == [3, 3, 1]
    assert_same(concatenate(parts), read_jsonl(path))
    assert [len(part) for part in iter_jsonl(path, 7)] == [7]


def test_a_chunk_is_returned_before_the_next_is_read(tmp_path: Path) -> None:
    chunks = iter_jsonl(write(tmp_path / "a.jsonl", PATH, PATH, "broken"), 2)
    assert len(next(chunks)) == 2
    with pytest.raises(DataError, match="line 3"):
        next(chunks)


def test_a_chunk_has_at_least_one_graph(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="expected a size of at least 1 graph, got 0"):
        iter_jsonl(tmp_path / "a.jsonl", 0)


DEEP = "[" * 100_000 + "]" * 100_000

# Changes to a second line after FULL (or, as a string, the line itself), and the message.
FAULTS: list[tuple[Any, str]] = [
    ("{", "expected a JSON object, got an error at column 2 .*. Write one graph per line"),
    ("{} {}", "expected a JSON object, got an error at column 4"),
    ("[1]", "expected a JSON object, got \\[1\\]. Write one graph"),
    ("3", "expected a JSON object, got 3"),
    (DEEP, "the lists are nested too deeply"),
    ('{"id": NaN}', "expected finite numbers, got NaN, which is not JSON"),
    ('{"id": -Infinity}', "expected finite numbers, got -Infinity"),
    ('{"id": %s}' % ("9" * 5000), "a number has thousands of digits"),
    ('{"id": 1, "id": 2}', "the key 'id' occurs more than once. Keep only one"),
    ({"edge": []}, "unknown key 'edge'. Did you mean edges\\?"),
    (
        {"color": [1]},
        r"expected a string or a number as 'color', which is .*, got \[1\]. Remove it",
    ),
    ({"LABEL": 1}, "unknown key 'LABEL'. Did you mean label"),
    (
        {"name": "\ud800"},
        "'name': the text contains an unpaired surrogate",
    ),
    ({"edges": None}, "expected edges as pairs .*, got None"),
    ({"edges": [[0, 1], [1]]}, "expected edges as pairs .*, got \\[1\\]"),
    ({"edges": [[0, 1], None]}, "expected edges as pairs .*, got None"),
    ({"edges": [[0, 1], [1, True]]}, "expected edges as pairs .*, got True"),
    ({"edges": [[0, 1], [1, 1.0]]}, "expected edges as pairs .*, got 1.0"),
    (
        {"edges": [[0, 1], [1, 3]]},
        "node 3 does not exist .the graph has 3 nodes, numbered 0 to 2.. Are nodes counted from 1",
    ),
    ({"edges": [[0, 1], [-1, 2]]}, "node -1 does not exist"),
    ({"edges": [[0, 1], [1, 10**30]]}, "node 1000.* does not exist"),
    ({"directed": 1}, "expected directed to be true or false, got 1"),
    (
        {"nodes": 4},
        "expected a list of node_labels, one for each of 4 nodes, got 3. Are some missing",
    ),
    ({"nodes": True}, "expected nodes to be an integer from 0 to 10000000, got True"),
    ({"nodes": -1}, "expected nodes to be an integer from 0 to 10000000, got -1"),
    ({"nodes": 10_000_001}, "expected nodes to be an integer from 0 to 10000000, got 10000001"),
    ({"nodes": 3.0}, "expected nodes to be an integer from 0 to 10000000, got 3.0"),
    (
        {"node_labels": "abc"},
        "expected a list of node_labels, one for each node, got 'abc'",
    ),
    ({"nodes": 3, "node_labels": "abc"}, "expected a list of node_labels, .* 3 nodes, got 'abc'"),
    (
        {"node_labels": [1, 2, 3.5]},
        "expected node_labels to be strings or integers, got 3.5. Write it",
    ),
    ({"node_labels": [1, 2, None]}, "expected node_labels to be strings or integers, got None"),
    ({"node_labels": [1, 2, [3]]}, "expected a list in every row of node_labels, got 1"),
    (
        {"node_labels": [[1], [2], [3, 4]]},
        "expected the same number of node_labels in every row, .*, got 1 and 2",
    ),
    (
        {"node_labels": [[], [], []]},
        "expected the same number of node_labels in every row, at least 1, got 0",
    ),
    ({"node_labels": [[1, 1]] * 3}, "expected 1 columns of node_labels, as in line 1, got 2. Give"),
    (
        {"node_labels": [1, 2, 10**30]},
        "expected node_labels to fit into 64 bits, got 10000.*. Write it as a string",
    ),
    ({"node_labels": [1, 2, "\ud800"]}, "node_labels: the text contains an unpaired surrogate"),
    (
        {"node_attributes": [1, 2, 3]},
        "expected a list in every row of node_attributes, got 1. Write \\[\\[1\\]",
    ),
    (
        {"node_attributes": [[1, 2], [3, 4]]},
        "expected a list of node_attributes, .* 3 nodes, got 2",
    ),
    (
        {"node_attributes": [[1, 2], [3, 4], [5]]},
        "expected the same number of node_attributes in every row, .* 1 and 2",
    ),
    (
        {"node_attributes": [[1], [2], [3]]},
        "expected 2 columns of node_attributes, as in line 1, got 1",
    ),
    (
        {"node_attributes": [[1, 2], [3, 4], [5, "6"]]},
        "expected node_attributes to be numbers, got '6'",
    ),
    (
        {"node_attributes": [[1, 2], [3, 4], [5, True]]},
        "expected node_attributes to be numbers, got True",
    ),
    (
        {"node_attributes": [[1, 2], [3, 4], [5, 10**400]]},
        "node_attributes: a number exceeds 3.4e.38",
    ),
    ({"edge_labels": [["x", 1]]}, "expected a list of edge_labels, one for each of 2 edges, got 1"),
    ({"edge_attributes": [[1], [[]]]}, "expected edge_attributes to be numbers, got \\[\\]"),
    ({"edge_weights": [1]}, "expected a list of edge_weights, one for each of 2 edges, got 1"),
    ({"edge_weights": [1, [2]]}, "expected edge_weights to be numbers, got \\[2\\]"),
    ({"edge_weights": [1, -2]}, "expected edge_weights of at least 0, got -2.0. Shift"),
    ({"edge_weights": [3e38, 3e38]}, "the sum of edge_weights exceeds 3.4e.38"),
    ({"label": 1.5}, "expected label to be strings or integers, got 1.5"),
    ({"label": None}, "expected label to be strings or integers, got None"),
    ({"label": ["a"]}, "expected label to be strings or integers, got \\['a'\\]"),
    ({"target": []}, "expected one or more numbers as target, got \\[\\]. Remove it"),
    ({"target": "1"}, "expected target to be numbers, got '1'"),
    ({"target": [1, True]}, "expected target to be numbers, got True"),
    ({"target": 1}, "expected 2 columns of target, as in line 1, got 1"),
]


@pytest.mark.parametrize(("change", "message"), FAULTS, ids=[m[:50] for _, m in FAULTS])
def test_a_fault_is_an_error_with_the_file_and_the_line(
    tmp_path: Path, change: Any, message: str
) -> None:
    line = change if isinstance(change, str) else {**FULL, **change}
    path = write(tmp_path / "own.jsonl", FULL, line)
    with pytest.raises(DataError, match=f"own.jsonl, line 2: {message}"):
        read_jsonl(path)


@pytest.mark.parametrize("key", jsonl.SHARED)
def test_a_key_is_in_every_graph_or_in_none(tmp_path: Path, key: str) -> None:
    full = {"nodes": 3, **FULL}
    without = {k: v for k, v in full.items() if k != key}
    message = (
        "or in none, but unlike line 1 this line {} it. Add it where it is missing, or remove it"
    )
    with pytest.raises(DataError, match=f"line 2: expected {key} .* {message.format('lacks')}"):
        read_jsonl(write(tmp_path / "a.jsonl", full, without))
    with pytest.raises(DataError, match=f"line 2: expected {key} .* {message.format('has')}"):
        read_jsonl(write(tmp_path / "a.jsonl", without, full))
    with pytest.raises(DataError, match="line 2: expected"):  # also in another chunk
        list(iter_jsonl(tmp_path / "a.jsonl", 1))


def test_edges_and_the_number_of_nodes_are_required(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 1: edges are missing. Write \[\] for"):
        read_jsonl(write(tmp_path / "a.jsonl", {"nodes": 1}))
    with pytest.raises(DataError, match=r"the number of nodes is missing. Add nodes, node_labels"):
        read_jsonl(write(tmp_path / "a.jsonl", {"edges": []}))
    with pytest.raises(DataError, match=r"node 0 does not exist .the graph has no nodes"):
        read_jsonl(write(tmp_path / "a.jsonl", {"nodes": 0, "edges": [[0, 0]]}))


def test_an_empty_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.jsonl: the file is empty"):
        read_jsonl(write(tmp_path / "a.jsonl", "", " "))


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.jsonl.gz"):
        with pytest.raises(DataError, match=f"{name}: the file could not be read .No"):
            read_jsonl(tmp_path / name)
    with pytest.raises(DataError, match="the file could not be read"):
        read_jsonl(tmp_path)


def test_text_that_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"id": "\xff"}')
    with pytest.raises(DataError, match=r"line 1: byte 8 is not UTF-8. Save"):
        read_jsonl(path)


def test_a_damaged_gz_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    whole = gzip.compress(b"\n".join([json.dumps(FULL).encode()] * 99))
    for content in (whole[:-20], b"not gzip", whole[:40] + b"\xff\xff\xff" + whole[43:]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"a\.jsonl\.gz, line \d+: the file is damaged"):
            read_jsonl(path)


def test_the_size_of_lines_and_chunks_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.jsonl", *[{"nodes": 100, "edges": []}] * 3)
    monkeypatch.setattr(jsonl, "MAX_EXTRA_NODES", 200)
    with pytest.raises(
        DataError, match="line 3: more than 200 nodes have neither edges nor labels"
    ):
        read_jsonl(path)
    assert len(list(iter_jsonl(path, 2))) == 2
    monkeypatch.setattr(jsonl, "MAX_BYTES", 20)
    with pytest.raises(
        DataError, match=r"line 1: expected at most 20 bytes, got more. Write one graph"
    ):
        read_jsonl(path)


@pytest.mark.parametrize(
    "text", [b"\n", b'{"nodes": 1, "edges": []}\n', b"[[0, 1], "], ids=["blank", "graphs", "line"]
)
def test_a_gzip_file_that_unpacks_to_too_many_bytes_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes
) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(text * 100_000))
    monkeypatch.setattr(archive, "SPARE_BYTES", 1000)
    monkeypatch.setattr(archive, "MAX_RATIO", 2)
    read = 0
    whole = gzip.GzipFile.readline

    def counted(file: gzip.GzipFile, size: int = -1) -> bytes:
        nonlocal read
        line = whole(file, size)
        read += len(line)
        return line

    monkeypatch.setattr(gzip.GzipFile, "readline", counted)
    limit = 2 * path.stat().st_size + 1000
    with pytest.raises(DataError, match=f"expected at most {limit:,} unpacked bytes, got more"):
        read_jsonl(path)
    assert read <= limit + len(text) + 1  # no more is unpacked than needed to see it


def test_an_ordinary_gzip_file_is_far_below_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"nodes": 3, "edges": [[0, 1], [1, 2]]}\n' * 20_000))
    assert len(read_jsonl(path)) == 20_000


def test_a_long_name_is_shortened_in_messages(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"x" * 100_000: 1})
    with pytest.raises(DataError) as error:
        read_jsonl(path)
    assert len(str(error.value)) < 400


# --- writing

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=3) | st.integers(-3, 20).map(str)
numbers = st.floats(-1e6, 1e6) | st.sampled_from([1e-300, 1e30])


@st.composite
def raw_graphs(draw: st.DrawFn) -> RawGraphs:
    """Graphs with any of the tables; each category has a row, as in a file."""
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    starts = np.cumsum([0, *sizes])
    pairs = [(0, 0)][:0]
    for start, n in zip(starts, sizes, strict=False):
        node = st.integers(0, max(n - 1, 0)).map(lambda i, start=start: int(start) + i)
        pairs += draw(st.lists(st.tuples(node, node), max_size=6 if n else 0))
    source, target = np.array(pairs, np.int64).reshape(-1, 2).T
    rows = {"node": sum(sizes), "edge": len(pairs)}
    tables: dict[str, Any] = {}
    for what in ("node", "edge"):
        # the columns of a table without rows are unknown
        width = draw(st.integers(1, 3)) if rows[what] else 1
        if draw(st.booleans()):
            row = st.lists(numbers, min_size=width, max_size=width)
            table = draw(st.lists(row, min_size=rows[what], max_size=rows[what]))
            tables[f"{what}_attributes"] = np.array(table, np.float64).reshape(rows[what], width)
        if draw(st.booleans()):
            row = st.lists(words, min_size=width, max_size=width)
            table = draw(st.lists(row, min_size=rows[what], max_size=rows[what]))
            cells = np.array(table, dtype=object).reshape(rows[what], width)
            tables[f"{what}_labels"] = Categories.from_values(cells.astype("U10"))
    weight = st.floats(0, 100)
    if draw(st.booleans()):
        weights = draw(st.lists(weight, min_size=len(pairs), max_size=len(pairs)))
        tables["edge_weights"] = np.array(weights, np.float64)
    count = len(sizes)
    if draw(st.booleans()):
        names = draw(st.lists(words, min_size=count, max_size=count))
        tables["classes"] = Categories.from_values(np.array(names, "U10"))
    if draw(st.booleans()):
        tables["targets"] = np.array(draw(st.lists(numbers, min_size=count, max_size=count)))[
            :, None
        ]
    return RawGraphs.from_edges("r", sizes, source, target, one_way=draw(st.booleans()), **tables)


@given(raw=raw_graphs(), suffix=st.sampled_from(["jsonl", "jsonl.gz"]))
@settings(max_examples=150)
def test_written_graphs_are_read_back_unchanged(
    tmp_path_factory: pytest.TempPathFactory, raw: RawGraphs, suffix: str
) -> None:
    path = tmp_path_factory.getbasetemp() / f"round.{suffix}"
    write_jsonl(path, raw)
    assert_same(read_jsonl(path), raw)
    assert_same(concatenate(list(iter_jsonl(path, 2))), raw) if raw.num_edges else None
    first = path.read_bytes()
    write_jsonl(path, read_jsonl(path))
    assert path.read_bytes() == first


def test_an_undirected_edge_without_labels_or_attributes_is_written_once(tmp_path: Path) -> None:
    raw = read_jsonl(write(tmp_path / "a.jsonl", {**PATH, "label": 3, "target": 1.5}))
    write_jsonl(tmp_path / "b.jsonl", raw)
    assert json.loads((tmp_path / "b.jsonl").read_text()) == {**PATH, "label": 3, "target": 1.5}


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    raw = read_jsonl(write(path, PATH))
    before = path.read_text()
    broken = replace(raw, node_attributes=np.array([[1.0], [np.nan], [2.0]]))
    with pytest.raises(DataError, match="graph 0: expected node_attributes from"):
        write_jsonl(path, broken)
    half = replace(raw, classes=Categories(np.zeros((1, 1), np.int32), (("\ud800",),)))
    with pytest.raises(DataError, match="expected finite numbers and valid text"):
        write_jsonl(path, half)
    assert path.read_text() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.jsonl"]


def test_a_folder_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    raw = read_jsonl(write(tmp_path / "a.jsonl", PATH))
    with pytest.raises(DataError, match=r"the file could not be written .No such file.*. Choose"):
        write_jsonl(tmp_path / "none" / "a.jsonl", raw)


@pytest.mark.filterwarnings("error")
def test_damaged_bytes_raise_nothing_but_an_error_with_file_and_line(tmp_path: Path) -> None:
    rng = random.Random(0)
    path = tmp_path / "a.jsonl"
    good = "\n".join(json.dumps(g) for g in (FULL, {**FULL, "directed": True}, FULL)).encode()
    tokens = [
        b"[",
        b"]",
        b"{",
        b"}",
        b'"',
        b"null",
        b"true",
        b"1e999",
        b"-",
        b"99999999999",
        b",",
        b"0",
    ]
    messages = []
    for _ in range(1500):
        data = bytearray(good)
        for _ in range(rng.randint(1, 3)):
            start = rng.randrange(len(data))
            data[start : start + rng.randint(0, 3)] = rng.choice([*tokens, rng.randbytes(1)])
        path.write_bytes(data)
        try:
            read_jsonl(path)
        except DataError as error:
            messages.append(str(error))
    assert len(messages) > 1000
    for message in messages:
        assert re.search(r"a\.jsonl, line \d: .*[.?]$", message), message


@pytest.mark.parametrize(("first", "second"), [(1, "1"), (True, "true"), (True, 1), ("1", 1)])
def test_labels_of_mixed_types_are_an_error_that_names_both_lines(
    tmp_path: Path, first: Any, second: Any
) -> None:
    graphs = [{"nodes": 1, "edges": [], "label": label} for label in (first, first, second)]
    path = write(tmp_path / "a.jsonl", *graphs)
    message = r"a\.jsonl, line 3: expected label to be .*, as in line 1, got .*Use one type"
    with pytest.raises(DataError, match=message):
        read_jsonl(path)
    with pytest.raises(DataError, match=message):
        list(iter_jsonl(path, 1))
