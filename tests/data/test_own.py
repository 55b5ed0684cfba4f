"""Graphs of other libraries: every form gives the same, and every message is said."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from diffpool.data import jsonl, own
from diffpool.data.own import as_raw, iter_graphs, read_graphs
from diffpool.errors import DataError, SettingError
from tests.data.test_jsonl import assert_same

nx = pytest.importorskip("networkx")
pyg = pytest.importorskip("torch_geometric.data")

TRIANGLE = np.ones((3, 3)) - np.eye(3)
PAIR = np.array([[0.0, 1.0], [1.0, 0.0]])


def data(n: int, edges: list[tuple[int, int]], **more: Any) -> Any:
    index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    return pyg.Data(edge_index=index, num_nodes=n, **more)


# --- the same graphs by every route


@st.composite
def weighted_graphs(draw: st.DrawFn) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weighted adjacency matrices with self-loops, directed or not, and features [n, 2]."""
    directed = draw(st.booleans())
    graphs = []
    for n in draw(st.lists(st.integers(0, 5), min_size=1, max_size=4)):
        weight = st.sampled_from([0, 0, 0.5, 1, 3])
        adj = np.array(draw(st.lists(weight, min_size=n * n, max_size=n * n))).reshape(n, n)
        adj = adj if directed else np.triu(adj) + np.triu(adj, 1).T
        x = np.arange(2.0 * n).reshape(n, 2) / 3
        graphs.append((adj.astype(float), x))
    return graphs


@given(graphs=weighted_graphs())
def test_all_routes_lead_to_the_same_graphs(
    tmp_path_factory: pytest.TempPathFactory, graphs: list[tuple[np.ndarray, np.ndarray]]
) -> None:
    y = [f"c{g % 2}" for g in range(len(graphs))]
    weighted = any((adj[adj != 0] != 1).any() for adj, _ in graphs)
    symmetric = all((adj == adj.T).all() for adj, _ in graphs)
    expected = as_raw(graphs, y)
    assert expected.directed == any(((a != 0) & (a.T == 0)).any() for a, _ in graphs)
    assert (expected.edge_weights is not None) == weighted

    sparse = [sp.csr_array, sp.coo_matrix, sp.csc_array, sp.lil_array]
    kinds = [(sparse[g % 4](adj), x) for g, (adj, x) in enumerate(graphs)]
    assert_same(as_raw(kinds, y), expected)

    datas, lines, nets = [], [], []
    for (adj, x), name in zip(graphs, y, strict=True):
        i, j = np.nonzero(adj)
        edges = list(zip(i.tolist(), j.tolist(), strict=True))
        more = {"edge_weight": torch.tensor(adj[i, j])} if weighted else {}
        datas.append(data(len(adj), edges, x=torch.tensor(x), **more))

        weights = {"edge_weights": adj[i, j].tolist()} if weighted else {}
        line = {"nodes": len(adj), "edges": edges, "node_attributes": x.tolist(), "label": name}
        lines.append(json.dumps({**line, **weights, "directed": not symmetric}))

        net = nx.Graph() if symmetric else nx.DiGraph()
        net.graph["label"] = name
        net.add_nodes_from((f"v{n}", {"x": x[n]}) for n in range(len(adj)))
        for a, b in edges:
            net.add_edge(f"v{a}", f"v{b}", **({"weight": adj[a, b]} if weighted else {}))
        nets.append(net)
    assert_same(as_raw(datas, np.array(y)), expected)
    path = tmp_path_factory.getbasetemp() / "routes.jsonl"
    path.write_text("\n".join(lines))
    found = read_graphs(path)
    if len(expected.node_attributes):  # else nothing tells how many columns there are
        assert_same(found, expected)
        assert_same(as_raw(nets), expected)


# --- lists


def test_raw_graphs_are_taken_as_they_are_and_lists_of_them_are_joined() -> None:
    raw = as_raw([TRIANGLE, PAIR], ["a", "b"])
    assert raw.name == "graphs"
    assert as_raw(raw) is raw
    parts = np.empty(2, dtype=object)
    parts[:] = [raw[1], raw[0]]
    for form in ([raw[1], raw[0]], (raw[1], raw[0]), parts):
        joined = as_raw(form, name="joined")
        assert joined.name == "joined"
        assert joined.classes.words() == ["b", "a"]
        assert joined.sizes.tolist() == [2, 3]


def test_a_stack_of_matrices_and_a_generator_are_lists_too() -> None:
    assert len(as_raw(np.stack([PAIR, PAIR]))) == 2
    assert len(as_raw(matrix for matrix in (PAIR, TRIANGLE))) == 2


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        ([], "expected at least one graph, got an empty list"),
        (PAIR, r"expected a list of graphs, got an adjacency matrix: write \[graph\]"),
        (sp.eye_array(2), "expected a list of graphs, got an adjacency matrix"),
        (nx.path_graph(2), "expected a list of graphs, got a NetworkX graph"),
        (data(1, []), "expected a list of graphs, got a PyTorch Geometric Data"),
        (pyg.HeteroData(), "expected a list of graphs, got HeteroData"),
        ([pyg.HeteroData()], "graph 0: expected RawGraphs, .*, got HeteroData: convert"),
        ("graphs.jsonl", "expected a list of graphs, got str: read files with"),
        ({"a": PAIR}, "expected a list of graphs, got dict"),
        (3, "expected a list of graphs, got int"),
        (np.array(3), "expected a list of graphs, got one value"),
        (np.arange(3), "graph 0: expected RawGraphs, .*, got int64"),
        ([PAIR, None], "graph 1: expected RawGraphs, .*, got NoneType"),
        (
            [PAIR, nx.path_graph(2)],
            "graph 1: expected an adjacency matrix as graph 0 is, got a Netw",
        ),
        (
            [data(1, []), PAIR],
            "graph 1: expected a PyTorch Geometric Data as graph 0 is, got an adj",
        ),
    ],
)
def test_what_is_not_a_list_of_one_kind_is_refused(graphs: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        as_raw(graphs)


# --- y


@pytest.mark.parametrize(
    ("y", "names"),
    [
        (["b", "a"], ["b", "a"]),
        ([10, 9], ["10", "9"]),
        (np.array([True, False]), ["True", "False"]),
        (torch.tensor([1, 0]), ["1", "0"]),
        ((np.int64(3), "x"), ["3", "x"]),
        (np.array(["u", "v"], dtype=object), ["u", "v"]),
        (torch.tensor([[1], [0]]), ["1", "0"]),
    ],
)
def test_words_and_whole_numbers_are_classes(y: Any, names: list[str]) -> None:
    raw = as_raw([PAIR, PAIR], y)
    assert raw.classes.words() == names
    assert raw.targets is None


def test_classes_are_in_numerical_order() -> None:
    assert as_raw([PAIR] * 3, [10, 9, -1]).classes.names == (("-1", "9", "10"),)


@pytest.mark.parametrize(
    ("y", "targets"),
    [
        (np.array([0.5, 1.0]), [[0.5], [1]]),
        ([0.5, 1], [[0.5], [1]]),
        (torch.tensor([[1.0, 2.0], [3.0, 4.0]]), [[1, 2], [3, 4]]),
        ([np.float32(0.5), 2.0], [[0.5], [2]]),
    ],
)
def test_floats_are_targets(y: Any, targets: list[list[float]]) -> None:
    raw = as_raw([PAIR, PAIR], y)
    assert raw.targets.tolist() == targets
    assert raw.classes is None


def test_y_takes_the_place_of_what_the_graphs_carry() -> None:
    raw = as_raw([PAIR, PAIR], ["a", "b"])
    assert as_raw(raw, [0.5, 1.5]).classes is None
    assert as_raw(raw, [0.5, 1.5]).targets.tolist() == [[0.5], [1.5]]
    assert as_raw(raw, ["c", "d"]).classes.words() == ["c", "d"]
    odd = [data(1, [], y=torch.tensor([1, 2])), data(1, [])]  # is not even looked at
    assert as_raw(odd, [0, 1]).classes.words() == ["0", "1"]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1], "expected a y for each of 2 graphs, got 1: are some missing"),
        (3, "expected a list or an array as y, got int"),
        (torch.tensor(3), "expected a list or an array as y, got Tensor"),
        ("ab", "expected a list or an array as y, got str"),
        ([1, None], "graph 1: expected a class .*, got None"),
        (["a", 0.5], "graph 1: expected a class .*, got 0.5: give all graphs the same"),
        (np.zeros((2, 2), int), r"graph 0: expected a class .*, got \[0, 0\]"),
        ([0.5, float("nan")], r"graph 1: expected finite numbers as targets, got \[nan\]"),
        ([0.5, 10**400], "graph 1: expected finite numbers as targets"),
        ([[0.5, 1.5], [0.5]], "graph 1: expected 2 targets as graph 0 has, got 1"),
        ([[0.5], []], "graph 1: expected finite numbers as targets, got"),
    ],
)
def test_a_y_that_does_not_fit_is_refused(y: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        as_raw([PAIR, PAIR], y)


# --- PyTorch Geometric


def test_the_fields_of_a_pyg_graph_have_their_places() -> None:
    graph = data(
        3,
        [(0, 1), (1, 0), (1, 2)],
        x=torch.tensor([[1, 0], [0, 1], [1, 0]]),  # one-hot, and still attributes
        edge_attr=torch.tensor([1.0, 2.0, 3.0], dtype=torch.bfloat16),
        edge_weight=torch.tensor([1.0, 2.0, 4.0], requires_grad=True),
        y=torch.tensor([1]),
    )
    raw = as_raw([graph])
    assert raw.directed
    assert (raw.source.tolist(), raw.target.tolist()) == ([1, 0, 1], [0, 1, 2])
    assert raw.node_attributes.tolist() == [[1, 0], [0, 1], [1, 0]]
    assert raw.node_labels is None
    assert raw.edge_attributes.tolist() == [[2], [1], [3]]
    assert raw.edge_weights.tolist() == [2, 1, 4]
    assert raw.classes.words() == ["1"]


@pytest.mark.parametrize("y", [1.5, torch.tensor(1.5), torch.tensor([1.5]), torch.tensor([[1.5]])])
def test_a_float_y_of_pyg_is_a_target(y: Any) -> None:
    assert as_raw([data(1, [], y=y)]).targets.tolist() == [[1.5]]


def test_a_row_of_floats_of_pyg_is_several_targets() -> None:
    assert as_raw([data(1, [], y=torch.tensor([[1.0, 2.0]]))]).targets.tolist() == [[1, 2]]


def test_a_pyg_data_set_is_a_list() -> None:
    class Own(pyg.InMemoryDataset):
        def __init__(self, graphs: list[Any]):
            super().__init__()
            self.data, self.slices = self.collate(graphs)

    graphs = [data(n, [(0, n - 1)], x=torch.ones(n, 1), y=torch.tensor([n % 2])) for n in (1, 2, 3)]
    dataset = Own(graphs)
    assert_same(as_raw(dataset), as_raw(graphs))
    assert_same(as_raw(dataset[1:]), as_raw(graphs[1:]))
    assert_same(as_raw(torch.utils.data.Subset(dataset, [2])), as_raw(graphs[2:]))


def test_what_looks_like_a_pyg_graph_is_one() -> None:
    graph = SimpleNamespace(edge_index=[[0, 1], [1, 0]], num_nodes=2)
    assert_same(as_raw([graph]), as_raw([PAIR]))


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (
            pyg.Batch.from_data_list([data(1, [])]),
            "expected single graphs, got a batch: call its to_",
        ),
        (pyg.Data(x=torch.ones(2, 1)), "expected an edge_index, got none"),
        (SimpleNamespace(edge_index=[[], []]), "expected x or num_nodes, got neither"),
        (SimpleNamespace(edge_index=[[0], [0, 1]], num_nodes=2), "expected an edge_index of whole"),
        (pyg.Data(edge_index=torch.ones(3, 2).long(), num_nodes=2), "got int64 .3, 2.: row 0 has"),
        (pyg.Data(edge_index=torch.ones(2, 2), num_nodes=2), "edge_index of whole .*, got float64"),
        (data(2, [(0, 2)]), "expected edges between nodes 0 to 1, got node 2: are they counted"),
        (data(2, [(0, -1)]), "expected edges between nodes 0 to 1, got node -1"),
        (
            data(2, [], x=torch.ones(2, 1, 1)),
            r"expected x as numbers \[2, columns\], got float64 \[2, ",
        ),
        (data(1, [], x=torch.tensor([[torch.nan]])), "expected finite x, got NaN or infinity"),
        (data(2, [(0, 1)], edge_attr=torch.ones(2)), r"expected edge_attr as numbers \[1, columns"),
        (
            data(2, [(0, 1)], edge_weight=torch.ones(1, 2)),
            "expected one weight for each edge, got 2",
        ),
        (
            data(2, [(0, 1)], edge_weight=-torch.ones(1)),
            "expected edge weights of at least 0, got -1",
        ),
        (data(2, [], y=torch.tensor([0, 1])), r"expected a class .*, got \[0, 1\]"),
    ],
)
def test_a_pyg_graph_that_does_not_fit_is_refused(graph: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"graph 0: .*{message}"):
        as_raw([graph])


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            {"x": torch.ones(1, 1)},
            {},
            "graph 1: expected node_attributes in every graph or in none",
        ),
        ({}, {"x": torch.ones(1, 1)}, "graph 0: expected node_attributes .* some in graph 1: add"),
        ({"y": torch.tensor([1])}, {}, "graph 1: expected y in every graph or in none"),
        (
            {"x": torch.ones(1, 1)},
            {"x": torch.ones(1, 2)},
            "graph 1: expected 1 columns of node_attributes as graph 0 has, got 2: give",
        ),
    ],
)
def test_all_pyg_graphs_have_the_same_fields(first: Any, second: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        as_raw([data(1, [], **first), data(1, [], **second)])


# --- matrices


def test_an_entry_is_an_edge_from_its_row_to_its_column() -> None:
    raw = as_raw([np.array([[0, 1], [0, 0]])])
    assert raw.directed
    assert (raw.source.tolist(), raw.target.tolist()) == ([0], [1])
    assert raw.edge_weights is None


def test_entries_given_twice_add_up_and_zeros_are_no_edges() -> None:
    twice = sp.coo_array(([1.0, 1.0, 0.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    raw = as_raw([twice, PAIR])
    assert raw.num_edges == 3
    assert raw.edge_weights.tolist() == [2, 1, 1]
    assert twice.nnz == 3  # the matrix itself stays as it was


def test_booleans_are_edges_without_weights() -> None:
    assert_same(as_raw([TRIANGLE > 0]), as_raw([TRIANGLE]))


def test_features_may_be_sparse_or_a_tensor() -> None:
    expected = as_raw([(PAIR, np.eye(2))])
    assert expected.node_attributes.tolist() == [[1, 0], [0, 1]]
    assert_same(as_raw([(PAIR, sp.eye_array(2))]), expected)
    assert_same(as_raw([[PAIR, torch.eye(2)]]), expected)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (
            np.ones((2, 3)),
            r"expected a square matrix of numbers, got float64 \[2, 3\]: features go",
        ),
        (PAIR.astype(complex), "expected a square matrix of numbers, got complex128"),
        (np.array([["a"]]), "expected a square matrix of numbers, got <U1"),
        (-PAIR, "expected edge weights of at least 0, got -1.0"),
        (PAIR * np.nan, "expected finite edge weights, got NaN or infinity"),
        (
            (PAIR, np.ones((3, 1))),
            r"expected features as numbers \[2, columns\], got float64 \[3, 1\]",
        ),
        ((PAIR, [["a"], ["b"]]), r"expected features as numbers \[2, columns\], got <U1"),
        ((PAIR, [[1], [2, 3]]), r"expected features as numbers \[2, columns\]"),
        ((PAIR, [[1], [np.inf]]), "expected finite features, got NaN or infinity"),
    ],
)
def test_a_matrix_that_does_not_fit_is_refused(graph: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"graph 1: {message}"):
        as_raw([TRIANGLE if isinstance(graph, np.ndarray) else (TRIANGLE, np.ones((3, 1))), graph])


def test_features_belong_to_all_matrices_or_to_none() -> None:
    with pytest.raises(DataError, match="graph 1: expected features in every graph or in none"):
        as_raw([(PAIR, np.eye(2)), PAIR])


# --- NetworkX


def test_attributes_of_nodes_have_their_places_by_kind_and_name() -> None:
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


def test_parallel_edges_count_as_often_as_they_are_there() -> None:
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
    """Two nodes and an edge, the second node and the edge with these attributes; without any, those of `WHOLE`."""
    made = nx.Graph(**graph)
    made.add_node("u", **WHOLE)
    made.add_node("v", **(WHOLE if node is None else node))
    made.add_edge("u", "v", **({"weight": 1.0} if edge is None else edge))
    return made


WHOLE = {"a": 1.5, "w": "x"}


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (
            net({"w": "x"}),
            "graph 1, node 'v': expected the attribute 'a' as other nodes have it, got",
        ),
        (
            net({**WHOLE, "new": 1}),
            "graph 0, node 'u': expected the attribute 'new' as other nodes",
        ),
        (
            net({**WHOLE, "a": "x"}),
            "graph 1, node 'v': expected numbers, .*, as 'a', got 'x': give",
        ),
        (net({**WHOLE, "a": None}), "graph 1, node 'v': expected numbers, .*, got None"),
        (net({**WHOLE, "a": True}), "graph 1, node 'v': expected numbers, .*, got True"),
        (
            net({**WHOLE, "a": [1, 2]}),
            "graph 1, node 'v': expected 1 numbers as 'a', got 2: give all",
        ),
        (net({**WHOLE, "a": []}), "graph 1, node 'v': expected 1 numbers as 'a', got 0"),
        (net({**WHOLE, "a": np.nan}), "graph 1, node 'v': expected finite numbers as 'a', got nan"),
        (net({**WHOLE, "a": 10**400}), "graph 1, node 'v': expected finite numbers as 'a', got 10"),
        (net({**WHOLE, "w": 2.5}), "graph 0, node 'u': expected numbers, .*, as 'w', got 'x'"),
        (net(edge={}), "graph 1, edge .'u', 'v'.: expected the attribute 'weight' as other edges"),
        (
            net(edge={"weight": -1}),
            "edge .'u', 'v'.: expected finite numbers of at least 0 as 'weigh",
        ),
        (net(edge={"weight": "x"}), "edge .'u', 'v'.: expected numbers, .*, as 'weight', got 'x'"),
        (net(label=1), "graph 0: expected a class in every graph or in none, got none here"),
        (net(target=1), "graph 0: expected a target in every graph or in none, got none here"),
        (net(label=1, y=1), "graph 1: expected its class as 'label' or 'y', got both: keep one"),
    ],
)
def test_a_networkx_graph_that_does_not_fit_is_refused(graph: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        as_raw([net(), graph])


def test_a_class_is_no_float_and_a_target_no_word() -> None:
    with pytest.raises(
        DataError, match=r"graph 0: expected a word .*, got 0.5: numbers to predict go"
    ):
        as_raw([net(label=0.5)])
    with pytest.raises(DataError, match=r"graph 0: expected finite numbers as targets, got .'x'"):
        as_raw([net(target="x")])


# --- files


def test_files_are_read_by_their_suffix(tmp_path: Path) -> None:
    raw = as_raw([TRIANGLE, PAIR, PAIR], ["a", "b", "b"])
    for name in ("own.jsonl", "own.jsonl.gz"):
        jsonl.write_jsonl(tmp_path / name, raw)
        assert_same(read_graphs(tmp_path / name), raw)
        assert_same(as_raw(list(iter_graphs(str(tmp_path / name), 2))), raw)


TU = {
    "A": "1, 2\n2, 1\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n2\n3\n3\n",
    "graph_labels": "1\n2\n1\n",
}


@pytest.mark.parametrize("storage", ["folder", "raw", "inner", "zip"])
def test_a_tu_folder_is_read_by_the_name_inside(tmp_path: Path, storage: str) -> None:
    if storage == "zip":
        path = tmp_path / "download.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for part, text in TU.items():
                archive.writestr(f"MINE/MINE_{part}.txt", text)
            archive.writestr("__MACOSX/MINE/._MINE_A.txt", "")
    else:
        path = tmp_path / "download"
        inner = path / {"folder": ".", "raw": "raw", "inner": "MINE"}[storage]
        inner.mkdir(parents=True)
        for part, text in TU.items():
            (inner / f"MINE_{part}.txt").write_text(text)
    expected = as_raw([PAIR, np.zeros((1, 1)), PAIR], [1, 2, 1])
    assert_same(read_graphs(path), expected)
    parts = list(iter_graphs(path, 2))
    assert [len(part) for part in parts] == [2, 1]
    assert_same(as_raw(parts), expected)


def test_a_tu_folder_has_one_data_set(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected one file NAME_A.txt, got none: is it in the TU"):
        read_graphs(tmp_path)
    for name in ("X", "Y"):
        (tmp_path / f"{name}_A.txt").touch()
    with pytest.raises(DataError, match=r"expected one file NAME_A.txt, got 2 of them \(X, Y\)"):
        read_graphs(tmp_path)


def test_a_zip_file_has_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_text("x")
    with pytest.raises(DataError, match=r"a\.zip: expected a zip file, got something else or half"):
        read_graphs(tmp_path / "a.zip")


@pytest.mark.parametrize("read", [read_graphs, lambda path: iter_graphs(path, 1)])
def test_a_file_of_another_kind_or_none_is_refused(tmp_path: Path, read: Any) -> None:
    with pytest.raises(DataError, match=r"a\.jsonl: expected a file or a folder, got none there"):
        read(tmp_path / "a.jsonl")
    (tmp_path / "a.gml").touch()
    with pytest.raises(
        DataError, match=r"a\.gml: expected a folder or a file that ends in .* got .gml"
    ):
        read(tmp_path / "a.gml")
    (tmp_path / "a").touch()
    with pytest.raises(DataError, match="got no suffix: name it after"):
        read(tmp_path / "a")


def test_columns_are_named_for_csv_files_only(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(SettingError, match=r"expected names of columns for a \.csv file only"):
        read_graphs(tmp_path / "a.jsonl", label="y")
    with pytest.raises(SettingError, match="expected at least 1 graph at a time, got 0"):
        iter_graphs(tmp_path / "a.jsonl", 0)


def test_no_library_of_graphs_is_imported() -> None:
    source = Path(own.__file__).read_text()
    assert "import networkx" not in source
    assert "import torch" not in source
