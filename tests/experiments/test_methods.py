"""One battery over every neural method of the tables: laws, cohorts, model directories, the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from samples import randn
from scipy.sparse import csr_array
from torch import Tensor

from diffpool.architecture import Architecture
from diffpool.baselines.cache import cached
from diffpool.baselines.ecc.pyramid import kron_pyramid, with_pyramid
from diffpool.baselines.prepare import prepare, random_clusters, resolved
from diffpool.builder import build
from diffpool.data import GraphDataset, as_raw
from diffpool.errors import SettingError
from diffpool.experiments import METHODS, evaluate, fit, settings_for
from diffpool.experiments.grid import make_grid
from diffpool.experiments.plan import prepared
from diffpool.experiments.protocols import Nested
from diffpool.graphs import Prepared, SparseGraphs
from diffpool.nn import GraphClassifier
from diffpool.training import Cohort, load_model
from diffpool.viz import draw_clusters
from tests.training.test_cohort import configs, folds, rows_of, same

SMALL: dict[str, Any] = {"sorted_nodes": 11, "field_count": 7, "field_size": 4}


def small(name: str, **changes: Any) -> Architecture:
    architecture = METHODS[name].architecture
    return replace(architecture, hidden=6, **SMALL, **changes)


ARCHITECTURES = {
    **{name: small(name) for name in METHODS},
    "two levels of Graclus": small("diffpool-det", poolings=2),
    "two levels of random clusters": small("random-assignment", poolings=2),
    "straight-through": small("diffpool", assignment="straight-through", poolings=2),
    "gumbel": small("diffpool", assignment="gumbel"),
    "as many steps as nodes": small("set2set", set2set_steps=0),
    "betweenness": small("patchy-san", labeling="betweenness"),
}
QUIRKY = (
    "diffpool-released",
)  # whose results depend on the rest of the batch and on the order of nodes
each = pytest.mark.parametrize("name", ARCHITECTURES)
each_lawful = pytest.mark.parametrize("name", [n for n in ARCHITECTURES if n not in QUIRKY])
LARGEST = 20
SIZES = (9, 1, 14, 0, 5, 20, 2)


def graphs_of(adjacencies: list[np.ndarray]) -> SparseGraphs:
    whole = csr_array(
        np.asarray(
            np.block(
                [
                    [a if i == j else np.zeros((len(a), len(b))) for j, b in enumerate(adjacencies)]
                    for i, a in enumerate(adjacencies)
                ]
            )
        )
    )
    target, source = whole.nonzero()
    sizes = [len(a) for a in adjacencies]
    return SparseGraphs.from_edges(sizes, source, target, dtype=torch.float64)


def adjacencies(sizes: tuple[int, ...] = SIZES, seed: int = 0) -> list[np.ndarray]:
    """Random connected graphs, without automorphisms where they are large enough."""
    rng, made = np.random.default_rng(seed), []
    for n in sizes:
        adj = np.triu(rng.random((n, n)) < 0.25, 1)
        order = rng.permutation(n)
        adj[order[:-1], order[1:]] = True
        adj = (adj | adj.T).astype(float)
        np.fill_diagonal(adj, 0)
        made.append(adj)
    return made


def features(count: int) -> Tensor:
    return randn(count, 3, seed=5)


def ready(name: str, graphs: SparseGraphs) -> SparseGraphs:
    return prepare(ARCHITECTURES[name], graphs, LARGEST, keep=False)


def model_of(name: str, models: int = 1, num_features: int = 3) -> GraphClassifier:
    torch.manual_seed(1)
    return build(ARCHITECTURES[name], num_features, 2, LARGEST, models).double()


def exact(a: Tensor, b: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


# --- laws --------------------------------------------------------------------------------------------------------


@each_lawful
def test_the_order_of_the_nodes_does_not_matter(name: str) -> None:
    """Nodes have distinct features, graphs no automorphisms; what was found beforehand goes with the nodes."""
    graph = adjacencies((14,))[0]
    order = np.random.default_rng(3).permutation(14)
    x = features(14)
    before, after = graphs_of([graph]), graphs_of([graph[order][:, order]])
    if ARCHITECTURES[name].pooler == "pyramid":
        levels = kron_pyramid(before, 2, lambda share: None)
        moved_levels = [replace(levels[0], parent=levels[0].parent[order]), *levels[1:]]
        before, after = with_pyramid(before, levels), with_pyramid(after, moved_levels)
    else:
        before = ready(name, before)
    if before.prepared.coarser is not None:
        pass
    elif before.prepared.nodes is not None:
        moved = Prepared(nodes=before.prepared.nodes[torch.from_numpy(order)])
        after = replace(after, prepared=moved)
    else:
        after = ready(name, after)
    model = model_of(name).eval()
    exact(model(after, x[torch.from_numpy(order)]).logits, model(before, x).logits)


@each_lawful
def test_a_graph_has_the_same_outputs_alone_and_in_a_batch(name: str) -> None:
    given = adjacencies()
    graphs, x = ready(name, graphs_of(given)), features(sum(SIZES))
    model = model_of(name).eval()
    together = model(graphs, x)
    for number in range(len(SIZES)):
        chosen, nodes = graphs.select([number])
        exact(model(chosen, x[nodes]).logits[0], together.logits[number])
        alone = ready(name, graphs_of([given[number]]))
        exact(model(alone, x[nodes]).logits[0], together.logits[number])


@each
@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
def test_outputs_and_gradients_are_finite_for_every_size(name: str, training: bool) -> None:
    """Empty graphs, single nodes, graphs without edges, and everything at once."""
    for sizes in (SIZES, (0,), (1,), (0, 1), (1, 1)):
        given = adjacencies(sizes)
        given[-1] = np.zeros_like(given[-1])
        graphs, x = ready(name, graphs_of(given)), features(sum(sizes))
        model = model_of(name).train(training)
        prediction = model(graphs, x)
        assert prediction.logits.shape == (len(sizes), 2)
        loss = prediction.logits.square().sum() + sum(v.sum() for v in prediction.losses.values())
        assert torch.isfinite(loss)
        loss.backward()
        for key, parameter in model.named_parameters():
            assert parameter.grad is None or torch.isfinite(parameter.grad).all(), key


@each
def test_every_parameter_has_a_gradient(name: str) -> None:
    """In evaluation, where no batch normalization takes a bias off again; the last layer may be dead here and there."""
    graphs, x = ready(name, graphs_of(adjacencies())), features(sum(SIZES))
    model = model_of(name).eval()
    prediction = model(graphs, x)
    weights = randn(*prediction.logits.shape, seed=2)
    losses = sum(v.sum() for v in prediction.losses.values())
    ((prediction.logits * weights).sum() + losses).backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.abs().max() > 0, key


# --- cohorts -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dataset() -> GraphDataset:
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, LARGEST, 60)
    sizes[[4, 9]] = 0, 1
    graphs = [nx.from_numpy_array(a) for a in adjacencies(tuple(sizes.tolist()))]
    made = GraphDataset.from_raw(as_raw(graphs, rng.integers(0, 2, 60)), "constant")
    return replace(
        made,
        graphs=made.graphs.to(dtype=torch.float64),
        x=torch.from_numpy(rng.normal(size=(int(sizes.sum()), 6))),
    )


def cohort_of(name: str, dataset: GraphDataset, members: list[int]) -> Cohort:
    dataset = replace(dataset, graphs=ready(name, dataset.graphs))
    single = []
    for seed in members:
        torch.manual_seed(seed)
        single.append(build(ARCHITECTURES[name], 6, 2, LARGEST).double().state_dict())
    model = build(ARCHITECTURES[name], 6, 2, LARGEST, models=len(members)).double()
    model.load_state_dict({key: torch.cat([s[key] for s in single]) for key in single[0]})
    own = [replace(configs(4)[m], dropout=0.2) for m in members]
    return Cohort(model, dataset, [folds(4)[m] for m in members], own)


@each
def test_a_model_in_a_cohort_is_the_model_alone(name: str, dataset: GraphDataset) -> None:
    together = cohort_of(name, dataset, [0, 1, 3])
    rows = [together.train_epoch() for _ in range(2)]
    for place, member in enumerate([0, 1, 3]):
        alone = cohort_of(name, dataset, [member])
        own = [alone.train_epoch() for _ in range(2)]
        same(rows_of(together.model.state_dict(), place), alone.model.state_dict(), 1e-9)
        for a, b in zip(rows, own, strict=True):
            assert a[place].validation_loss == pytest.approx(b[0].validation_loss, abs=1e-9)


# --- from graphs to predictions ----------------------------------------------------------------------------------


def communities(count: int = 40) -> tuple[list[nx.Graph], list[int]]:
    """Two cliques or a ring: anything that sees edges tells them apart."""
    rng, graphs, y = np.random.default_rng(1), [], []
    for number in range(count):
        n = int(rng.integers(5, 12))
        graphs.append(nx.barbell_graph(n, 1) if number % 2 else nx.cycle_graph(2 * n + 1))
        y.append(number % 2)
    return graphs, y


@pytest.mark.parametrize("name", METHODS)
def test_a_trained_model_says_the_same_after_loading(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIFFPOOL_CACHE", str(tmp_path / "cache"))
    graphs, y = communities()
    raw = as_raw(graphs, y)
    method = settings_for(name, raw.name, epochs=2, hidden=6, **SMALL)
    everything = GraphDataset.from_raw(raw, "degree", method.architecture.edges)
    fold = folds(1)[0]
    fold = replace(fold, train=np.arange(30), validation=np.arange(30, 40), test=np.arange(10))
    outcome = fit(method, everything, fold, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.card.architecture == resolved(method.architecture, raw.sizes)
    expected = outcome.trained.predict_proba(graphs[:7])
    np.testing.assert_allclose(loaded.predict_proba(graphs[:7]), expected, rtol=1e-6)
    batch = outcome.dataset.batch(range(7))
    direct = outcome.model.eval()(batch.graphs, batch.x).logits.softmax(-1)
    np.testing.assert_allclose(expected, direct.detach().numpy(), rtol=1e-4, atol=1e-5)
    assert len(loaded.clusters(graphs[:3])) == 3
    if outcome.model.poolers:
        draw_clusters(outcome.trained, outcome.dataset, tmp_path / "c.png", numbers=[1])
        assert (tmp_path / "c.png").stat().st_size > 1000


@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs_under_tenfold_with_one_record_for_each_fold(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIFFPOOL_CACHE", str(tmp_path / "cache"))
    raw = as_raw(*communities())
    method = settings_for(name, raw.name, epochs=1, hidden=6, **SMALL)
    data = GraphDataset.from_raw(raw, "degree", method.architecture.edges)
    shares: list[float] = []
    result = evaluate(method, data, out=tmp_path / "r.jsonl", preparing=shares.append)
    assert len(result.accuracies) == 10
    assert bool(shares) == method.architecture.wants_preparation
    assert not shares or shares[-1] == 1.0
    record = json.loads((tmp_path / "r.jsonl").read_text().splitlines()[0])
    assert record["parameters"] > 0
    shares.clear()
    ready_method, ready_data = prepared(method, data, shares.append)  # as the command line does
    again = evaluate(ready_method, ready_data, out=tmp_path / "other.jsonl")
    assert not shares  # found in the cache
    assert again.accuracies == result.accuracies


# --- preparation -------------------------------------------------------------------------------------------------


def test_numbers_that_depend_on_the_data_set_are_taken_from_its_sizes() -> None:
    sizes = np.array([4, 10, 20, 30, 50])
    assert resolved(METHODS["sortpool"].architecture, sizes).sorted_nodes == 20
    assert resolved(METHODS["patchy-san"].architecture, sizes).field_count == 23
    assert resolved(METHODS["diffpool"].architecture, sizes) == METHODS["diffpool"].architecture
    given = replace(METHODS["sortpool"].architecture, sorted_nodes=7)
    assert resolved(given, sizes).sorted_nodes == 7


def test_the_same_graph_gets_the_same_random_clusters() -> None:
    a, b = (csr_array(adjacencies((12,), seed)[0]) for seed in (0, 1))
    first = random_clusters(a, [4, 2])
    assert np.array_equal(first, random_clusters(a, [4, 2]))
    assert not np.array_equal(first, random_clusters(b, [4, 2]))
    assert first.max(0).tolist() == [3, 1]
    for cluster in range(4):  # a cluster is in one cluster
        assert len(set(first[first[:, 0] == cluster, 1].tolist())) <= 1


def test_graphs_prepared_for_other_settings_are_rejected(dataset: GraphDataset) -> None:
    graphs = prepare(small("random-assignment"), dataset.graphs, keep=False)
    assert prepare(small("random-assignment"), graphs, keep=False) is graphs
    with pytest.raises(SettingError, match="got graphs prepared for other settings"):
        prepare(small("random-assignment", ratio=0.5), graphs, keep=False)


def test_directed_graphs_are_rejected_by_methods_with_precomputed_structures() -> None:
    graphs = SparseGraphs.from_edges([3], [0, 1], [1, 2])
    with pytest.raises(SettingError, match="expected undirected graphs for graclus, got directed"):
        prepare(small("diffpool-det"), graphs, keep=False)


def test_a_grid_over_precomputed_structures_is_rejected(
    dataset: GraphDataset, tmp_path: Path
) -> None:
    method = replace(METHODS["random-assignment"], architecture=small("random-assignment"))
    grid = Nested(make_grid({"ratio": [0.1, 0.5]}))
    with pytest.raises(SettingError, match="the grid must not change what"):
        evaluate(method, dataset, grid, out=tmp_path / "r.jsonl")


def test_a_damaged_file_in_the_cache_is_computed_again(
    dataset: GraphDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIFFPOOL_CACHE", str(tmp_path))
    method = replace(METHODS["random-assignment"], architecture=small("random-assignment"))
    _, first = prepared(method, dataset)
    (kept,) = (tmp_path / "prepared").iterdir()
    content = kept.read_bytes()
    kept.write_bytes(content[:50])
    with pytest.warns(UserWarning, match=r"prepared/.* is damaged .*: computing it again"):
        _, second = prepared(method, dataset)
    assert torch.equal(first.graphs.prepared.nodes, second.graphs.prepared.nodes)
    assert kept.read_bytes() == content


@pytest.mark.parametrize("largest", [5, 127, 128, 40_000, 2**40])
def test_cached_structures_are_read_back_unchanged(
    largest: int, dataset: GraphDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIFFPOOL_CACHE", str(tmp_path))
    made = {"a": np.array([[-1, 3], [0, largest]]), "b": np.array([0.5]), "c": np.empty(0, int)}
    first = cached(dataset.graphs, {}, lambda: made)
    again = cached(dataset.graphs, {}, lambda: pytest.fail("computed again"))
    for name, array in made.items():
        assert first[name] is array
        assert again[name].dtype == array.dtype
        assert np.array_equal(again[name], array)
