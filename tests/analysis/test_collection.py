"""A trained model is analyzed in any parts, and a flat one is refused."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from diffpool.analysis import Summary, analyze, collection
from diffpool.data import RawGraphs, as_raw, embedded
from diffpool.errors import DataError, ModelError
from diffpool.experiments import Outcome, settings_for, train_once


def trained(method: str = "diffpool", **settings: object) -> Outcome:
    small = {"epochs": 1, "hidden": 8, **settings}
    return train_once(settings_for(method, "embedded", **small), embedded(40))


def test_all_measures_of_both_poolings_on_planted_communities() -> None:
    outcome, data = trained(poolings=2), embedded(8)
    assert data.communities is not None
    found = analyze(outcome.trained, data.as_raw(), data.communities.numpy())
    assert found.graphs == 8
    assert len(found.poolings) == 2
    first, second = found.poolings
    assert (first.mean("clusters"), second.mean("clusters")) == (24, 6)
    assert 0 <= first.mean("planted_nmi") <= 1
    assert found.structure.mean("unique_features") == 1
    assert first.count("sparse_spread") == 8  # a ladder has no triangles
    assert first.mean("sparse_spread") == pytest.approx(1)
    assert first.mean("dense_spread") is None


def test_the_result_does_not_depend_on_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = trained().trained, embedded(11)
    assert data.communities is not None
    raw, planted = data.as_raw(), data.communities.numpy()
    whole = analyze(model, raw, planted).to_json()
    monkeypatch.setattr(collection, "PART", 4)

    def parts() -> Iterator[RawGraphs]:
        for start in range(0, len(raw), 6):
            yield raw[start : start + 6]

    seen: list[int] = []
    found = analyze(model, parts(), planted, seen.append).to_json()
    assert sum(seen) == 11
    assert found.keys() == whole.keys()
    for name, row in whole["poolings"][0].items():
        assert found["poolings"][0][name] == pytest.approx(row, abs=1e-4), name


@pytest.mark.parametrize("method", ["diffpool-det", "uniform-assignment", "diffpool-released"])
def test_every_pooler_with_assignments_is_analyzed(method: str) -> None:
    found = analyze(trained(method).trained, embedded(5).as_raw())
    assert found.poolings[0].mean("used") >= 1


def test_an_ensemble_is_analyzed_by_its_first_member() -> None:
    model, raw = trained(ensemble=2).trained, embedded(5).as_raw()
    assert analyze(model, raw).to_json() == analyze(model.members[0], raw).to_json()


def test_a_flat_model_has_no_clusters() -> None:
    with pytest.raises(ModelError, match="expected a model with pooling, got graphsage, which has"):
        analyze(trained("graphsage").trained, embedded(5).as_raw())


def test_no_graph_is_an_error_and_an_empty_graph_is_left_out() -> None:
    model = trained().trained
    with pytest.raises(DataError, match="at least one graph with nodes"):
        analyze(model, embedded(5).as_raw()[:0])
    raw = embedded(1).as_raw()
    empty = RawGraphs("empty", np.zeros(1, int), np.zeros(1, int), np.zeros(0, int))
    empty = RawGraphs(**{**vars(empty), "node_attributes": raw.node_attributes[:0]})
    assert analyze(model, iter([empty, raw])).graphs == 1


def test_weighted_and_directed_graphs_and_single_nodes_are_analyzed() -> None:
    graphs = [np.array([[0, 2.0], [0, 0]]), np.zeros((1, 1)), np.ones((4, 4)), np.zeros((3, 3))] * 5
    raw = as_raw(graphs, [0, 1] * 10)
    from diffpool import DiffPoolClassifier

    model = DiffPoolClassifier(epochs=1, hidden=4, min_clusters=2).fit(raw).model_
    found = analyze(model, raw)
    assert found.graphs == 20
    assert all(np.isfinite(row["mean"]) for row in found.poolings[0].to_json().values())


def test_a_summary_counts_the_graphs_of_each_measure() -> None:
    summary = Summary()
    for measures in ({"a": 1.0, "b": 4.0}, {"a": 3.0}):
        summary.add(measures)
    assert summary.to_json()["a"] == {"mean": 2.0, "sd": 1.0, "graphs": 2}
    assert (summary.mean("b"), summary.count("b")) == (4.0, 1)
    assert summary.mean("c") is None
