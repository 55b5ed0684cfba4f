"""The benchmark of explanations: its measures, on cases computed by hand."""

from __future__ import annotations

import numpy as np

from benchmarks.explain import (
    Fall,
    highest,
    highest_cluster_fall,
    node_falls,
    random_cluster_fall,
    truth,
)
from diffpool.attribution import explain
from diffpool.data import embedded
from tests.attribution.explained import model, raw_graphs


def test_the_highest_nodes_are_chosen_and_at_least_one() -> None:
    scores = np.array([1.0, 5.0, -9.0, 4.0, 0.0])
    assert np.flatnonzero(highest(scores, 0.4)).tolist() == [1, 3]
    assert np.flatnonzero(highest(scores, 0.01)).tolist() == [1]


def test_the_fall_is_the_loss_of_probability_of_the_predicted_class() -> None:
    own, raw = model(poolings=1), raw_graphs((6, 5))
    fall = Fall(own, raw)
    everything, nothing = np.ones(6, bool), np.zeros(5, bool)
    gone, kept = fall.without([everything, nothing])
    assert kept == 0
    empty = own.predict_proba(raw_graphs((0,)))[0]
    whole = own.predict_proba(raw)[0]
    np.testing.assert_allclose(gone, whole.max() - empty[whole.argmax()], atol=1e-6)
    scores = [np.arange(6.0), np.arange(5.0)]
    expected = fall.without([np.arange(6) == 5, np.arange(5) == 4])
    np.testing.assert_allclose(node_falls(fall, scores)["0.1"], np.mean(expected), rtol=1e-3)


def test_the_highest_cluster_is_one_that_has_members() -> None:
    own, raw = model(poolings=1), raw_graphs((6, 5))
    fall, found = Fall(own, raw), explain(own, raw, method="leave-out")
    fallen = highest_cluster_fall(fall, found)
    best = [e.levels[1].nodes[e.levels[1].used].max() for e in found]
    np.testing.assert_allclose(fallen, np.mean(best), rtol=1e-3)
    assert fallen >= random_cluster_fall(fall, found, np.random.default_rng(0))


def test_scores_on_all_marks_find_the_whole_truth() -> None:
    dataset, numbers = embedded(4), np.arange(4)
    marks = (dataset.x[:, -2:].view(4, 96, 2) > 0).numpy()
    everything = truth(dataset, numbers, [-1.0 * own.any(1) for own in marks])
    assert everything == {"nodes": 1, "all": 1, "both": 1, "first": 1, "chance": 0.08333}
    one_mark = truth(dataset, numbers, [1.0 * own[:, 0] for own in marks])
    assert (one_mark["first"], one_mark["all"], one_mark["both"]) == (1, 0, 0)
    nothing = truth(dataset, numbers, [1.0 * (np.arange(96) % 24 // 8 == 1)] * 4)
    assert (nothing["nodes"], nothing["first"]) == (0, 0)
