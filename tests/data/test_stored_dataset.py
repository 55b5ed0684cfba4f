"""Training from disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stored_graphs import lines, written

from diffpool import DiffPoolClassifier, load_dataset, read_graphs
from diffpool.data import GraphDataset, iter_graphs
from diffpool.data.stored import store_graphs
from diffpool.data.stored_dataset import StoredDataset
from diffpool.experiments import train_once
from diffpool.experiments.methods import settings_for
from diffpool.experiments.provenance import fingerprint
from diffpool.graphs import SparseGraphs
from diffpool.nn import Clusters
from diffpool.training import CohortBatches

OPTIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "directed": {"directed": True},
    "edge features": {"edge_features": True},
    "all parts": {"features": "attributes,labels,degree,log-degree,clustering,constant"},
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A file, and the same graphs on disk."""
    folder = tmp_path_factory.mktemp("stored")
    file = written(folder / "g.jsonl", lines())
    store_graphs(folder / "set", iter_graphs(file, 7))
    return file, folder / "set"


def assert_equal(a: Any, b: Any) -> None:
    """Equal to the bit."""
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)
    elif isinstance(a, tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_equal(x, y)
    elif hasattr(a, "__dataclass_fields__"):
        for name in a.__dataclass_fields__:
            assert_equal(getattr(a, name), getattr(b, name))
    else:
        assert a == b


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_batches_from_disk_equal_those_from_memory(
    files: tuple[Path, Path], options: dict[str, Any]
) -> None:
    memory, disk = (load_dataset(path, **options) for path in files)
    assert isinstance(disk, StoredDataset)
    assert not isinstance(memory, StoredDataset)
    names = ("largest", "num_nodes", "num_features", "num_outputs", "features", "feature_map")
    for name in (*names, "class_names", "dtype", "device"):
        assert getattr(memory, name) == getattr(disk, name), name
    chosen = [12, 3, 39, 0, 12]
    assert_equal(memory.batch(chosen), disk.batch(chosen))
    ours, theirs = (CohortBatches(d, [Clusters(9, 0.5, 1)]) for d in (disk, memory))
    for numbers in ([[7, 2, 30]], [[7, 2, 30], [3, 3, -1], [-1, -1, -1]]):
        batch, expected = ours.batch(np.array(numbers)), theirs.batch(np.array(numbers))
        for part, other in zip(batch.parts, expected.parts, strict=True):
            assert_equal(part, other)


@pytest.mark.parametrize("method", ["diffpool", "patchy-san"])
def test_a_model_trained_from_disk_is_the_same(tmp_path: Path, method: str) -> None:
    graphs = lines()
    if method == "patchy-san":  # for undirected graphs only
        keys = ("nodes", "edges", "node_labels", "label")
        graphs = [{key: graph[key] for key in keys} for graph in graphs]
    file = written(tmp_path / "g.jsonl", graphs)
    store_graphs(tmp_path / "set", iter_graphs(file, 7))
    found = []
    for path in (file, tmp_path / "set"):
        dataset = load_dataset(path)
        settings = settings_for(method, "set", epochs=2, batch_size=8, ensemble=2, hidden=8)
        found.append((train_once(settings, dataset), dataset))
    (memory, _), (disk, dataset) = found
    assert [row.train_loss for row in memory.epochs] == [row.train_loss for row in disk.epochs]
    assert_equal(tuple(memory.model.state_dict().values()), tuple(disk.model.state_dict().values()))
    assert memory.metrics("test") == disk.metrics("test")
    assert ("_loaded" in vars(dataset)) == (
        method == "patchy-san"
    )  # only what must be in memory is


def test_a_change_of_the_data_changes_the_fingerprint(files: tuple[Path, Path]) -> None:
    a = load_dataset(files[1])
    assert fingerprint(a) == fingerprint(load_dataset(files[1]))
    others = [load_dataset(files[1], features="labels"), load_dataset(files[1], directed=True)]
    others.append(a.weighted(np.ones(len(a))))
    assert len({fingerprint(d) for d in (a, *others)}) == 4


def test_the_whole_data_set_can_be_loaded(files: tuple[Path, Path]) -> None:
    memory, disk = map(load_dataset, files)
    loaded = disk.in_memory()
    assert type(loaded) is GraphDataset
    assert_equal(loaded.x, memory.x)
    assert_equal(disk.x, memory.x)
    assert isinstance(disk.graphs, SparseGraphs)
    assert_equal(disk.graphs.adj, memory.graphs.adj)
    assert memory.in_memory() is memory


def test_an_estimator_learns_from_disk_with_weights(files: tuple[Path, Path]) -> None:
    found = []
    for path in files:
        graphs = read_graphs(path)
        y = [name == "odd" for name in graphs.columns["label"]]
        model = DiffPoolClassifier(epochs=2, hidden=8, poolings=1, device="cpu")
        model.fit(graphs, y, sample_weight=np.linspace(1, 2, len(graphs)))
        found.append(model.predict_proba(graphs))
    np.testing.assert_array_equal(*found)


def test_the_numbers_of_edges_are_known_without_reading_the_graphs(
    files: tuple[Path, Path],
) -> None:
    memory, disk = (GraphDataset.from_raw(read_graphs(file), directed=True) for file in files)
    assert disk.edge_counts.tolist() == memory.edge_counts.tolist()
    assert "_loaded" not in vars(disk)
