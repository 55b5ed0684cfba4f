"""Integrated gradients on the inputs of every level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from diffpool.attribution import GatedGraphs, LevelInputs, explain, integrated_gradients
from diffpool.attribution.collection import explained_score
from diffpool.attribution.gradients import MIN_TOLERANCE, TOLERANCE
from diffpool.graphs import DenseGraphs, Graphs
from tests.attribution.explained import model, raw_graphs

MODELS: dict[str, dict[str, Any]] = {
    "paper": {},
    "flat": {"poolings": 0},
    "one pooling": {"poolings": 1, "readout": "mean"},
    "every level": {"every_level": True, "readout": "max"},
    "gcn": {"conv": "gcn", "head": (5,)},
    "gin": {"conv": "gin", "poolings": 1},
    "straight-through": {"assignment": "straight-through", "poolings": 1},
}


def full_gate(graphs: Graphs, value: float) -> torch.Tensor:
    """The same gate for all edges."""
    return (
        torch.full_like(graphs.adj, value)
        if isinstance(graphs, DenseGraphs)
        else torch.full((graphs.num_edges,), value)
    )


@pytest.mark.parametrize("name", MODELS)
def test_the_scores_of_every_level_add_up_to_the_difference_from_the_baseline(name: str) -> None:
    own = model(**MODELS[name])
    found = explain(own, raw_graphs(), target="b")
    for explanation in found:
        assert len(explanation.levels) == own.card.architecture.poolings + 1
        for level in explanation.levels:
            assert level.total is not None
            total = level.nodes.sum() + level.edge_scores.sum()
            assert total == pytest.approx(level.total + level.gap, abs=1e-9)
            # hard assignments jump, so their integral has an error
            if name != "straight-through":
                assert abs(level.gap) <= max(TOLERANCE * abs(level.total), MIN_TOLERANCE)


@pytest.mark.parametrize("name", MODELS)
def test_the_rest_of_the_network_continues_from_every_level(name: str) -> None:
    own = model(**MODELS[name])
    graphs, x = own.inputs(raw_graphs())
    inputs = LevelInputs(own.parts[0], graphs, x)
    with torch.no_grad():
        expected = own.parts[0](graphs, x).logits
        for level in range(len(inputs)):
            gate = full_gate(inputs.graphs[level], 1.0)
            for found in (
                inputs.outputs(level, inputs.x[level]),
                inputs.outputs(level, inputs.x[level], gate),
            ):
                torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_without_convolutions_a_node_scores_its_features_times_the_weights() -> None:
    own = model(poolings=0, conv="none", layers_before=1, last_order=(), seed=3)
    graphs, x = own.inputs(raw_graphs())
    network = own.parts[0]
    found = integrated_gradients(network, graphs, x, lambda logits, numbers: logits[:, 1], 0)
    linear = network.encoders[0].convs[0].linear
    expected = x @ linear.weight[0] @ network.head[0].weight[0][:, 1]
    torch.testing.assert_close(found.nodes.float(), expected.detach())
    assert found.edges.abs().max() == 0  # no messages


def test_the_mean_of_one_neighbor_is_credited_half_to_the_node_and_half_to_the_message() -> None:
    """Along the path, a message is α · αx: its derivatives by the gate and by the feature have the integral x/2."""
    own = model(poolings=0, layers_before=1, last_order=(), seed=3)
    graphs, x = own.inputs(raw_graphs((2,)))
    network = own.parts[0]
    weight = network.encoders[0].convs[0].linear.weight[0].detach()  # [2F, D]
    out = network.head[0].weight[0][:, 0].detach()
    found = integrated_gradients(network, graphs, x, lambda logits, numbers: logits[:, 0], 0)
    alone, message = x @ weight[:3] @ out, x @ weight[3:] @ out  # the message that a node sends
    torch.testing.assert_close(found.nodes.float(), alone + message / 2)
    torch.testing.assert_close(found.edges.float(), message.flip(0) / 2)


def test_a_graph_has_the_same_scores_alone_and_in_a_batch() -> None:
    own, raw = model(), raw_graphs()
    together = explain(own, raw)
    for number, expected in enumerate(together):
        (alone,) = explain(own, raw[number : number + 1])
        assert alone.target == expected.target
        for one, other in zip(alone.levels, expected.levels, strict=True):
            np.testing.assert_allclose(one.nodes, other.nodes, atol=2e-4)
            np.testing.assert_allclose(one.edge_scores, other.edge_scores, atol=2e-4)
            np.testing.assert_array_equal(one.edges, other.edges)


def test_the_scores_do_not_depend_on_the_order_of_the_nodes() -> None:
    own = model()
    graphs, x = own.inputs(raw_graphs((8,)))
    dense, order = graphs.block(0), torch.randperm(8, generator=torch.Generator().manual_seed(1))
    shuffled_adj = dense[order][:, order]
    index = shuffled_adj.T.nonzero().T  # source, target
    shuffled = type(graphs).from_edge_index(
        index, edge_weight=shuffled_adj.T[index[0], index[1]], sizes=[8]
    )
    score = explained_score(own, np.array([0]))
    for level in range(3):
        one = integrated_gradients(own.parts[0], graphs, x, score, level)
        other = integrated_gradients(own.parts[0], shuffled, x[order], score, level)
        expected = one.nodes if level else one.nodes[order]  # clusters keep their numbers
        torch.testing.assert_close(other.nodes, expected, rtol=1e-3, atol=1e-5)
        if level:
            torch.testing.assert_close(other.edges, one.edges, rtol=1e-3, atol=1e-5)


def test_full_gates_change_nothing_and_the_degrees_ignore_gates() -> None:
    graphs, x = model().inputs(raw_graphs())
    gates = torch.ones(graphs.num_edges)
    torch.testing.assert_close(GatedGraphs(graphs, gates).propagate(x), graphs.propagate(x))
    half = GatedGraphs(graphs, gates / 2)
    torch.testing.assert_close(half.propagate_mean(x), graphs.propagate_mean(x) / 2)


def test_a_target_is_explained_in_its_own_units() -> None:
    own = model(regression=True, poolings=1)
    raw = raw_graphs((5, 3))
    found = explain(own, raw, target=1)
    values = own.predict(raw)[:, 1]
    graphs, x = own.inputs(raw)
    inputs = LevelInputs(own.parts[0], graphs, x)
    with torch.no_grad():
        empty = inputs.outputs(0, torch.zeros_like(x), full_gate(graphs, 0.0))[:, 1] * 0.5 - 2
    for explanation, value, nothing in zip(found, values, empty.tolist(), strict=True):
        assert explanation.output == pytest.approx(value, abs=1e-5)
        assert explanation.levels[0].total == pytest.approx(value - nothing, abs=1e-4)
        assert explanation.target_name is None
