"""Any module may compute the assignment."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from pooling.layers import SIZES, call, close, inputs, layer
from samples import sample
from torch import Tensor, nn

from diffpool import DiffPooling, SparseGraphs
from diffpool.errors import SettingError
from diffpool.nn import Encoder


class Recorder(nn.Module):
    """An assignment network that records what it is called with."""

    def __init__(self, clusters: int):
        super().__init__()
        self.linear = nn.Linear(3, clusters, dtype=torch.float64)
        self.seen: dict[str, Any] = {}

    def record(self, x: Tensor, **seen: Any) -> Tensor:
        self.seen = seen
        return self.linear(x)


class OfEdges(Recorder):
    def forward(self, x, edge_index, edge_weight=None, edge_attr=None, batch=None, batch_size=None):  # type: ignore[no-untyped-def]
        return self.record(
            x,
            edge_index=edge_index,
            edge_weight=edge_weight,
            edge_attr=edge_attr,
            batch=batch,
            batch_size=batch_size,
        )


class OfEdgesOnly(Recorder):
    def forward(self, x, edge_index, size=None):  # type: ignore[no-untyped-def]
        return self.record(x, edge_index=edge_index, size=size)


class OfAdj(Recorder):
    def forward(self, x, adj, mask=None):  # type: ignore[no-untyped-def]
        return self.record(x, adj=adj, mask=mask)


class OfGraphs(Recorder):
    def forward(self, graphs, x):  # type: ignore[no-untyped-def]
        return self.record(x, graphs=graphs)


class OfNodes(Recorder):
    def forward(self, features):  # type: ignore[no-untyped-def]
        return self.record(features)


def test_a_module_is_called_by_the_names_of_its_arguments() -> None:
    ragged = sample(SIZES, weighted=True)
    x, edge_index, batch, weight = inputs(ragged)
    attributes = torch.rand(edge_index.shape[1], 2)
    given = {"edge_weight": weight, "edge_attr": attributes, "batch_size": len(SIZES)}
    expected = None
    for kind in (OfEdges, OfEdgesOnly, OfGraphs, OfNodes):
        torch.manual_seed(0)
        assign = kind(3)
        out = DiffPooling(assign=assign)(x, edge_index, batch, **given)
        expected = out if expected is None else expected
        close(out.adj, expected.adj)
        if kind is OfEdges:
            assert assign.seen["edge_index"] is edge_index
            assert assign.seen["edge_weight"] is weight
            assert assign.seen["edge_attr"] is attributes
            assert torch.equal(assign.seen["batch"], batch)
            assert assign.seen["batch_size"] == len(SIZES)
        elif kind is OfEdgesOnly:
            assert assign.seen["size"] is None
        elif kind is OfGraphs:
            assert isinstance(assign.seen["graphs"], SparseGraphs)


def test_modules_for_edges_and_for_padded_graphs_work_on_coarse_levels() -> None:
    first = call(layer(ratio=0.5, max_clusters=4), sample(SIZES))
    for kind in (OfEdges, OfAdj):
        assign = kind(2)
        out = DiffPooling(assign=assign)(first.x, first.graphs)
        s = torch.cat([out.assignment.of_graph(g) for g in range(len(SIZES))])
        close(s, assign.linear(first.x).softmax(1))
        if kind is OfEdges:
            assert torch.equal(assign.seen["edge_index"], first.edge_index)
            close(assign.seen["edge_weight"], first.edge_weight)
        else:
            close(assign.seen["adj"], first.adj)
            assert torch.equal(assign.seen["mask"], first.mask)


def test_an_encoder_of_the_package_gets_the_clusters_of_each_graph() -> None:
    torch.manual_seed(0)
    own = DiffPooling(3, ratio=0.5, max_clusters=4).double().eval()
    encoder = copy.deepcopy(own.assign)
    assert isinstance(encoder, Encoder)
    other = DiffPooling(assign=encoder, ratio=0.5)
    ragged = sample(SIZES)
    close(call(own, ragged).x, call(other, ragged).x)


def test_reset_parameters_initializes_every_part_again() -> None:
    pools = [DiffPooling(3, num_clusters=2), DiffPooling(assign=nn.Sequential(nn.Linear(3, 2)))]
    for pool in pools:
        before = [p.detach().clone() for p in pool.parameters()]
        with torch.no_grad():
            for p in pool.parameters():
                p.fill_(7)
        pool.reset_parameters()
        for p, shape in zip(pool.parameters(), before, strict=True):
            assert p.shape == shape.shape
            assert (p != 7).all()
        torch.manual_seed(1)
        pool.reset_parameters()
        once = [p.detach().clone() for p in pool.parameters()]
        torch.manual_seed(1)
        pool.reset_parameters()
        assert all(torch.equal(p, q) for p, q in zip(pool.parameters(), once, strict=True))
    DiffPooling().reset_parameters()  # without parameters


def test_a_module_that_does_not_name_its_arguments_is_refused() -> None:
    class Anything(nn.Module):
        def forward(self, *args, **kwargs):  # type: ignore[no-untyped-def]
            return args[0]

    with pytest.raises(SettingError, match=r"forward names its arguments, got Anything.*wrap it"):
        DiffPooling(assign=Anything())


def test_layers_and_models_of_pyg_compute_the_assignment() -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    ragged = sample(SIZES, weighted=True).to(torch.float32)
    x, edge_index, batch, weight = inputs(ragged)
    attributes = torch.rand(edge_index.shape[1], 2)
    modules = {
        "SAGEConv": pyg.SAGEConv(3, 4),
        "GCNConv": pyg.GCNConv(3, 4),
        "GATv2Conv": pyg.GATv2Conv(3, 4, edge_dim=2),
        "GIN": pyg.GIN(3, 8, 2, 4),
        "MLP": pyg.MLP([3, 8, 4]),
        "Sequential": pyg.Sequential("x, edge_index", [(pyg.SAGEConv(3, 4), "x, edge_index -> x")]),
    }
    for name, module in modules.items():
        pool = DiffPooling(assign=module.eval())
        out = pool(x, edge_index, batch, edge_weight=weight, edge_attr=attributes)
        if name == "MLP":
            logits = module(x)
        elif name == "GCNConv":
            logits = module(x, edge_index, weight)
        elif name == "GATv2Conv":
            logits = module(x, edge_index, attributes)
        else:
            logits = module(x, edge_index)
        torch.testing.assert_close(out.assignment.s, logits.softmax(1), rtol=1e-5, atol=1e-6)
        assert pool(out.x, out.graphs).x.shape == out.x.shape or name == "GATv2Conv"
        pool.reset_parameters()


def test_dense_layers_of_pyg_compute_the_assignment_of_a_coarse_level() -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    out = call(layer(ratio=0.5, max_clusters=4), sample(SIZES))
    conv = pyg.DenseSAGEConv(3, 2).double()
    last = DiffPooling(assign=conv)(out.x, out.graphs)
    logits = conv(out.x_dense, out.adj, out.mask)[out.mask]
    close(last.assignment.s, logits.softmax(1))
