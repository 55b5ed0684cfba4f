"""Batches of graphs from and to PyTorch Geometric, NetworkX and SciPy."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from samples import KINDS, Sample, randn, sample
from torch import Tensor
from torch.utils.data import DataLoader

from diffpool import SparseGraphs
from diffpool.errors import DataError

nx = pytest.importorskip("networkx")
pyg = pytest.importorskip("torch_geometric.data")

EDGE = torch.tensor([[0, 1], [1, 0]])


def whole(graphs: SparseGraphs) -> Tensor:
    """A of the batch: row i holds the edges that point to node i."""
    matrix = torch.block_diag(*(graphs.block(g) for g in range(len(graphs))))
    return matrix.reshape(graphs.num_nodes, graphs.num_nodes).double()


def assert_graphs(graphs: SparseGraphs, ragged: Sample) -> None:
    assert graphs.layout.sizes.tolist() == ragged.sizes
    torch.testing.assert_close(whole(graphs), torch.block_diag(*ragged.adjs))
    torch.testing.assert_close(graphs.degree, ragged.sparse.degree)


@pytest.fixture(params=KINDS)
def ragged(request: pytest.FixtureRequest) -> Sample:
    return sample(**KINDS[request.param])


def test_a_batch_of_pyg_becomes_graphs_and_comes_back(ragged: Sample) -> None:
    y = torch.arange(len(ragged.sizes))
    batch = ragged.sparse.to_pyg(ragged.x, y)
    assert_graphs(SparseGraphs.from_pyg(batch, dtype=torch.float64), ragged)
    assert torch.equal(batch.x, ragged.x)
    assert torch.equal(batch.y, y)
    for g, data in enumerate(batch.to_data_list()):
        assert torch.equal(data.x, ragged.xs[g])
        alone = SparseGraphs.from_pyg(data, dtype=torch.float64)
        torch.testing.assert_close(whole(alone), ragged.adjs[g])


def test_networkx_graphs_become_graphs_and_come_back(ragged: Sample) -> None:
    graphs = ragged.sparse.to_networkx()
    symmetric = all(torch.equal(a, a.T) for a in ragged.adjs)
    assert all(graph.is_directed() != symmetric for graph in graphs)
    for graph, adj in zip(graphs, ragged.adjs, strict=True):
        if len(adj):  # NetworkX has no empty matrix
            np.testing.assert_allclose(nx.to_numpy_array(graph), adj.T.numpy())
    assert_graphs(SparseGraphs.from_networkx(graphs, dtype=torch.float64), ragged)


@pytest.mark.parametrize("form", [sp.csr_array, sp.coo_matrix, sp.csc_array, np.asarray])
def test_matrices_become_graphs_and_come_back(ragged: Sample, form: Any) -> None:
    matrices = ragged.sparse.to_scipy()
    for matrix, adj in zip(matrices, ragged.adjs, strict=True):
        np.testing.assert_array_equal(matrix.toarray(), adj.T.numpy())
    given = [form(matrix.toarray()) for matrix in matrices]
    assert_graphs(SparseGraphs.from_scipy(given, dtype=torch.float64), ragged)


def test_a_single_graph_needs_no_list() -> None:
    pair = [[0.0, 1.0], [1.0, 0.0]]
    for graphs in (
        SparseGraphs.from_pyg(pyg.Data(edge_index=EDGE, num_nodes=2)),
        SparseGraphs.from_pyg(SimpleNamespace(edge_index=EDGE, x=torch.ones(2, 1))),
        SparseGraphs.from_networkx(nx.path_graph(["a", "b"])),
        SparseGraphs.from_scipy(sp.coo_array(np.array(pair))),
    ):
        assert whole(graphs).tolist() == pair
        assert graphs.edge_weight is None
        assert graphs.edge_index.tolist() == [[1, 0], [0, 1]]


def test_graphs_of_the_loader_may_be_empty() -> None:
    datas = [pyg.Data(edge_index=EDGE[:, :0], num_nodes=n) for n in (0, 2, 0)]
    graphs = SparseGraphs.from_pyg(pyg.Batch.from_data_list(datas))
    assert graphs.layout.sizes.tolist() == [0, 2, 0]
    assert graphs.to_pyg().num_graphs == 3


def test_edge_features_are_read_on_request_and_returned() -> None:
    index = torch.tensor([[0, 1, 2], [1, 2, 0]])
    data = pyg.Data(edge_index=index, num_nodes=3, edge_attr=randn(3, 2, seed=0))
    assert not SparseGraphs.from_pyg(data).channels
    graphs = SparseGraphs.from_pyg(data, edge_features=True, dtype=torch.float64)
    assert len(graphs.channels) == 2
    back = graphs.to_pyg()
    order = back.edge_index[0].argsort()
    assert torch.equal(back.edge_index[:, order], index)
    assert torch.equal(back.edge_attr[order], data.edge_attr)
    (graph,) = graphs.to_networkx()
    assert graph.is_directed()
    assert graph.edges[1, 2]["edge_attr"] == data.edge_attr[1].tolist()


def test_parallel_edges_and_repeated_entries_are_added_up() -> None:
    multi = nx.MultiDiGraph([(0, 1), (0, 1), (1, 0)])
    assert whole(SparseGraphs.from_networkx(multi)).tolist() == [[0, 1], [2, 0]]
    nx.set_edge_attributes(multi, 0.5, "strength")
    weighted = SparseGraphs.from_networkx(multi, weight="strength")
    assert whole(weighted).tolist() == [[0, 0.5], [1, 0]]
    ones = sp.coo_array((np.ones(3), ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    assert whole(SparseGraphs.from_scipy(ones)).tolist() == [[0, 1], [2, 0]]


BATCH = pyg.Batch.from_data_list([pyg.Data(edge_index=EDGE, num_nodes=2)])
PARTLY = nx.Graph([(0, 1), (1, 2)])
PARTLY.edges[0, 1]["weight"] = 2
NAMED = nx.Graph()
NAMED.add_edge(0, 1, weight="strong")


@pytest.mark.parametrize(
    ("source", "value", "message"),
    [
        ("pyg", [BATCH], "got a list: join the graphs with Batch.from_data_list"),
        ("pyg", DataLoader([BATCH]), "got a DataLoader: loop over it, and pass each batch"),
        ("pyg", pyg.HeteroData(), r"one type of nodes, got HeteroData: .* to_homogeneous\(\)"),
        (
            "pyg",
            pyg.Data(num_nodes=2),
            r"got Data without one: for a graph without edges.*\[2, 0\]",
        ),
        ("pyg", SimpleNamespace(adj_t=1), "leave out the transform ToSparseTensor"),
        ("pyg", nx.Graph(), "expected a Batch or a Data with edge_index .*, got Graph"),
        ("pyg", SimpleNamespace(edge_index=EDGE), "expected x or num_nodes, got neither"),
        ("networkx", BATCH, "a NetworkX graph or a list of them, got DataBatch: .*from_pyg"),
        ("networkx", [sp.eye_array(2)], "graph 0: expected a NetworkX graph, .*from_scipy"),
        ("networkx", EDGE, "got Tensor: for edges as tensors, use SparseGraphs.from_edge_index"),
        ("networkx", PARTLY, "'weight' on all edges or on none, got 2 of 4 edges without it"),
        ("networkx", NAMED, "numbers as the attribute 'weight' .*, got others"),
        ("scipy", nx.Graph(), "graph 0: expected a SciPy or NumPy matrix, got Graph: .*networkx"),
        ("scipy", np.ones((2, 3)), r"graph 0: .* square matrix .*, got float64 \[2, 3\]"),
        ("scipy", -np.ones((2, 2)), "finite edge weights of at least 0, got others"),
    ],
)
def test_other_objects_are_explained(source: str, value: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        getattr(SparseGraphs, f"from_{source}")(value)


def test_edge_features_must_exist_and_tables_must_fit() -> None:
    with pytest.raises(DataError, match="expected edge_attr, because edge_features=True, got none"):
        SparseGraphs.from_pyg(BATCH, edge_features=True)
    graphs = SparseGraphs.from_pyg(BATCH)
    with pytest.raises(DataError, match="expected x with one row for each of 2 nodes, got 3"):
        graphs.to_pyg(torch.ones(3, 1))
    with pytest.raises(DataError, match="expected y with one row for each of 1 graphs, got 2"):
        graphs.to_pyg(y=torch.ones(2))
    with pytest.raises(DataError, match="expected at least one graph, got none"):
        SparseGraphs.from_scipy([]).to_pyg()


@pytest.mark.parametrize(
    ("module", "method", "extra"),
    [("torch_geometric.data", "to_pyg", "pyg"), ("networkx", "to_networkx", "networkx")],
)
def test_a_missing_library_is_named_with_its_extra(
    module: str, method: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DataError, match=rf"required .*pip install 'diffpool\[{extra}\]'"):
        getattr(SparseGraphs.from_pyg(BATCH), method)()
