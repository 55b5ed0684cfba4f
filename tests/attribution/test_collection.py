"""`diffpool.explain`: batches, ensembles, clusters left out, and messages."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import diffpool
from diffpool.attribution import collection, explain, iter_explanations, spread, subgraph_outputs
from diffpool.errors import ModelError, SettingError
from diffpool.training import TrainedModel
from diffpool.viz.hierarchy import ordered
from tests.attribution.explained import model, raw_graphs


def test_the_predicted_class_is_explained_unless_another_is_named() -> None:
    own, raw = model(), raw_graphs()
    probabilities = own.predict_proba(raw)
    for number, explanation in enumerate(diffpool.explain(own, raw)):
        assert explanation.graph == number
        assert explanation.target_name == own.predict(raw)[number]
        assert explanation.output == pytest.approx(probabilities[number].max(), abs=1e-6)
    for number, explanation in enumerate(diffpool.explain(own, raw, target="c")):
        assert explanation.target_name == "c"
        assert explanation.output == pytest.approx(probabilities[number, 2], abs=1e-6)


def test_small_batches_give_the_same_explanations(monkeypatch: pytest.MonkeyPatch) -> None:
    own, raw = model(), raw_graphs()
    expected = explain(own, raw, method="leave-out")
    monkeypatch.setattr(collection, "MAX_GRAPHS", 2)
    found = list(iter_explanations(own, raw, method="leave-out", numbers=[7, 3, 5, 1, 0]))
    assert [e.graph for e in found] == [7, 3, 5, 1, 0]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.levels[1].nodes, other.levels[1].nodes, atol=1e-6)


def test_input_scores_of_an_ensemble_are_the_weighted_mean_over_its_members() -> None:
    own, raw = model(members=2, poolings=1), raw_graphs((6, 4))
    found = explain(own, raw, target="a")
    first, second = (explain(member, raw, target="a") for member in own.members)
    for g, explanation in enumerate(found):
        mean = (first[g].levels[0].nodes + 3 * second[g].levels[0].nodes) / 4
        np.testing.assert_allclose(explanation.levels[0].nodes, mean, atol=1e-5)
        edges = (first[g].levels[0].edge_scores + 3 * second[g].levels[0].edge_scores) / 4
        np.testing.assert_allclose(explanation.levels[0].edge_scores, edges, atol=1e-5)
        np.testing.assert_allclose(explanation.levels[1].nodes, first[g].levels[1].nodes, atol=1e-5)


def test_leaving_out_is_the_change_of_the_probability_without_the_members() -> None:
    own, raw = model(members=2), raw_graphs((9, 6))
    graphs, x = own.inputs(raw)
    whole = own.predict_proba(raw)
    for explanation in explain(own, raw, method="leave-out", target="b"):
        g = explanation.graph
        assert len(explanation.levels) == 3
        for level in explanation.levels[1:]:
            assert not level.nodes[~level.used].any()
            for cluster in np.flatnonzero(level.used):
                keep = level.members != cluster
                (row,) = subgraph_outputs(own, graphs, x, [g], [keep])
                assert level.nodes[cluster] == pytest.approx(whole[g, 1] - row[1], abs=1e-6)


def test_keeping_everything_and_nothing_are_the_ends_of_the_scale() -> None:
    own = model(poolings=1, clusters=(1,))  # one cluster: kept alone, it is the whole graph
    raw = raw_graphs((6, 4))
    graphs, x = own.inputs(raw)
    whole = own.predict_proba(raw)[:, 0]
    empty = [np.zeros(6, bool), np.zeros(4, bool)]
    nothing = subgraph_outputs(own, graphs, x, [0, 1], empty)[:, 0]
    for method in ("keep", "leave-out"):
        found = explain(own, raw, method=method, target="a")
        scores = [e.levels[1].nodes[0] for e in found]
        np.testing.assert_allclose(scores, whole - nothing, atol=1e-6)
        assert found[0].levels[1].total is None


def test_members_are_those_of_the_pictures_and_the_page() -> None:
    """The first choice of the cluster of a node: the largest entry in its row of S₁S₂ may be another one."""
    raw, different = raw_graphs((9, 8, 7)), False
    for seed in range(20, 24):
        own = model(seed=seed, ratio=0.8)
        for explanation, (first, second) in zip(
            explain(own, raw, method="keep"), own.clusters(raw), strict=True
        ):
            shown = ordered(len(first), (first, second))
            members = shown.columns[2][shown.clusters[1][shown.clusters[0]]]
            np.testing.assert_array_equal(explanation.levels[2].members, members)
            different = different or bool(((first @ second).argmax(1) != members).any())
    assert different


def test_scores_of_clusters_are_divided_by_the_assignment_or_by_the_first_choice() -> None:
    s = np.array([[0.75, 0.25, 0.0], [0.25, 0.75, 0.0], [0.0, 1.0, 0.0]])
    scores = np.array([4.0, 8.0, 5.0])
    members, one = s.argmax(1), np.array([1.0, 0, 0])
    np.testing.assert_allclose(spread(scores, s, members, "soft"), [4, 4, 4])
    np.testing.assert_allclose(spread(scores, s, members, "first"), [4, 4, 4])
    np.testing.assert_allclose(spread(one, s, members, "soft"), [0.75, 0.25, 0])
    np.testing.assert_allclose(spread(one, s, members, "first"), [1, 0, 0])
    own, raw = model(), raw_graphs((7,))
    for how in ("soft", "first"):
        (explanation,) = explain(own, raw, spread=how)
        for level in explanation.levels[1:]:
            lost = 0 if how == "soft" else level.nodes[~level.used].sum()
            assert level.input_nodes.sum() == pytest.approx(level.nodes.sum() - lost, abs=1e-9)


def test_shares_are_relative_to_the_sum_of_absolute_scores() -> None:
    (explanation,) = explain(model(), raw_graphs((7,)))
    for level in explanation.levels:
        assert np.abs(level.shares).sum() == pytest.approx(1)
        np.testing.assert_array_equal(np.sign(level.shares), np.sign(level.nodes))
    nothing = replace(explanation.levels[1], nodes=np.zeros(4))
    assert nothing.shares.tolist() == [0, 0, 0, 0]


def test_an_explanation_as_json() -> None:
    (explanation,) = explain(model(), raw_graphs((7,)), target="a")
    facts = json.loads(json.dumps(explanation.to_json()))
    assert (facts["graph"], facts["class"], facts["method"]) == (0, "a", "gradients")
    assert set(facts["levels"][0]) == {
        *("nodes", "shares", "edges", "edge_scores", "input_nodes", "members", "total", "gap")
    }
    assert len(facts["levels"][0]["nodes"]) == 7
    assert len(facts["levels"][0]["edges"]) == len(facts["levels"][0]["edge_scores"])
    regression = explain(model(regression=True), raw_graphs((7,)), method="keep")[0].to_json()
    assert regression["target"] == 0
    assert "total" not in regression["levels"][0]


def test_graphs_without_nodes_or_edges_have_scores() -> None:
    raw = raw_graphs((1, 0, 3))
    for method in collection.METHODS:
        found = explain(model(), raw, method=method)
        assert [len(e.levels[0].nodes) for e in found] == [1, 0, 3]
        assert all(np.isfinite(level.nodes).all() for e in found for level in e.levels)


def test_a_model_directory_and_an_unknown_model(tmp_path: Path) -> None:
    own, raw = model(), raw_graphs((5,))
    own.save(tmp_path / "model")
    (found,) = explain(tmp_path / "model", raw)
    (expected,) = explain(own, raw)
    np.testing.assert_allclose(found.levels[0].nodes, expected.levels[0].nodes, atol=1e-6)
    with pytest.raises(ModelError, match="expected a fitted estimator, a TrainedModel or a model"):
        explain(7, raw)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "gradient"}, "expected method to be .* got 'gradient'. Did you mean gradients"),
        ({"spread": "hard"}, "expected spread to be soft or first, got 'hard'"),
        ({"target": "d"}, r"expected a class of the model \(a, b, c\), got 'd'"),
    ],
)
def test_unknown_names_are_explained(arguments: dict[str, str], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        explain(model(), raw_graphs((4,)), **arguments)


def test_models_that_cannot_be_explained_are_named() -> None:
    raw = raw_graphs((4,))
    with pytest.raises(ModelError, match="with pooling for the method keep"):
        explain(model(poolings=0), raw, method="keep")
    with pytest.raises(ModelError, match="node-index normalization"):
        explain(model(order=("l2", "relu", "node-index")), raw)
    with pytest.raises(ModelError, match="with precomputed structures"):
        explain(model(pooler="graclus"), raw)
    with pytest.raises(SettingError, match="the number of a target from 0 to 1, got 2"):
        explain(model(regression=True), raw, target=2)


def test_an_output_that_is_not_finite_names_its_graph() -> None:
    own = model()
    broken: TrainedModel = own.members[0]
    for parameter in broken.parts[0].head.parameters():
        parameter.data.fill_(float("nan"))
    with pytest.raises(ModelError, match=r"for graph 0 .* is not a finite number"):
        explain(broken, raw_graphs((4,)))
