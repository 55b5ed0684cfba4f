"""Graphs in memory: all forms give the same result, and anything else is an error."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from diffpool.data.convert import as_raw
from diffpool.data.sources import read_graphs
from diffpool.errors import DataError
from tests.data.test_jsonl import assert_same

nx = pytest.importorskip("networkx")

pyg = pytest.importorskip("torch_geometric.data")

TRIANGLE = np.ones((3, 3)) - np.eye(3)
PAIR = np.array([[0.0, 1.0], [1.0, 0.0]])


def data(n: int, edges: list[tuple[int, int]], **more: Any) -> Any:
    index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    return pyg.Data(edge_index=index, num_nodes=n, **more)


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
def test_all_forms_give_the_same_graphs(
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
    if len(expected.node_attributes):  # else the number of columns is unknown
        assert_same(found, expected)
        assert_same(as_raw(nets), expected)


# --- lists


def test_raw_graphs_are_returned_unchanged_and_lists_of_them_are_joined() -> None:
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


def test_a_stack_of_matrices_and_a_generator_are_accepted_as_lists() -> None:
    assert len(as_raw(np.stack([PAIR, PAIR]))) == 2
    assert len(as_raw(matrix for matrix in (PAIR, TRIANGLE))) == 2


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        ([], "expected at least one graph, got an empty list"),
        (PAIR, r"expected a list of graphs, got an adjacency matrix. Write \[graph\]"),
        (sp.eye_array(2), "expected a list of graphs, got an adjacency matrix"),
        (nx.path_graph(2), "expected a list of graphs, got a NetworkX graph"),
        (data(1, []), "expected a list of graphs, got a PyTorch Geometric Data"),
        (pyg.HeteroData(), "expected a list of graphs, got HeteroData"),
        ([pyg.HeteroData()], "graph 0: expected RawGraphs, .*, got HeteroData. Convert"),
        ("graphs.jsonl", "expected a list of graphs, got str. Read files with"),
        ({"a": PAIR}, "expected a list of graphs, got dict"),
        (3, "expected a list of graphs, got int"),
        (np.array(3), "expected a list of graphs, got one value"),
        (np.arange(3), "graph 0: expected RawGraphs, .*, got int64"),
        ([PAIR, None], "graph 1: expected RawGraphs, .*, got NoneType"),
        (
            [PAIR, nx.path_graph(2)],
            "graph 1: expected an adjacency matrix, like graph 0, got a Netw",
        ),
        (
            [data(1, []), PAIR],
            "graph 1: expected a PyTorch Geometric Data, like graph 0, got an adj",
        ),
    ],
)
def test_anything_but_a_list_of_one_kind_is_an_error(graphs: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        as_raw(graphs)
