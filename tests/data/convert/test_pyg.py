"""Graphs and data sets of PyTorch Geometric."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from diffpool import DiffPoolClassifier, load_model
from diffpool.data.convert import as_raw
from diffpool.errors import DataError
from tests.data.test_jsonl import assert_same

pyg = pytest.importorskip("torch_geometric.data")

TRIANGLE = np.ones((3, 3)) - np.eye(3)
PAIR = np.array([[0.0, 1.0], [1.0, 0.0]])


def data(n: int, edges: list[tuple[int, int]], **more: Any) -> Any:
    index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    return pyg.Data(edge_index=index, num_nodes=n, **more)


def test_all_fields_of_a_pyg_graph_are_converted() -> None:
    graph = data(
        3,
        [(0, 1), (1, 0), (1, 2)],
        x=torch.tensor([[1, 0], [0, 1], [1, 0]]),  # one-hot columns stay attributes
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
    assert raw.classes.labels() == (1,)


@pytest.mark.parametrize("y", [1.5, torch.tensor(1.5), torch.tensor([1.5]), torch.tensor([[1.5]])])
def test_a_floating_point_y_is_a_target(y: Any) -> None:
    assert as_raw([data(1, [], y=y)]).targets.tolist() == [[1.5]]


def test_a_row_of_floats_is_several_targets() -> None:
    assert as_raw([data(1, [], y=torch.tensor([[1.0, 2.0]]))]).targets.tolist() == [[1, 2]]


def test_a_pyg_data_set_is_accepted_as_a_list() -> None:
    class Own(pyg.InMemoryDataset):
        def __init__(self, graphs: list[Any]):
            super().__init__()
            self.data, self.slices = self.collate(graphs)

    graphs = [data(n, [(0, n - 1)], x=torch.ones(n, 1), y=torch.tensor([n % 2])) for n in (1, 2, 3)]
    dataset = Own(graphs)
    assert_same(as_raw(dataset), as_raw(graphs))
    assert_same(as_raw(dataset[1:]), as_raw(graphs[1:]))
    assert_same(as_raw(torch.utils.data.Subset(dataset, [2])), as_raw(graphs[2:]))


def rings(count: int = 6) -> list[Any]:
    return [data(n, [(0, n - 1)], x=torch.ones(n, 1), y=n % 2) for n in range(1, count + 1)]


def test_a_loader_stands_for_its_data_set_and_a_batch_for_its_graphs() -> None:
    loading = pytest.importorskip("torch_geometric.loader")
    graphs = rings()
    expected = as_raw(graphs)
    for more in ({}, {"shuffle": True}, {"shuffle": True, "drop_last": True}, {"batch_size": None}):
        assert_same(as_raw(loading.DataLoader(graphs, **{"batch_size": 4, **more})), expected)
    assert_same(as_raw(pyg.Batch.from_data_list(graphs)), expected)


def test_a_loader_of_some_of_its_graphs_is_an_error() -> None:
    loading = pytest.importorskip("torch_geometric.loader")
    graphs = rings()
    some = torch.utils.data.SubsetRandomSampler([1, 2])
    twice = torch.utils.data.RandomSampler(graphs, replacement=True)
    for loader in (
        loading.DataLoader(graphs, sampler=some),
        loading.DataLoader(graphs, sampler=twice),
        loading.DataLoader(graphs, batch_sampler=[[0, 1]]),
    ):
        with pytest.raises(DataError, match=r"a DataLoader of all its graphs.*dataset\[indices\]"):
            as_raw(loader)


def test_a_batch_made_by_hand_cannot_be_divided() -> None:
    batch = pyg.Batch(edge_index=torch.tensor([[0], [1]]), batch=torch.tensor([0, 0]))
    with pytest.raises(DataError, match="a Batch made of a list of graphs, got one that does not"):
        as_raw(batch)


def test_a_tu_data_set_of_pyg_is_read_with_its_transform(tmp_path: Path) -> None:
    transforms = pytest.importorskip("torch_geometric.transforms")
    datasets = pytest.importorskip("torch_geometric.datasets")
    raw = tmp_path / "TINY" / "raw"
    raw.mkdir(parents=True)
    files = {
        "A": "1, 2\n2, 1\n3, 4\n4, 3\n",
        "graph_indicator": "1\n1\n2\n2\n2\n",
        "graph_labels": "1\n2\n",
        "node_attributes": "0.5\n1\n2\n3\n4\n",
    }
    for name, text in files.items():
        (raw / f"TINY_{name}.txt").write_text(text)
    dataset = datasets.TUDataset(
        tmp_path, "TINY", use_node_attr=True, transform=transforms.Constant()
    )
    found = as_raw(dataset)
    assert found.sizes.tolist() == [2, 3]
    assert found.node_attributes.tolist() == [[0.5, 1], [1, 1], [2, 1], [3, 1], [4, 1]]
    assert found.classes.labels() == (0, 1)


def test_an_object_with_an_edge_index_is_accepted() -> None:
    graph = SimpleNamespace(edge_index=[[0, 1], [1, 0]], num_nodes=2)
    assert_same(as_raw([graph]), as_raw([PAIR]))


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (
            pyg.Batch.from_data_list([data(1, [])]),
            "expected a single graph, got a batch. Call its to_",
        ),
        (pyg.Data(x=torch.ones(2, 1)), "expected an edge_index, got None"),
        (SimpleNamespace(edge_index=[[], []]), "expected x or num_nodes, got neither"),
        (
            SimpleNamespace(edge_index=[[0], [0, 1]], num_nodes=2),
            "expected an edge_index of integers",
        ),
        (
            pyg.Data(edge_index=torch.ones(3, 2).long(), num_nodes=2),
            "got int64 .3, 2.. Row 0 holds",
        ),
        (
            pyg.Data(edge_index=torch.ones(2, 2), num_nodes=2),
            "edge_index of integers .*, got float64",
        ),
        (
            data(2, [(0, 2)]),
            "node 2 does not exist .the graph has 2 nodes, numbered 0 to 1.. Are nodes counted",
        ),
        (data(2, [(0, -1)]), "node -1 does not exist"),
        (
            data(2, [], x=torch.ones(2, 1, 1)),
            r"expected x as numbers \[2, columns\], got float64 \[2, ",
        ),
        (data(1, [], x=torch.tensor([[torch.nan]])), "expected finite x, got NaN, infinity or"),
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
def test_an_invalid_pyg_graph_is_an_error(graph: Any, message: str) -> None:
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
        (
            {},
            {"x": torch.ones(1, 1)},
            "graph 0: expected node_attributes .* but graph 1 has it and this one does not. Add",
        ),
        ({"y": torch.tensor([1])}, {}, "graph 1: expected y in every graph or in none"),
        (
            {"x": torch.ones(1, 1)},
            {"x": torch.ones(1, 2)},
            "graph 1: expected 1 columns of node_attributes, as in graph 0, got 2. Give",
        ),
    ],
)
def test_graphs_with_different_fields_are_an_error(first: Any, second: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        as_raw([data(1, [], **first), data(1, [], **second)])


def test_sparse_and_quantized_features_are_converted() -> None:
    x = torch.eye(2)
    quantized = torch.quantize_per_tensor(x, 0.5, 0, torch.qint8)
    for form in (x.to_sparse(), x.to_sparse_csr(), quantized):
        raw = as_raw([SimpleNamespace(edge_index=torch.zeros(2, 0).long(), x=form)])
        assert raw.node_attributes.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("nodes", [2.5, -1, "a", 10**18, [2]])
def test_a_number_of_nodes_that_is_no_count_is_an_error(nodes: Any) -> None:
    graph = SimpleNamespace(edge_index=np.zeros((2, 0), int), num_nodes=nodes)
    with pytest.raises(DataError, match="graph 0: expected num_nodes to be an integer from 0 to"):
        as_raw([graph])


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.eye(2, device="meta"), "graph 0: x: expected a tensor that can be converted"),
        (torch.eye(2).to(torch.complex64).conj(), "expected x as numbers"),
        (np.ma.masked_array(np.eye(2), np.eye(2)), "graph 0: x: expected no masked values"),
        (np.full((2, 1), 1e39), "expected finite x, got NaN, infinity or numbers above 3.4e.38"),
        (5, "expected x with one row for each node, got 5"),
    ],
)
def test_features_of_another_kind_are_an_error(x: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        as_raw([SimpleNamespace(edge_index=torch.tensor([[0], [1]]), x=x)])


def test_weights_may_be_a_list() -> None:
    graph = SimpleNamespace(edge_index=[[0, 1], [1, 0]], num_nodes=2, edge_weight=[1.0, 2.5])
    assert as_raw([graph]).edge_weights.tolist() == [2.5, 1]


def ring(n: int, label: int) -> Any:
    edges = [(i, (i + 1) % n) for i in range(n)] + [((i + 1) % n, i) for i in range(n)]
    return data(
        n,
        edges,
        x=torch.full((n, 2), float(label)),
        pos=torch.arange(3.0 * n).reshape(n, 3),
        charge=torch.arange(float(n)),
        length=torch.ones(2 * n),
        y=torch.tensor([label]),
    )


def test_chosen_tensors_are_used_side_by_side() -> None:
    raw = as_raw([ring(4, 0)], node_attributes=["charge", "pos"], edge_attributes=["length"])
    np.testing.assert_array_equal(raw.node_attributes[:2], [[0, 0, 1, 2], [1, 3, 4, 5]])
    assert raw.edge_attributes.tolist() == [[1.0]] * 8
    assert raw.names.node_attributes == ("charge", "pos", "pos", "pos")
    assert as_raw([ring(4, 0)], node_attributes=[]).node_attributes is None


def test_a_missing_tensor_is_an_error_that_suggests_another() -> None:
    with pytest.raises(
        DataError, match=r"graph 1: expected nodes with the attribute 'pos'.*edge_index"
    ):
        as_raw([ring(4, 0), data(3, [(0, 1)])], node_attributes=["pos"])
    with pytest.raises(DataError, match="Did you mean charge"):
        as_raw([ring(4, 0)], node_attributes=["chrage"])
    with pytest.raises(DataError, match="length"):
        as_raw([ring(4, 0)], node_attributes=["length"])  # one value for each edge


def test_a_model_reads_the_tensors_that_it_was_trained_on(tmp_path: Path) -> None:
    graphs = [ring(n, n % 2) for n in range(4, 24)]
    model = DiffPoolClassifier(
        node_attributes=["charge"], epochs=1, hidden=4, min_clusters=2, device="cpu"
    ).fit(graphs)
    before = model.predict_proba(graphs)
    model.save(tmp_path / "m")
    for graph in graphs:
        graph.x = graph.x + 100  # not used
    after = load_model(tmp_path / "m").predict_proba(graphs)
    np.testing.assert_allclose(after, before, rtol=1e-6)
