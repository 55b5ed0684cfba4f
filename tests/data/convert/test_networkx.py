"""NetworkX graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from diffpool.data.convert import as_raw
from diffpool.errors import DataError, SettingError

nx = pytest.importorskip("networkx")

TRIANGLE = np.ones((3, 3)) - np.eye(3)
PAIR = np.array([[0.0, 1.0], [1.0, 0.0]])


def test_type_and_name_of_an_attribute_determine_its_column() -> None:
    net = nx.Graph(label="yes", target=[1, 2.5])
    net.add_node("b", size=1, pos=np.array([1.0, 2.0]), kind="x", old=True, atom_type=6, label=1)
    net.add_node("a", size=2, pos=(3, 4), kind="y", old=False, atom_type=10, label="z")
    net.add_edge("a", "b", weight=2, length=0.5, bond_label=np.int64(3))
    raw = as_raw([net])
    assert raw.node_attributes.tolist() == [[1, 2, 1], [3, 4, 2]]  # pos, size
    assert [raw.node_labels.words(c) for c in range(4)] == [
        ["6", "10"],  # atom_type
        ["x", "y"],  # kind
        ["1", "z"],  # label
        ["True", "False"],  # old
    ]
    assert raw.edge_weights.tolist() == [2, 2]
    assert raw.edge_attributes.tolist() == [[0.5], [0.5]]
    assert raw.edge_labels.words() == ["3", "3"]
    assert raw.classes.words() == ["yes"]
    assert raw.targets.tolist() == [[1, 2.5]]


def test_a_directed_graph_stays_directed() -> None:
    raw = as_raw([nx.DiGraph([("a", "b")])])
    assert raw.directed
    assert (raw.source.tolist(), raw.target.tolist()) == ([0], [1])


def test_the_weight_of_parallel_edges_is_their_number() -> None:
    multi = nx.MultiGraph([(0, 1), (1, 0), (1, 2), (2, 2)])
    assert as_raw([multi, nx.path_graph(2)]).edge_weights.tolist() == [2, 2, 1, 1, 1, 1, 1]
    assert as_raw([nx.MultiGraph([(0, 1)])]).edge_weights is None
    weighted = nx.MultiDiGraph()
    weighted.add_edge(0, 1, weight=2)
    weighted.add_edge(0, 1, weight=0.5)
    assert as_raw([weighted]).edge_weights.tolist() == [2.5]


@pytest.mark.parametrize("key", ["label", "y"])
def test_the_class_of_a_networkx_graph_is_its_label_or_y(key: str) -> None:
    graphs = [nx.path_graph(2), nx.path_graph(3)]
    graphs[0].graph[key], graphs[1].graph[key] = np.int64(7), 8
    assert as_raw(graphs).classes.words() == ["7", "8"]


def net(
    node: dict[str, Any] | None = None, edge: dict[str, Any] | None = None, **graph: Any
) -> Any:
    """Two nodes and an edge; `node` and `edge` replace the attributes of the second node and of the edge."""
    made = nx.Graph(**graph)
    made.add_node("u", **COMPLETE)
    made.add_node("v", **(COMPLETE if node is None else node))
    made.add_edge("u", "v", **({"weight": 1.0} if edge is None else edge))
    return made


COMPLETE = {"a": 1.5, "w": "x"}


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (
            net({"w": "x"}),
            "graph 1, node 'v': attribute 'a' is missing, but other nodes have it. Add",
        ),
        (
            net({**COMPLETE, "new": 1}),
            "graph 0, node 'u': attribute 'new' is missing, but other nodes",
        ),
        (
            net({**COMPLETE, "a": "x"}),
            "graph 1, node 'v': expected attribute 'a' to be all numbers .*, got 'x'. Use",
        ),
        (
            net({**COMPLETE, "a": None}),
            "graph 1, node 'v': expected attribute 'a' to be all numbers .*, got None",
        ),
        (
            net({**COMPLETE, "a": True}),
            "graph 1, node 'v': expected attribute 'a' to be all numbers .*, got True",
        ),
        (
            net({**COMPLETE, "a": [1, 2]}),
            "graph 1, node 'v': expected attribute 'a' to have length 1, got 2. Give all",
        ),
        (
            net({**COMPLETE, "a": []}),
            "graph 1, node 'v': expected attribute 'a' to have length 1, got 0",
        ),
        (
            net({**COMPLETE, "a": np.nan}),
            "graph 1, node 'v': expected attribute 'a' to be finite numbers .*, got nan",
        ),
        (
            net({**COMPLETE, "a": 10**400}),
            "graph 1, node 'v': expected attribute 'a' to be finite numbers .*, got 10",
        ),
        (
            net({**COMPLETE, "w": 2.5}),
            "graph 0, node 'u': expected attribute 'w' to be all numbers .*, got 'x'",
        ),
        (net(edge={}), "graph 1, edge .'u', 'v'.: attribute 'weight' is missing, but other edges"),
        (
            net(edge={"weight": -1}),
            "edge .'u', 'v'.: expected attribute 'weight' to be finite numbers from 0 to",
        ),
        (
            net(edge={"weight": "x"}),
            "edge .'u', 'v'.: expected attribute 'weight' to be all numbers .*, got 'x'",
        ),
        (net(label=1), "graph 0: expected a class in every graph or in none, but graph 1 has it"),
        (net(target=1), "graph 0: expected a target in every graph or in none, but graph 1 has it"),
        (
            net(label=1, y=1),
            "graph 1: expected the class as 'label' or 'y', got both. Keep only one",
        ),
    ],
)
def test_an_invalid_networkx_graph_is_an_error(graph: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        as_raw([net(), graph])


def test_a_float_as_class_and_a_word_as_target_are_errors() -> None:
    with pytest.raises(
        DataError, match=r"graph 0: expected a string .*, got 0.5. Put numbers to predict"
    ):
        as_raw([net(label=0.5)])
    with pytest.raises(
        DataError, match=r"graph 0: expected finite numbers as targets, .* got .'x'"
    ):
        as_raw([net(target="x")])


def test_a_number_and_a_vector_of_one_number_are_the_same() -> None:
    graph = nx.Graph()
    graph.add_node(0, x=1.5)
    graph.add_node(1, x=[2])
    assert as_raw([graph]).node_attributes.tolist() == [[1.5], [2]]


# --- the choice of attributes ------------------------------------------------------------------------------------


def named_graphs(graphs: int = 48, nodes: int = 20) -> list[Any]:
    """Paths whose nodes have a name, which is different everywhere, and an element."""
    made = []
    for g in range(graphs):
        graph = nx.path_graph(nodes)
        nx.set_node_attributes(graph, {n: f"{g}-{n}" for n in graph}, "name")
        nx.set_node_attributes(graph, "C", "element")
        nx.set_edge_attributes(graph, 1.5, "length")
        nx.set_edge_attributes(graph, 2.0, "weight")
        made.append(graph)
    return made


def test_attributes_are_chosen_by_name_in_this_order() -> None:
    graph = nx.path_graph(2)
    for key, value in (("a", 1.0), ("b", 2.0), ("c", "x")):
        nx.set_node_attributes(graph, value, key)
    raw = as_raw([graph], node_attributes=["b", "a"])
    assert raw.node_attributes.tolist() == [[2, 1], [2, 1]]
    assert raw.node_labels is None
    nothing = as_raw([graph], node_attributes=[])
    assert (nothing.node_attributes, nothing.node_labels) == (None, None)


def test_weights_are_read_whatever_edge_attributes_are_chosen() -> None:
    (graph,) = named_graphs(1, 2)
    raw = as_raw([graph], edge_attributes=[])
    assert raw.edge_attributes is None
    assert raw.edge_weights.tolist() == [2, 2]
    assert as_raw([graph], edge_attributes=["length"]).edge_attributes.tolist() == [[1.5], [1.5]]


def test_a_name_of_every_node_is_refused_as_a_label_unless_it_is_chosen() -> None:
    graphs = named_graphs()
    message = r"attribute 'name' .* got 960 distinct strings for 960 nodes.* node_attributes=\[\]"
    with pytest.raises(DataError, match=message):
        as_raw(graphs)
    raw = as_raw(graphs, node_attributes=["element"])
    assert raw.node_labels.names == (("C",),)
    assert len(as_raw(graphs, node_attributes=["name"]).node_labels.names[0]) == 960


def test_labels_that_nodes_share_and_few_labels_are_accepted() -> None:
    assert len(as_raw(named_graphs(2, 25)).node_labels.names[1]) == 50  # few
    regions = named_graphs(3, 60)
    for graph in regions:  # the same 60 names in every graph
        nx.set_node_attributes(graph, {n: f"region {n}" for n in graph}, "name")
    assert len(as_raw(regions).node_labels.names[1]) == 60


def test_mistakes_in_the_choice_are_errors() -> None:
    graphs = named_graphs(2, 3)
    with pytest.raises(DataError, match=r"'elemnt', got element, name\. Did you mean element\?"):
        as_raw(graphs, node_attributes=["elemnt"])
    with pytest.raises(
        SettingError, match=r"as a list of names, got a single string\. Write \['name'\]"
    ):
        as_raw(graphs, node_attributes="name")
    for other in (as_raw(graphs), [TRIANGLE]):
        with pytest.raises(
            SettingError, match="edge_attributes selects attributes of NetworkX graphs"
        ):
            as_raw(other, edge_attributes=["length"])


# --- the names of the columns ------------------------------------------------------------------------------------


def test_columns_have_the_names_of_the_attributes() -> None:
    graph = nx.path_graph(2)
    nx.set_node_attributes(graph, {0: [1.0, 2.0], 1: [3.0, 4.0]}, "position")
    for key, value in (("mass", 1.0), ("kind", "x"), ("atom_type", 6)):
        nx.set_node_attributes(graph, value, key)
    nx.set_edge_attributes(graph, "single", "bond")
    nx.set_edge_attributes(graph, 2.0, "weight")
    names = as_raw([graph]).names
    assert names is not None
    assert names.node_attributes == ("mass", "position", "position")
    assert names.node_labels == ("atom_type", "kind")
    assert (names.edge_labels, names.edge_attributes) == (("bond",), ())
    chosen = as_raw([graph], node_attributes=["position", "mass"]).names
    assert chosen is not None
    assert chosen.node_attributes == ("position", "position", "mass")
    assert as_raw([TRIANGLE]).names is None


def test_two_keys_with_the_same_text_are_an_error() -> None:
    graph = nx.path_graph(1)
    graph.nodes[0].update({1: 0.5, "1": 0.7})
    with pytest.raises(DataError, match="expected attributes of nodes with different names, got 1"):
        as_raw([graph])


@pytest.mark.parametrize("form", [list, tuple])
def test_vectors_may_have_numbers_of_numpy(form: type) -> None:
    graph = nx.path_graph(2)
    values = [np.float32(0.5), np.int64(2), np.array(3.0)]
    nx.set_node_attributes(graph, {n: form(values) for n in graph}, "x")
    assert as_raw([graph]).node_attributes.tolist() == [[0.5, 2, 3]] * 2
