"""GML, GraphML, GEXF and edge lists: one graph per file, a folder of files is a data set."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diffpool.data import as_raw
from diffpool.data.sources import iter_graphs, read_graphs, read_raw
from diffpool.errors import DataError, SettingError
from tests.data.test_jsonl import assert_same

nx = pytest.importorskip("networkx")

WRITERS: dict[str, Callable[[Any, Path], None]] = {
    ".gml": nx.write_gml,
    ".graphml": nx.write_graphml,
    ".gexf": nx.write_gexf,
}


def molecule(oxygens: int = 1) -> Any:
    """A path of carbons that ends in oxygens, with a label, an attribute and weights."""
    graph = nx.path_graph(5)
    for node in graph:
        graph.nodes[node]["element"] = "O" if node >= 5 - oxygens else "C"
        graph.nodes[node]["charge"] = node / 2
    nx.set_edge_attributes(graph, 0.5, "weight")
    nx.set_edge_attributes(graph, "single", "bond")
    return graph


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_file_has_the_attributes_of_the_graph_and_not_the_names_of_its_nodes(
    suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"water{suffix}"
    WRITERS[suffix](molecule(), path)
    raw = read_graphs(path)
    assert raw.name == "water"
    assert_same(raw, as_raw([molecule()], name="water"))
    assert raw.node_labels is not None
    assert raw.node_labels.names == (("C", "O"),)


@pytest.mark.parametrize("suffix", WRITERS)
def test_attributes_are_chosen_by_name(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"water{suffix}"
    WRITERS[suffix](molecule(), path)
    raw = read_raw(str(path), node_attributes=["charge"], edge_attributes=[])
    assert raw.node_labels is None
    assert raw.node_attributes is not None
    assert raw.node_attributes[:, 0].tolist() == [0, 0.5, 1, 1.5, 2]
    assert raw.edge_labels is None
    assert raw.edge_weights is not None  # weights are part of the graph
    (part,) = iter_graphs(path, 10, node_attributes=["charge"], edge_attributes=[])
    assert_same(part, raw)


EDGES = {(0, 1), (1, 0), (1, 2), (2, 1)}


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("a b\nb c\n", None),
        ("# nodes and weight\na b 0.5\n\nb c 2 # heavy\n", [0.5, 0.5, 2, 2]),
        ("a b {'weight': 3}\nb c {'weight': 1}\n", [1, 1, 3, 3]),
    ],
    ids=["plain", "weights", "dictionaries"],
)
def test_edge_lists(text: str, weights: list[float] | None, tmp_path: Path) -> None:
    path = tmp_path / "net.edgelist"
    path.write_text(text)
    raw = read_graphs(path)
    found = raw.edge_weights
    assert raw.num_nodes == 3
    assert set(zip(raw.source.tolist(), raw.target.tolist(), strict=True)) == EDGES
    assert (None if found is None else sorted(found.tolist())) == weights


def test_a_folder_of_folders_is_a_data_set_with_classes(tmp_path: Path) -> None:
    for name, oxygens in (("acid", 2), ("alcohol", 1)):
        (tmp_path / "set" / name).mkdir(parents=True)
        for i, suffix in enumerate(WRITERS):
            WRITERS[suffix](molecule(oxygens), tmp_path / "set" / name / f"{i}{suffix}")
    raw = read_graphs(tmp_path / "set")
    expected = as_raw([molecule(2)] * 3 + [molecule(1)] * 3, ["acid"] * 3 + ["alcohol"] * 3, "set")
    assert_same(raw, expected)
    assert [len(part) for part in iter_graphs(tmp_path / "set", 4)] == [4, 2]


def test_the_class_may_be_an_attribute_of_the_graph(tmp_path: Path) -> None:
    for i, name in enumerate("ab"):
        graph = molecule()
        graph.graph["label"] = name
        nx.write_gml(graph, tmp_path / f"{i}.gml")
    raw = read_graphs(tmp_path)
    assert raw.classes is not None
    assert raw.classes.words() == ["a", "b"]


def test_labels_that_nodes_share_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.gml"
    path.write_text(
        'graph [ node [ id 0 label "C" ] node [ id 1 label "C" ] edge [ source 0 target 1 ] ]'
    )
    raw = read_graphs(path)
    assert raw.node_labels is not None
    assert raw.node_labels.words() == ["C", "C"]
    path.write_text(path.read_text().replace('1 label "C"', '1 label "D"'))
    assert read_graphs(path).node_labels is None  # names
    chosen = read_graphs(path, node_attributes=["label"]).node_labels
    assert chosen is not None
    assert chosen.words() == ["C", "D"]


BROKEN = {
    "a.gml": "graph [ node [",
    "b.gml": "",
    "a.graphml": "<graphml><graph>",
    "b.graphml": "not xml",
    "a.gexf": "<gexf/>",
    "a.edgelist": "a b 0.5 0.7\n",
    "b.edgelist": "# nothing\n",
    "c.edgelist": "a b {'weight': open}\n",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_damaged_file_is_an_error_that_names_it(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(BROKEN[name])
    with pytest.raises(DataError, match=rf"{name}: expected a graph in {name[2:]} format, but"):
        read_graphs(tmp_path / name)


def test_messages_name_the_file_and_the_attribute(tmp_path: Path) -> None:
    nx.write_gml(molecule(), tmp_path / "a.gml")
    with pytest.raises(DataError, match=r"a\.gml: .* 'chrage', .* Did you mean charge\?"):
        read_graphs(tmp_path / "a.gml", node_attributes=["chrage"])
    (tmp_path / "inner").mkdir()
    nx.write_gml(molecule(), tmp_path / "inner" / "b.gml")
    with pytest.raises(DataError, match=r"one per class, got both\. Move a\.gml"):
        read_graphs(tmp_path)
    (tmp_path / "g.jsonl").write_text('{"nodes": 1, "edges": []}\n')
    for path in (tmp_path / "g.jsonl", "ENZYMES"):
        with pytest.raises(SettingError, match=r"attributes can be chosen in \.gml"):
            read_raw(path, node_attributes=["a"])
    with pytest.raises(SettingError, match="column names apply to tables of molecules"):
        read_graphs(tmp_path / "a.gml", label="a")


def test_without_networkx_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nx.write_gml(molecule(), tmp_path / "a.gml")
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(
        DataError, match=r"NetworkX is required .*pip install 'diffpool\[networkx\]'"
    ):
        read_graphs(tmp_path / "a.gml")


def test_a_label_that_is_left_out_is_said_unless_it_repeats_the_id(tmp_path: Path) -> None:
    path = tmp_path / "a.gml"
    nodes = 'node [ id 0 label "C" ] node [ id 1 label "N" ]'
    path.write_text(f"graph [ {nodes} edge [ source 0 target 1 ] ]")
    message = r"a\.gml: the attribute 'label' of the nodes is left out: .* node_attributes"
    with pytest.warns(UserWarning, match=message):
        read_graphs(path)
    nx.write_gml(nx.path_graph(3), path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_graphs(path).node_labels is None


def test_the_text_of_a_parser_is_shortened(tmp_path: Path) -> None:
    path = tmp_path / "a.edgelist"
    path.write_text("a b {'x': " + "y" * 200_000 + "}\n")
    with pytest.raises(
        DataError, match=r"a\.edgelist: expected a graph in edgelist format"
    ) as caught:
        read_graphs(path)
    assert len(str(caught.value)) < 500 + len(str(path))


def test_graphs_of_a_folder_have_their_file_and_class_as_columns_in_natural_order(
    tmp_path: Path,
) -> None:
    for name, make in (("ring", nx.cycle_graph), ("star", nx.star_graph)):
        (tmp_path / "set" / name).mkdir(parents=True)
        for n in (10, 4):
            nx.write_gml(make(n), tmp_path / "set" / name / f"{n}.gml")
    raw = read_graphs(tmp_path / "set")
    assert raw.columns == {
        "file": ["ring/4.gml", "ring/10.gml", "star/4.gml", "star/10.gml"],
        "label": ["ring", "ring", "star", "star"],
    }
    assert raw.sizes.tolist() == [4, 10, 5, 11]
    assert read_graphs(tmp_path / "set" / "ring").columns == {"file": ["4.gml", "10.gml"]}
    assert read_graphs(tmp_path / "set" / "ring" / "4.gml").columns == {"file": ["4.gml"]}
