"""Reading the TU text format: hand-written folders and zip files, and the real data sets where they are at hand."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
import reference
import torch

from diffpool.data import GraphDataset, load_dataset
from diffpool.data.tu import MAX_DEGREE, read_tu
from diffpool.errors import DataError

# Edge cases: a path of three nodes with a self-loop at its end, a single node, and a pair of nodes beside an
# isolated node. Lines end in different ways, and one edge is given in one direction only.
FILES = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n3, 3\n5,6\n",
    "graph_indicator": "1\n1\n1\n2\n3\n3\n3\n",
    "graph_labels": "2\n-1\n2\n",
    "node_labels": "4\n9\n4\n0\n9\n9\n0\n",
    "node_attributes": "0.5, 1\n1.5, 2\n-2.5, 3e1\n0, 0\n1, 1\n2, 2\n3, -4\n",
}
ADJACENCY = [
    [0, 1, 0, 0, 0, 0, 0],
    [1, 0, 1, 0, 0, 0, 0],
    [0, 1, 1, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 1, 0],
    [0, 0, 0, 0, 1, 0, 0],
    [0, 0, 0, 0, 0, 0, 0],
]
ATTRIBUTES = [[0.5, 1], [1.5, 2], [-2.5, 30], [0, 0], [1, 1], [2, 2], [3, -4]]
ONE_HOT = [[0, 1, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 1], [1, 0, 0]]


def write(folder: Path, storage: str = "folder", **changes: str | None) -> Path:
    """The files with changes (None: without that file), as a folder, a folder with raw/, or a zip file."""
    files = {part: text for part, text in {**FILES, **changes}.items() if text is not None}
    if storage == "zip":
        path = folder / "TOY.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for part, text in files.items():
                archive.writestr(f"TOY/TOY_{part}.txt", text)
        return path
    inner = folder / "TOY" / "raw" if storage == "raw" else folder / "TOY"
    inner.mkdir(parents=True)
    for part, text in files.items():
        (inner / f"TOY_{part}.txt").write_bytes(text.encode("latin-1"))
    return folder / "TOY"


def read(folder: Path, **changes: str | None) -> GraphDataset:
    return read_tu(write(folder, **changes), "TOY")


@pytest.mark.parametrize("storage", ["folder", "raw", "zip"])
def test_a_hand_written_data_set_is_read_as_it_is_written(tmp_path: Path, storage: str) -> None:
    write(tmp_path, storage)
    dataset = load_dataset("TOY", tmp_path)
    assert dataset.name == "TOY"
    assert dataset.graphs.layout.sizes.tolist() == [3, 1, 3]
    adj = dataset.graphs.adj
    assert reference.dense_matrix(adj.indptr, adj.indices, adj.values).tolist() == ADJACENCY
    assert dataset.graphs.adj_t is adj
    assert dataset.y.tolist() == [1, 0, 1]
    assert dataset.class_names == ("-1", "2")
    assert dataset.x.tolist() == [a + b for a, b in zip(ATTRIBUTES, ONE_HOT, strict=True)]
    assert dataset.x.dtype == torch.float32
    assert dataset.features == "attributes (2), one-hot labels (3)"


def test_without_attributes_the_features_are_the_labels(tmp_path: Path) -> None:
    dataset = read(tmp_path, node_attributes=None)
    assert dataset.x.tolist() == ONE_HOT
    assert dataset.features == "one-hot labels (3)"


def test_without_labels_the_features_are_the_attributes(tmp_path: Path) -> None:
    dataset = read(tmp_path, node_labels=None)
    assert dataset.x.tolist() == ATTRIBUTES
    assert dataset.features == "attributes (2)"


def test_without_either_the_features_are_the_degrees(tmp_path: Path) -> None:
    """The self-loop counts once; an isolated node has degree 0."""
    dataset = read(tmp_path, node_labels=None, node_attributes=None)
    assert dataset.x.shape == (7, MAX_DEGREE + 1)
    assert dataset.x.argmax(1).tolist() == [1, 2, 2, 0, 1, 1, 0]
    assert dataset.x.sum(1).tolist() == [1] * 7
    assert dataset.features == f"one-hot degree (up to {MAX_DEGREE})"


def test_degrees_above_the_largest_share_the_last_column(tmp_path: Path) -> None:
    leaves = MAX_DEGREE + 5
    star = "".join(f"1, {i}\n" for i in range(2, leaves + 2))
    dataset = read(
        tmp_path,
        A=star,
        graph_indicator="1\n" * (leaves + 1),
        graph_labels="0\n",
        node_labels=None,
        node_attributes=None,
    )
    assert dataset.x.argmax(1).tolist() == [MAX_DEGREE] + [1] * leaves


def test_files_without_a_last_line_end_and_with_those_of_windows_are_read(tmp_path: Path) -> None:
    changes = {part: text.rstrip("\n").replace("\n", "\r\n") for part, text in FILES.items()}
    dataset = read(tmp_path, **changes)
    assert dataset.x[:, :2].tolist() == ATTRIBUTES
    assert dataset.graphs.num_edges == 7


def test_a_data_set_without_edges_is_a_data_set(tmp_path: Path) -> None:
    dataset = read(tmp_path, A="")
    assert dataset.graphs.num_edges == 0
    assert dataset.graphs.layout.sizes.tolist() == [3, 1, 3]


def test_a_label_without_nodes_is_an_empty_graph(tmp_path: Path) -> None:
    dataset = read(tmp_path, graph_labels="2\n-1\n2\n7\n")
    assert dataset.graphs.layout.sizes.tolist() == [3, 1, 3, 0]
    assert dataset.class_names == ("-1", "2", "7")


ERRORS = {
    "no indicator": ({"graph_indicator": None}, "expected a file TOY_graph_indicator.txt in it"),
    "no labels": ({"graph_labels": None}, "expected a file TOY_graph_labels.txt in it, got none"),
    "no edges": ({"A": None}, "expected a file TOY_A.txt in it, got none"),
    "unsorted graphs": (
        {"graph_indicator": "1\n1\n2\n1\n3\n3\n3\n"},
        "TOY_graph_indicator.txt: expected graph numbers from 1 in ascending order",
    ),
    "graphs from zero": (
        {"graph_indicator": "0\n0\n0\n1\n2\n2\n2\n"},
        "TOY_graph_indicator.txt: expected graph numbers from 1",
    ),
    "too few graph labels": (
        {"graph_labels": "2\n-1\n"},
        "TOY_graph_labels.txt: expected a label for each of 3 graphs .* got 2",
    ),
    "too few node labels": (
        {"node_labels": "4\n9\n4\n", "node_attributes": None},
        "TOY.*expected .* each of 7 nodes .* got 3",
    ),
    "too few attributes": (
        {"node_attributes": "1\n2\n", "node_labels": None},
        "TOY.*expected .* each of 7 nodes .* got 2",
    ),
    "fewer node labels than attributes": ({"node_labels": "4\n9\n4\n"}, "TOY.*7 nodes.*got 3"),
    "fewer attributes than node labels": ({"node_attributes": "4\n9\n"}, "TOY.*7 nodes.*got 2"),
    "ragged lines": ({"A": "1, 2\n2\n"}, "TOY_A.txt: expected as many numbers in every line"),
    "one end of each edge": ({"A": "1\n2\n3\n"}, "TOY_A.txt"),
    "three numbers in a line": ({"A": "1, 2, 1\n2, 3, 1\n"}, "TOY_A.txt"),
    "words": ({"A": "1, 2\nx, y\n"}, "TOY_A.txt"),
    "words in half of the lines": ({"A": "1, 2\n2, 1\nx, y\ny, x\n"}, "TOY_A.txt"),
    "fractions as node numbers": ({"A": "1.5, 2\n2, 1\n"}, "TOY_A.txt"),
    "fractions as labels": ({"graph_labels": "1.5\n2\n1\n"}, "TOY_graph_labels.txt"),
    "letters outside ASCII": ({"node_labels": "4\n9\n4\n0\n9\n\xe9\n0\n"}, "TOY_node_labels.txt"),
    "a node that is not there": ({"A": "1, 2\n7, 8\n"}, "node numbers"),
    "an edge between graphs": ({"A": "1, 2\n3, 4\n"}, "both ends of an edge in one graph"),
    "attributes that are not finite": (
        {"node_attributes": FILES["node_attributes"].replace("0.5", "nan")},
        "TOY_node_attributes.txt",
    ),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("case", ERRORS)
def test_files_that_make_no_data_set_are_an_error_that_names_the_file(
    tmp_path: Path, case: str
) -> None:
    changes, message = ERRORS[case]
    with pytest.raises(DataError, match=message):
        read(tmp_path, **changes)


def test_half_a_zip_file_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, "zip")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(
        DataError, match=r"TOY.zip: expected a zip file, got something else or half"
    ):
        load_dataset("TOY", tmp_path)


def test_a_zip_file_with_a_damaged_member_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, "zip")
    content = bytearray(path.read_bytes())
    place = content.index(b"2, 3\n")
    content[place : place + 4] = b"6, 7"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"TOY.zip"):
        load_dataset("TOY", tmp_path)


# --- by name -----------------------------------------------------------------------------------------------------


def test_the_folder_can_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "zip")
    monkeypatch.setenv("DIFFPOOL_DATA", str(tmp_path))
    assert len(load_dataset("TOY")) == 3


def test_a_data_set_without_a_folder_is_an_error_that_says_how_to_name_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DIFFPOOL_DATA", raising=False)
    with pytest.raises(DataError, match=r"to find TOY in, got none.*--data-dir or DIFFPOOL_DATA"):
        load_dataset("TOY")


def test_a_folder_that_is_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected a folder with data sets, got .*nowhere"):
        load_dataset("TOY", tmp_path / "nowhere")


def test_a_missing_data_set_is_an_error_that_names_those_that_are_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"OTHER.zip or a folder OTHER.*no data set there"):
        load_dataset("OTHER", tmp_path)
    write(tmp_path, "zip")
    with pytest.raises(DataError, match=r"OTHER.zip or a folder OTHER.*there is TOY"):
        load_dataset("OTHER", tmp_path)


def test_the_generated_data_set_needs_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DIFFPOOL_DATA", raising=False)
    a, b = load_dataset("embedded", seed=0), load_dataset("embedded", seed=1)
    assert a.name == "embedded"
    assert not torch.equal(a.y, b.y)


# --- real data ---------------------------------------------------------------------------------------------------

REAL = {
    # graphs, classes, mean nodes, mean edges (undirected, a self-loop counts once), largest, features, isolated nodes
    "ENZYMES": (600, 6, 32.63, 62.14, 126, 21, 106),
    "PROTEINS": (1113, 2, 39.06, 72.82, 620, 4, 5),
    "DD": (1178, 2, 284.32, 715.66, 5748, 82, 0),  # of 89 node labels 82 occur
}


@pytest.mark.parametrize("name", REAL)
def test_a_real_data_set_has_its_published_statistics(name: str) -> None:
    folder = os.environ.get("DIFFPOOL_DATA")
    if folder is None:
        pytest.skip("DIFFPOOL_DATA names no folder with data sets")
    if not (Path(folder) / f"{name}.zip").exists() and not (Path(folder) / name).exists():
        pytest.skip(f"{name} is not in DIFFPOOL_DATA")
    graphs, classes, nodes, edges, largest, features, isolated = REAL[name]
    dataset = load_dataset(name)
    assert len(dataset) == graphs
    assert dataset.num_classes == classes
    assert dataset.graphs.num_nodes / graphs == pytest.approx(nodes, abs=0.005)
    assert dataset.graphs.num_edges / 2 / graphs == pytest.approx(edges, abs=0.005)
    assert dataset.largest == largest
    assert dataset.num_features == features
    assert int((dataset.graphs.degree == 0).sum()) == isolated
    assert dataset.graphs.adj_t is dataset.graphs.adj
    assert torch.isfinite(dataset.x).all()
