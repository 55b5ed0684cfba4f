"""Models take PyTorch Geometric's batches, and trained ones are modules of larger models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from samples import sample
from torch import Tensor, nn

from diffpool import (
    Architecture,
    DiffPoolClassifier,
    GraphDataset,
    SparseGraphs,
    Training,
    as_raw,
    build,
    load_model,
    train,
)
from diffpool.architecture import PAPER
from diffpool.builder import build_for_nodes
from diffpool.data import single_split
from diffpool.errors import DataError
from diffpool.nn import GraphClassifier, Prediction

pyg = pytest.importorskip("torch_geometric.data")
loading = pytest.importorskip("torch_geometric.loader")


def cycles_and_paths(count: int = 24) -> list[Any]:
    graphs = []
    for g in range(count):
        n = 4 + g % 5
        ends = torch.arange(n - g % 2)
        edges = torch.stack([ends, (ends + 1) % n])
        x = torch.randn(n, 3, generator=torch.Generator().manual_seed(g)) + g % 2
        both = torch.cat([edges, edges.flip(0)], 1)
        graphs.append(pyg.Data(x=x, edge_index=both, y=torch.tensor([g % 2])))
    return graphs


def same(a: Prediction, b: Prediction) -> None:
    torch.testing.assert_close(a.logits, b.logits)
    torch.testing.assert_close(a.losses, b.losses)


def test_a_batch_is_its_edges_and_its_features() -> None:
    ragged = sample().to(torch.float32)
    batch = ragged.sparse.to_pyg(ragged.x)
    for make in (build, build_for_nodes):
        model: Any = make(Architecture(poolings=2), 3, 2, largest=7).eval()
        same(model(batch), model(ragged.sparse, ragged.x))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.ones(2, 3),), "expected a Batch or a Data with edge_index .*, got Tensor"),
        ((torch.ones(2, 3), torch.ones(2, 3)), r"got a tensor as the graphs: call model\(batch\)"),
        ((sample().sparse,), r"features of the nodes, got none: call model\(graphs, x\)"),
        (
            (sample().sparse.to_pyg(torch.ones(25, 3).long()),),
            r"floating-point numbers, got torch.int64: call model\(graphs, x.float",
        ),
        ((sample().sparse.to_pyg(),), "features of the nodes as x of the batch, got none: add"),
    ],
)
def test_wrong_arguments_are_explained(arguments: tuple[Any, ...], message: str) -> None:
    model = build(PAPER, 3, 2, largest=7)
    with pytest.raises(DataError, match=message):
        model(*arguments)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a trained model."""
    directory = tmp_path_factory.mktemp("models") / "rings"
    graphs = loading.DataLoader(cycles_and_paths(), batch_size=8, shuffle=True)
    DiffPoolClassifier(epochs=2, hidden=4, min_clusters=2, device="cpu").fit(graphs).save(directory)
    return directory


def test_a_trained_model_takes_batches_as_a_module(trained: Path) -> None:
    model, graphs = load_model(trained), cycles_and_paths()
    probabilities = torch.from_numpy(model.predict_proba(graphs))
    assert isinstance(model.model, GraphClassifier)
    assert not model.model.training
    batch = pyg.Batch.from_data_list(graphs)
    for found in (model.model(batch), model.model(*model.inputs(graphs))):
        torch.testing.assert_close(found.logits.softmax(-1).detach(), probabilities)
    together = [model.model(part).logits for part in loading.DataLoader(graphs, batch_size=5)]
    torch.testing.assert_close(torch.cat(together), model.model(batch).logits)


class Larger(nn.Module):
    """A trained network with another head, next to features of the whole graph."""

    def __init__(self, network: GraphClassifier, width: int):
        super().__init__()
        self.network = network
        self.head = nn.Linear(width + 1, 2)

    def forward(self, batch: Any) -> tuple[Tensor, Tensor]:
        out = self.network(batch)
        size = batch.ptr.diff()[:, None].float()
        loss = torch.stack(list(out.losses.values())).sum(0).mean()
        return self.head(torch.cat([out.embedding, size], 1)), loss


def test_a_trained_model_is_fine_tuned_in_a_larger_one(trained: Path) -> None:
    network = load_model(trained).model
    assert isinstance(network, GraphClassifier)
    batch = pyg.Batch.from_data_list(cycles_and_paths())
    torch.manual_seed(0)
    model = Larger(network, network(batch).embedding.shape[1]).train()
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(15):
        logits, auxiliary = model(batch)
        loss = F.cross_entropy(logits, batch.y) + 0.01 * auxiliary
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.7 * losses[0]
    for name, p in network.named_parameters():
        if not name.startswith("head"):  # replaced by the new one
            assert not torch.equal(p, before[name]), name


def test_train_takes_the_data_structures_of_pyg() -> None:
    graphs = cycles_and_paths()
    dataset = GraphDataset.from_raw(as_raw(graphs))
    fold, config = single_split(dataset.y, seed=0), Training(epochs=2)
    found = []
    for given in (dataset, graphs, loading.DataLoader(graphs, batch_size=3, shuffle=True)):
        torch.manual_seed(0)
        model = build(PAPER, dataset.num_features, dataset.num_classes, dataset.largest)
        found.append([row.validation_loss for row in train(model, given, fold, config)])
    assert found[0] == found[1] == found[2]


def test_a_model_of_edge_features_takes_graphs_with_them() -> None:
    batch = pyg.Batch.from_data_list(cycles_and_paths(4))
    batch.edge_attr = torch.rand(batch.num_edges, 2)
    model = build(Architecture(conv="edge-sage"), 3, 2, largest=8, edge_features=2).eval()
    graphs = SparseGraphs.from_pyg(batch, edge_features=True)
    assert model(graphs, batch.x).logits.shape == (4, 2)
