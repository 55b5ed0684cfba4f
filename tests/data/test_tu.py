"""The TU text format: hand-written files, faults, and the real data sets if they are available."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffpool.data.categories import Categories
from diffpool.data.raw import RawGraphs
from diffpool.data.tu import read_tu
from diffpool.errors import DataError

# Edge cases: a path of three nodes with a self-loop at its end, a single node, and a pair of nodes with an
# isolated node. One edge is given twice, and one in one direction only.
FILES = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n3, 3\n1, 2\n5,6\n",
    "graph_indicator": "1\n1\n1\n2\n3\n3\n3\n",
    "graph_labels": "2\n-1\n2\n",
    "graph_attributes": "0.5, 1\n1e3, 2\n-1, 3\n",
    "node_labels": "4, 1\n9, 1\n4, 1\n0, 1\n9, 10\n9, 2\n0, 1\n",
    "node_attributes": "0.5, 1\n1.5, 2\n-2.5, 3e1\n0, 0\n1, 1\n2, 2\n3, -4\n",
    "edge_labels": "0\n0\n5\n5\n-3\n7\n7\n",
    "edge_attributes": "0.1\n0.2\n0.3\n0.4\n0.5\n0.6\n0.7\n",
}
ADJACENCY = [  # [target, source]
    [0, 1, 0, 0, 0, 0, 0],
    [1, 0, 1, 0, 0, 0, 0],
    [0, 1, 1, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 1, 0, 0],
    [0, 0, 0, 0, 0, 0, 0],
]
PLAIN = {part: None for part in FILES if part not in ("A", "graph_indicator", "graph_labels")}
Changes = str | bytes | None


def write(folder: Path, place: str = "TOY", compression: int = 0, **changes: Changes) -> Path:
    """Write the files, with changes (None: leave the file out), to a folder or a zip file."""
    files = {part: text for part, text in {**FILES, **changes}.items() if text is not None}
    content = {f"TOY_{part}.txt": text for part, text in files.items()}
    if place.endswith(".zip"):
        with zipfile.ZipFile(folder / place, "w", compression) as archive:
            for file, text in content.items():
                archive.writestr(f"TOY/{file}", text)
    else:
        (folder / place).mkdir(parents=True)
        for file, text in content.items():
            data = text if isinstance(text, bytes) else text.encode("latin-1")
            (folder / place / file).write_bytes(data)
    return folder / place


def read(folder: Path, **changes: Changes) -> RawGraphs:
    return read_tu(write(folder, **changes), "TOY")


def dense(raw: RawGraphs) -> np.ndarray:
    """[target, source]"""
    matrix = np.zeros((raw.num_nodes, raw.num_nodes), np.int64)
    np.add.at(matrix, (raw.target, raw.source), 1)
    return matrix


def words(labels: Categories | None) -> list[list[str]]:
    assert labels is not None
    return [labels.words(column) for column in range(labels.columns)]


PLACES = {
    "the files in a folder": "TOY",
    "a folder as PyTorch Geometric leaves it": "TOY/raw",
    "a folder that a zip file was unpacked into": "TOY/TOY",
    "both": "TOY/TOY/raw",
    "a zip file": "TOY.zip",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_hand_written_data_set_is_read_as_it_is_written(tmp_path: Path, place: str) -> None:
    write(tmp_path, PLACES[place])
    raw = read_tu(tmp_path / PLACES[place].split("/")[0], "TOY")
    assert raw.name == "TOY"
    assert raw.sizes.tolist() == [3, 1, 3]
    assert dense(raw).tolist() == ADJACENCY
    assert raw.directed
    assert raw.self_loops == 1
    assert words(raw.classes) == [["2", "-1", "2"]]
    assert raw.classes is not None
    assert raw.classes.names == (("-1", "2"),)
    assert raw.classes.labels() == (-1, 2)
    assert raw.targets is not None
    assert raw.targets.tolist() == [[0.5, 1], [1000, 2], [-1, 3]]
    assert words(raw.node_labels) == [list("4940990"), ["1", "1", "1", "1", "10", "2", "1"]]
    assert raw.node_labels is not None
    assert raw.node_labels.names == (("0", "4", "9"), ("1", "2", "10"))
    assert raw.node_attributes is not None
    expected = [[0.5, 1], [1.5, 2], [-2.5, 30], [0, 0], [1, 1], [2, 2], [3, -4]]
    assert raw.node_attributes.tolist() == expected


def test_labels_and_attributes_stay_with_their_edges_and_the_first_of_duplicates_is_kept(
    tmp_path: Path,
) -> None:
    """In the order of targets, then sources: 2→1, 1→2, 3→2, 2→3, 3→3, 5→6."""
    raw = read(tmp_path)
    assert (raw.target + 1).tolist() == [1, 2, 2, 3, 3, 6]
    assert (raw.source + 1).tolist() == [2, 1, 3, 2, 3, 5]
    assert words(raw.edge_labels) == [["0", "0", "5", "5", "-3", "7"]]
    assert raw.edge_attributes is not None
    assert raw.edge_attributes[:, 0].tolist() == [0.2, 0.1, 0.4, 0.3, 0.5, 0.7]


def test_edges_in_both_directions_are_not_directed(tmp_path: Path) -> None:
    raw = read(tmp_path, A="1, 2\n2, 1\n3, 3\n", edge_labels=None, edge_attributes=None)
    assert not raw.directed
    assert raw.num_edges == 3


def test_a_table_without_a_file_is_none(tmp_path: Path) -> None:
    raw = read(tmp_path, **PLAIN)
    assert raw.node_labels is None
    assert raw.node_attributes is None
    assert raw.edge_labels is None
    assert raw.edge_attributes is None
    assert raw.targets is None
    assert raw.edge_weights is None


def test_graphs_without_classes_can_be_read_for_prediction(tmp_path: Path) -> None:
    raw = read(tmp_path, graph_labels=None, graph_attributes=None)
    assert raw.sizes.tolist() == [3, 1, 3]
    assert raw.classes is None
    assert raw.targets is None


def test_windows_line_ends_and_a_missing_last_line_end_are_read(tmp_path: Path) -> None:
    changes = {part: text.rstrip("\n").replace("\n", "\r\n") for part, text in FILES.items()}
    assert dense(read(tmp_path, **changes)).tolist() == ADJACENCY


def test_a_data_set_without_edges_is_a_data_set(tmp_path: Path) -> None:
    raw = read(tmp_path, A="", edge_labels="", edge_attributes="\n")
    assert raw.num_edges == 0
    assert raw.edge_labels is None
    assert raw.edge_attributes is None
    assert not raw.directed


def test_a_graph_number_that_only_has_a_label_is_an_empty_graph(tmp_path: Path) -> None:
    raw = read(
        tmp_path,
        graph_indicator="2\n2\n2\n4\n7\n7\n7\n",
        graph_labels="1\n2\n3\n4\n5\n6\n7\n",
        graph_attributes=None,
    )
    assert raw.sizes.tolist() == [0, 3, 0, 1, 0, 0, 3]
    assert words(raw.classes) == [list("1234567")]


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_file_may_use_any_compression_that_python_supports(
    tmp_path: Path, method: int
) -> None:
    path = write(tmp_path, "TOY.zip", method)
    assert dense(read_tu(path, "TOY")).tolist() == ADJACENCY


# --- faults

ERRORS: dict[str, tuple[dict[str, Changes], str]] = {
    "no indicator": (
        {"graph_indicator": None},
        "TOY: TOY_graph_indicator.txt is missing. Found only TOY_A.txt, .*. Is the download complete",
    ),
    "no edges": ({"A": None}, "TOY: TOY_A.txt is missing. Found only TOY_graph_indicator.txt"),
    "no nodes": (
        {"graph_indicator": "\n"},
        "TOY_graph_indicator.txt: expected a line for each node",
    ),
    "unsorted graphs": (
        {"graph_indicator": "1\n1\n2\n1\n3\n3\n3\n"},
        "TOY_graph_indicator.txt, line 4: expected graph numbers in ascending order, got 1 after 2. Sort",
    ),
    "graphs from zero": (
        {"graph_indicator": "\n0\n0\n0\n1\n2\n2\n2\n"},
        "TOY_graph_indicator.txt, line 2: expected graph numbers from 1, got 0. Count the graphs from 1",
    ),
    "a gap": (
        {"graph_indicator": "1\n1\n1\n2\n4\n4\n4\n"},
        "TOY_graph_indicator.txt, line 5: expected graph 3, got 4. Number .* a line to TOY_graph_labels.txt",
    ),
    "a gap at the start": (
        {"graph_indicator": "2\n2\n2\n2\n3\n3\n3\n", "graph_labels": "1\n2\n", **PLAIN},
        "TOY_graph_indicator.txt, line 1: expected graph 1, got 2",
    ),
    "a gap without labels": (
        {"graph_indicator": "1\n1\n1\n2\n9\n9\n9\n", "graph_labels": None, **PLAIN},
        "TOY_graph_indicator.txt, line 5: expected graph 3, got 9",
    ),
    "a gap too wide for memory": (
        {"graph_indicator": "1\n1\n1\n2\n9\n9\n999999999999999999\n"},
        "TOY_graph_indicator.txt, line 5: expected graph 3, got 9",
    ),
    "too few graph labels": (
        {"graph_labels": "2\n-1\n"},
        "TOY_graph_labels.txt, line 3: expected 3 lines, one for each graph in TOY_graph_indicator.txt, got 2. Is",
    ),
    "too many graph labels": (
        {"graph_labels": "2\n-1\n\n1\n1\n"},
        "TOY_graph_labels.txt, line 5: expected 3 lines, .*, got 4",
    ),
    "too few graph attributes": (
        {"graph_attributes": "1\n2\n"},
        "TOY_graph_attributes.txt, line 3: expected 3 lines, one for each graph in .*, got 2",
    ),
    "too few node labels": (
        {"node_labels": "4\n9\n4\n"},
        "TOY_node_labels.txt, line 4: expected 7 lines, one for each line of TOY_graph_indicator.txt, got 3",
    ),
    "too many node labels": ({"node_labels": "4\n" * 8}, "TOY_node_labels.txt, line 8: .* got 8"),
    "too few attributes": ({"node_attributes": "1\n"}, "TOY_node_attributes.txt, line 2: .* got 1"),
    "too few edge labels": (
        {"edge_labels": "1\n" * 6},
        "TOY_edge_labels.txt, line 7: expected 7 lines, one for each line of TOY_A.txt, got 6",
    ),
    "too many edge labels": ({"edge_labels": "1\n" * 8}, "TOY_edge_labels.txt, line 8: .*, got 8"),
    "too few edge attributes": (
        {"edge_attributes": ""},
        "TOY_edge_attributes.txt, line 1: .* got 0",
    ),
    "labels of no edges": ({"A": ""}, "TOY_edge_labels.txt, line 1: expected 0 lines, .* got 7"),
    "ragged lines": ({"A": "1, 2\n2\n"}, "TOY_A.txt, line 2: expected 2 integers, got '2'"),
    "one end of each edge": (
        {"A": "1\n2\n"},
        "TOY_A.txt, line 1: expected 2 integers, got '1'",
    ),
    "three numbers in a line": ({"A": "1, 2, 1\n"}, "TOY_A.txt, line 1: expected 2 .* with 3"),
    "two labels of a graph": (
        {"graph_labels": "1 2\n" * 3},
        "TOY_graph_labels.txt, line 1: .* 1 integer",
    ),
    "words": ({"A": "1, 2\nx, y\n"}, "TOY_A.txt, line 2: expected 2 integers, got 'x, y'"),
    "fractions as labels": (
        {"graph_labels": "1\n1.5\n1\n"},
        "TOY_graph_labels.txt, line 2: .* '1.5'",
    ),
    "letters outside ASCII": (
        {"node_labels": "4\n\xe9\n"},
        "TOY_node_labels.txt, line 2: .* ASCII",
    ),
    "a word as an attribute": ({"node_attributes": "1\nx\n"}, "TOY_node_attributes.txt, line 2"),
    "attributes that are not finite": (
        {"edge_attributes": FILES["edge_attributes"].replace("0.3", "nan")},
        "TOY_edge_attributes.txt, line 3: expected 1 number, got 'nan'",
    ),
    "targets that are not finite": (
        {"graph_attributes": "1\ninf\n1\n"},
        "TOY_graph_attributes.txt, line 2",
    ),
    "nodes from zero": (
        {"A": FILES["A"].replace("5,6", "0, 1")},
        "TOY_A.txt, line 7: expected node numbers from 1 to 7, .*got 0. Count the nodes from 1",
    ),
    "a node that is not there": (
        {"A": FILES["A"].replace("2, 1", "\n7, 8")},
        "TOY_A.txt, line 3: expected node numbers from 1 to 7, one for each line of TOY_graph_indicator.txt, got 8. Is",
    ),
    "a negative node": (
        {"A": FILES["A"].replace("5,6", "-9223372036854775808 6")},
        "line 7: .*got -92",
    ),
    "an edge between graphs": (
        {"A": FILES["A"].replace("5,6", "3, 4")},
        "TOY_A.txt, line 7: expected two nodes of one graph, got node 3 of graph 1 and node 4 of graph 2",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_a_fault_is_an_error_with_the_file_and_the_line(tmp_path: Path, case: str) -> None:
    changes, message = ERRORS[case]
    with pytest.raises(DataError, match=message):
        read(tmp_path, **changes)


def test_the_line_of_a_fault_is_found_in_a_zip_file_too(tmp_path: Path) -> None:
    path = write(tmp_path, "TOY.zip", A="\n1, 2\n\n2, 1\n2, 8\n3, 2\n3, 3\n1, 2\n5,6\n")
    with pytest.raises(DataError, match=r"TOY_A.txt, line 5: expected node numbers from 1 to 7"):
        read_tu(path, "TOY")


def test_a_data_set_that_is_too_large_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(np, "bincount", fail)
    with pytest.raises(DataError, match="the data set does not fit into memory"):
        read(tmp_path)


# --- laws


@st.composite
def data_sets(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int]], list[int]]:
    """Sizes, the last one positive; edges within graphs, numbered across all graphs; a label for each edge."""
    sizes = [*draw(st.lists(st.integers(0, 4), max_size=4)), draw(st.integers(1, 4))]
    starts = np.cumsum([0, *sizes])
    edges = []
    for start, size in zip(starts, sizes, strict=False):
        node = st.integers(start, start + size - 1)
        edges += draw(st.lists(st.tuples(node, node), max_size=8)) if size else []
    edges = draw(st.permutations(edges))
    return (
        sizes,
        edges,
        draw(st.lists(st.integers(-2, 2), min_size=len(edges), max_size=len(edges))),
    )


@given(data_sets())
def test_written_data_sets_are_read_back_unchanged(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: tuple[list[int], list[tuple[int, int]], list[int]],
) -> None:
    sizes, edges, labels = drawn
    numbers = np.repeat(np.arange(1, len(sizes) + 1), sizes)
    raw = read(
        tmp_path_factory.mktemp("law"),
        **PLAIN
        | {
            "A": "".join(f"{s + 1}, {t + 1}\n" for s, t in edges),
            "graph_indicator": "".join(f"{number}\n" for number in numbers),
            "graph_labels": "".join(f"{i % 3}\n" for i in range(len(sizes))),
            "edge_labels": "".join(f"{label}\n" for label in labels),
        },
    )
    first: dict[tuple[int, int], int] = {}
    for edge, label in zip(edges, labels, strict=True):
        first.setdefault(edge, label)
    expected = sorted(first, key=lambda edge: (edge[1], edge[0]))
    assert raw.sizes.tolist() == sizes
    assert list(zip(raw.source, raw.target, strict=True)) == expected
    assert raw.directed == any((t, s) not in first for s, t in expected)
    if edges:
        assert words(raw.edge_labels) == [[str(first[edge]) for edge in expected]]


# --- PyTorch Geometric's reader


def assert_like_pyg(raw: RawGraphs, folder: Path, name: str) -> None:
    """The same graphs as PyTorch Geometric reads from the files in this folder.

    It removes self-loops, adds up the attributes of an edge that is given twice, and sorts by source first.
    """
    from torch_geometric.io import read_tu_data

    data, slices, sizes = read_tu_data(str(folder), name)
    nodes = np.diff(slices["x"]) if "x" in slices else np.array(data._num_nodes)
    assert raw.sizes.tolist() == nodes.tolist()
    source, target = raw.source, raw.target
    order = np.lexsort((target, source))
    order = order[source[order] != target[order]]
    start = np.repeat(raw.starts, raw.sizes)[source[order]]
    np.testing.assert_array_equal(data.edge_index[0], source[order] - start)
    np.testing.assert_array_equal(data.edge_index[1], target[order] - start)
    y = raw.classes.codes[:, 0] if raw.targets is None and raw.classes is not None else raw.targets
    np.testing.assert_array_equal(data.y, np.asarray(y).squeeze().astype(data.y.numpy().dtype))
    width = sizes["num_node_attributes"]
    _assert_table(raw.node_attributes, raw.node_labels, data.x, width)
    width = sizes["num_edge_attributes"]
    attributes = None if raw.edge_attributes is None else raw.edge_attributes[order]
    labels = None if raw.edge_labels is None else raw.edge_labels.rows(order)
    _assert_table(attributes, labels, data.edge_attr, width)


def _assert_table(
    attributes: np.ndarray | None, labels: Categories | None, table: object, width: int
) -> None:
    """Attributes in single precision, then each column of labels one-hot from its smallest."""
    if attributes is None and labels is None:
        assert table is None
        return
    columns = np.asarray(table)
    if attributes is not None:
        np.testing.assert_array_equal(columns[:, :width], attributes.astype(np.float32))
    for column in range(labels.columns if labels is not None else 0):
        assert labels is not None
        values = np.array([int(name) for name in labels.names[column]])
        one_hot = np.eye(values.max() - values.min() + 1)[values - values.min()]
        got = columns[:, width : width + one_hot.shape[1]]
        np.testing.assert_array_equal(got, one_hot[labels.codes[:, column]])
        width += one_hot.shape[1]
    assert width == columns.shape[1]


def pyg_cases() -> dict[str, dict[str, Changes]]:
    """Without the duplicate edge if edges have attributes, because PyTorch Geometric adds attributes."""
    once = {part: FILES[part].split("\n") for part in ("A", "edge_labels", "edge_attributes")}
    single = {part: "\n".join(lines[:5] + lines[6:]) for part, lines in once.items()}
    return {
        "everything": single,
        "classes instead of targets": {**single, "graph_attributes": None},
        "edge labels only": {**single, "edge_attributes": None, "graph_attributes": None},
        "node labels only": {**single, "node_attributes": None},
        "an edge given twice": {**PLAIN, "node_labels": FILES["node_labels"]},
        "no features": {
            **PLAIN,
            "A": FILES["A"] + "6, 7\n",
        },  # PyG takes the number of nodes from the largest node in an edge
    }


@pytest.mark.parametrize("case", pyg_cases())
def test_a_data_set_is_read_as_pytorch_geometric_reads_it(tmp_path: Path, case: str) -> None:
    pytest.importorskip("torch_geometric")
    folder = write(tmp_path, **pyg_cases()[case])
    assert_like_pyg(read_tu(folder, "TOY"), folder, "TOY")


# --- real data

REAL = {
    # graphs, classes, mean nodes, mean edges (undirected, a self-loop counts once), largest, node labels that occur,
    # columns of attributes, isolated nodes, self-loops
    "ENZYMES": (600, 6, 32.63, 62.14, 126, 3, 18, 106, 0),
    "PROTEINS": (1113, 2, 39.06, 72.82, 620, 3, 1, 5, 0),
    "DD": (1178, 2, 284.32, 715.66, 5748, 82, 0, 0, 0),  # 82 of 89 node labels occur
    "REDDIT-MULTI-12K-sub1111": (1111, 11, 580.74, 661.39, 3782, 0, 0, 0, 0),
    "COLLAB": (5000, 3, 74.49, 2457.78, 492, 0, 0, 0, 2837),
}


def real(name: str) -> Path:
    folder = os.environ.get("DIFFPOOL_DATA")
    if folder is None:
        pytest.skip("DIFFPOOL_DATA names no folder with data sets")
    path = Path(folder) / f"{name}.zip"
    if not path.exists():
        pytest.skip(f"{name}.zip is not in DIFFPOOL_DATA")
    return path


@pytest.mark.parametrize("name", REAL)
def test_a_real_data_set_has_its_published_statistics(name: str) -> None:
    raw = read_tu(real(name), name)
    graphs, classes, nodes, edges, largest, labels, attributes, isolated, loops = REAL[name]
    assert len(raw) == graphs
    assert raw.classes is not None
    assert len(raw.classes.names[0]) == classes
    assert raw.num_nodes / graphs == pytest.approx(nodes, abs=0.005)
    assert (raw.num_edges + loops) / 2 / graphs == pytest.approx(edges, abs=0.005)
    assert raw.sizes.max() == largest
    assert (0 if raw.node_labels is None else len(raw.node_labels.names[0])) == labels
    assert (0 if raw.node_attributes is None else raw.node_attributes.shape[1]) == attributes
    assert int((np.diff(raw.indptr) == 0).sum()) == isolated
    assert raw.self_loops == loops
    assert not raw.directed


@pytest.mark.parametrize("name", REAL)
def test_a_real_data_set_is_read_as_pytorch_geometric_reads_it(tmp_path: Path, name: str) -> None:
    """Only the first graphs of COLLAB: PyTorch Geometric takes minutes for all of it, which the benchmark compares."""
    pytest.importorskip("torch_geometric")
    with zipfile.ZipFile(real(name)) as archive:
        archive.extractall(tmp_path)
    folder = tmp_path / name
    if name == "COLLAB":
        shorten(folder, name, graphs=100)
    assert_like_pyg(read_tu(folder, name), folder, name)


def shorten(folder: Path, name: str, graphs: int) -> None:
    """Keep the first graphs only."""
    files = {p: folder / f"{name}_{p}.txt" for p in ("A", "graph_indicator", "graph_labels")}
    numbers = files["graph_indicator"].read_text().split()
    nodes = next(i for i, number in enumerate(numbers) if int(number) > graphs)
    for part, count in (("graph_indicator", nodes), ("graph_labels", graphs)):
        lines = files[part].read_text().splitlines(keepends=True)
        files[part].write_text("".join(lines[:count]))
    kept = []
    with files["A"].open() as file:
        for line in file:
            if int(line.split(",")[1]) > nodes:
                break
            kept.append(line)
    files["A"].write_text("".join(kept))
