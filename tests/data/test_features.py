"""Features: the same for training and prediction, and standardized on the training graphs only."""

from __future__ import annotations

import json
import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from diffpool.architecture import PAPER
from diffpool.builder import build
from diffpool.data import Categories, ColumnNames, FeatureMap, GraphDataset, RawGraphs
from diffpool.data.features import MAX_DEGREE, clustering_coefficients
from diffpool.errors import DataError, SettingError
from diffpool.training import fit_inputs


def raw_graphs(**tables: Any) -> RawGraphs:
    """A path of three nodes, a single node, and a triangle."""
    source, target = np.array([0, 1, 4, 5, 6]), np.array([1, 2, 5, 6, 4])
    return RawGraphs.from_edges("toy", [3, 1, 3], source, target, one_way=True, **tables)


LABELS = Categories.from_values(np.array([1, 2, 1, 5, 5, 5, 2]))
ATTRIBUTES = np.arange(14.0).reshape(7, 2)


def test_auto_means_attributes_and_labels_or_else_degrees() -> None:
    assert FeatureMap.choose(raw_graphs()).nodes == ("degree", "log-degree")
    assert FeatureMap.choose(raw_graphs(node_labels=LABELS)).nodes == ("labels",)
    both = FeatureMap.choose(raw_graphs(node_labels=LABELS, node_attributes=ATTRIBUTES))
    assert both.nodes == ("attributes", "labels")
    assert both.describe() == "attributes (2), labels (3)"
    assert both.num_features == 5
    assert both.standardized.tolist() == [True, True, False, False, False]


def test_every_part_gives_its_columns() -> None:
    raw = raw_graphs(node_labels=LABELS, node_attributes=ATTRIBUTES)
    parts = "raw-attributes,labels,degree,log-degree,clustering,constant"
    chosen = FeatureMap.choose(raw, parts)
    x = chosen.apply(raw).x
    assert x.dtype == np.float32
    assert x.shape == (7, chosen.num_features) == (7, 2 + 3 + 3 + 1 + 1 + 1)
    assert np.array_equal(x[:, :2], ATTRIBUTES)
    assert np.array_equal(x[:, 2:5].argmax(1), LABELS.codes[:, 0])
    degree = [1, 2, 1, 0, 2, 2, 2]
    assert np.array_equal(x[:, 5:8].argmax(1), degree)
    assert np.allclose(x[:, 8], np.log1p(degree))
    assert x[:, 9].tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert x[:, 10].tolist() == [1] * 7


def test_degrees_beyond_the_last_column_share_it() -> None:
    leaves = MAX_DEGREE + 20
    star = RawGraphs.from_edges(
        "star", [leaves + 1], np.zeros(leaves, int), np.arange(1, leaves + 1), one_way=True
    )
    chosen = FeatureMap.choose(star, "degree")
    assert chosen.num_features == MAX_DEGREE + 1
    assert chosen.apply(star).x[0].argmax() == MAX_DEGREE
    small = FeatureMap.choose(raw_graphs(), "degree")  # has degrees up to 2
    assert small.apply(star).x[0].tolist() == [0, 0, 1]


def test_the_clustering_coefficient_equals_that_of_networkx() -> None:
    nx = pytest.importorskip("networkx")
    graphs = [nx.gnp_random_graph(n, 0.4, seed=n) for n in (1, 2, 9, 14, 20)]
    source, target, start = [], [], 0
    for graph in graphs:
        pairs = np.array(graph.edges, np.int64).reshape(-1, 2) + start
        source.append(pairs[:, 0])
        target.append(pairs[:, 1])
        start += len(graph)
    sizes = [len(graph) for graph in graphs]
    raw = RawGraphs.from_edges(
        "r", sizes, np.concatenate(source), np.concatenate(target), one_way=True
    )
    expected = [value for graph in graphs for value in nx.clustering(graph).values()]
    for max_edges in (1, 50, 10**6):
        assert np.allclose(clustering_coefficients(raw, max_edges), expected)


def test_unknown_labels_are_rows_of_zeros_and_reported() -> None:
    known = raw_graphs(node_labels=Categories.from_values(np.array([1, 2, 1, 1, 2, 2, 2])))
    chosen = FeatureMap.choose(known)
    made = chosen.apply(raw_graphs(node_labels=LABELS))
    assert made.x.sum(1).tolist() == [1, 1, 1, 0, 0, 0, 1]
    assert made.unseen == {"node label": {"5": 3}}
    assert chosen.apply(known).unseen == {}


def test_edge_labels_and_attributes_are_channels() -> None:
    raw = raw_graphs(
        edge_labels=Categories.from_values(np.array([0, 1, 2, 1, 0])),
        edge_attributes=np.arange(5.0)[:, None],
    )
    chosen = FeatureMap.choose(raw, edges=True)
    assert chosen.edges == ("labels", "attributes")
    edges = chosen.apply(raw).edges
    assert edges.shape == (10, 4) == (raw.num_edges, chosen.num_edge_features)
    assert np.array_equal(edges[:, :3].argmax(1), raw.edge_labels.codes[:, 0])
    assert np.array_equal(edges[:, 3], raw.edge_attributes[:, 0])
    assert chosen.describe().endswith("; edges: labels, attributes")


def test_graphs_without_edges_need_no_edge_features() -> None:
    raw = raw_graphs(
        edge_labels=Categories.from_values(np.array([0, 1, 2, 1, 0])),
        edge_attributes=np.arange(5.0)[:, None],
    )
    chosen = FeatureMap.choose(raw, "constant", edges=True)
    alone = RawGraphs.from_edges("alone", [1], np.empty(0), np.empty(0))
    assert chosen.apply(alone).edges.shape == (0, 4)


def test_missing_features_are_an_error() -> None:
    with pytest.raises(SettingError, match=r"features .*: toy has no node labels"):
        FeatureMap.choose(raw_graphs(), "labels")
    with pytest.raises(SettingError, match="toy has no attributes"):
        FeatureMap.choose(raw_graphs(), ["constant", "attributes"])
    with pytest.raises(SettingError, match="got 'color'"):
        FeatureMap.choose(raw_graphs(), "color")
    with pytest.raises(SettingError, match="toy has neither edge labels nor edge attributes"):
        FeatureMap.choose(raw_graphs(), edges=True)
    chosen = FeatureMap.choose(raw_graphs(node_attributes=ATTRIBUTES))
    with pytest.raises(DataError, match="toy: expected 2 columns of node attributes, got 1"):
        chosen.apply(raw_graphs(node_attributes=ATTRIBUTES[:, :1]))
    with pytest.raises(DataError, match="toy: expected 2 columns of node attributes, got none"):
        chosen.apply(raw_graphs())


def test_a_choice_survives_json() -> None:
    raw = raw_graphs(node_labels=LABELS, node_attributes=ATTRIBUTES)
    for parts in ("auto", "degree", "labels,clustering"):
        chosen = FeatureMap.choose(raw, parts)
        assert FeatureMap.from_json(json.loads(json.dumps(chosen.to_json()))) == chosen


@pytest.mark.parametrize(
    "change",
    [
        {"nodes": 3},
        {"nodes": ["color"]},
        {"node_attributes": -1},
        {"most_degree": True},
        {"node_labels": [[1]]},
        {"more": 1},
    ],
)
def test_a_damaged_choice_is_an_error(change: dict[str, Any]) -> None:
    values = FeatureMap.choose(raw_graphs(node_labels=LABELS)).to_json()
    with pytest.raises((ValueError, TypeError, SettingError)):
        FeatureMap.from_json({**values, **change})


def test_attributes_are_standardized_by_the_training_graphs_alone() -> None:
    raw = raw_graphs(
        node_labels=LABELS,
        node_attributes=ATTRIBUTES,
        classes=Categories.from_values(np.array([0, 1, 0])),
    )
    dataset = GraphDataset.from_raw(raw)
    model = build(PAPER, dataset.num_features, 2, dataset.largest)
    fit_inputs(model, dataset, np.array([0, 1]))
    standard = model.inputs(dataset.x)
    train = standard[:4]
    torch.testing.assert_close(train[:, :2].mean(0), torch.zeros(2), atol=1e-6, rtol=0)
    torch.testing.assert_close(train[:, :2].std(0, correction=0), torch.ones(2))
    assert torch.equal(standard[:, 2:], dataset.x[:, 2:])
    assert standard[4:, :2].mean() > 1  # the test graph is far from the training graphs


def test_a_constant_attribute_is_shifted_and_not_divided() -> None:
    raw = raw_graphs(
        node_attributes=np.full((7, 1), 5.0), classes=Categories.from_values(np.array([0, 1, 0]))
    )
    dataset = GraphDataset.from_raw(raw)
    model = build(PAPER, 1, 2, 3)
    fit_inputs(model, dataset, np.array([0, 2]))
    assert torch.equal(model.inputs(dataset.x), torch.zeros(7, 1))


def test_graphs_without_classes_and_targets_cannot_be_trained_on() -> None:
    with pytest.raises(DataError, match="toy: the graphs have neither classes nor targets"):
        GraphDataset.from_raw(raw_graphs())


def test_directed_edges_are_used_in_both_directions_by_default() -> None:
    raw = RawGraphs.from_edges(
        "d",
        [2, 2],
        np.array([0, 2]),
        np.array([1, 3]),
        classes=Categories.from_values(np.array([0, 1])),
    )
    assert raw.directed
    assert GraphDataset.from_raw(raw).graphs.num_edges == 4
    assert GraphDataset.from_raw(raw, directed=True).graphs.num_edges == 2


def test_a_warning_says_that_labels_look_like_names() -> None:
    def labeled(words: list[str]) -> RawGraphs:
        labels = Categories.from_values(np.array(words))
        none = np.empty(0, np.int64)
        return RawGraphs.from_edges("toy", [len(words)], none, none, node_labels=labels)

    names = labeled([f"node {i}" for i in range(80)])
    with pytest.warns(UserWarning, match="node label 1 has 80 distinct strings for 80 nodes"):
        FeatureMap.choose(names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FeatureMap.choose(names, "degree")
        FeatureMap.choose(labeled(["C", "O"] * 40))
        FeatureMap.choose(labeled([f"region {i % 60}" for i in range(180)]))


# --- columns that float32 cannot represent well


def two_classes(mean: float, sd: float, count: int = 40) -> RawGraphs:
    """Graphs of two nodes whose attribute separates the classes: `mean` ± `sd`."""
    label = np.arange(count) % 2
    values = np.repeat(mean + sd * (2 * label - 1), 2)[:, None]
    source = np.arange(0, 2 * count, 2)
    return RawGraphs.from_edges(
        "toy",
        np.full(count, 2),
        source,
        source + 1,
        one_way=True,
        node_attributes=np.hstack([values, values[::-1] * 0 + 7]),
        edge_attributes=np.repeat(values[::2], 1, 0),
        classes=Categories.from_values(label),
    )


@pytest.mark.parametrize(
    ("mean", "sd"),
    [(0, 1e-10), (1, 1e-10), (1e6, 1e-3), (0, 1e-40), (5e-200, 1e-200), (0, 1e30), (-2e38, 1e38)],
)
def test_the_scale_of_an_attribute_does_not_matter(mean: float, sd: float) -> None:
    raw = two_classes(mean, sd)
    feature_map = FeatureMap.choose(raw, edges=True)
    found = feature_map.apply(raw)
    expected = np.repeat(2.0 * (np.arange(40) % 2) - 1, 2)
    assert found.edges is not None
    np.testing.assert_allclose(found.x[:, 0], expected, rtol=1e-4)
    np.testing.assert_allclose(found.edges[:, 0], expected, rtol=1e-4)
    assert (found.x[:, 1] == 7).all()  # a constant column stays as it is
    assert FeatureMap.from_json(json.loads(json.dumps(feature_map.to_json()))) == feature_map


@pytest.mark.parametrize(("mean", "sd"), [(0, 1), (2000, 5), (0, 1e-5), (1e5, 1e5), (3, 0)])
def test_ordinary_attributes_stay_as_they_are(mean: float, sd: float) -> None:
    raw = two_classes(mean, sd)
    feature_map = FeatureMap.choose(raw, edges=True)
    assert feature_map.node_units == feature_map.edge_units == ()
    assert raw.node_attributes is not None
    assert np.array_equal(feature_map.apply(raw).x, raw.node_attributes.astype(np.float32))


def test_raw_attributes_have_no_units() -> None:
    raw = two_classes(0, 1e-10)
    assert FeatureMap.choose(raw, "raw-attributes").node_units == ()


def test_an_attribute_too_large_in_the_units_of_the_training_data_is_an_error() -> None:
    feature_map = FeatureMap.choose(two_classes(0, 1e-30), edges=False)
    with pytest.raises(DataError, match="toy, graph 0: expected node attributes near those of the"):
        feature_map.apply(two_classes(0, 1e20))


@pytest.mark.parametrize("units", [[[0, 0]] * 2, [[0, 1]], [[0]], [[0, math.inf]] * 2, [3], "ab"])
def test_damaged_units_are_an_error(units: Any) -> None:
    values = FeatureMap.choose(two_classes(0, 1e-10)).to_json() | {"node_units": units}
    with pytest.raises((ValueError, TypeError)):
        FeatureMap.from_json(values)


def test_columns_are_chosen_by_name() -> None:
    names = ColumnNames(node_labels=("kind",), node_attributes=("a", "b"))
    trained = raw_graphs(node_labels=LABELS, node_attributes=ATTRIBUTES, names=names)
    chosen = FeatureMap.choose(trained, "raw-attributes,labels")
    assert chosen.names == names
    assert FeatureMap.from_json(json.loads(json.dumps(chosen.to_json()))) == chosen
    expected = chosen.apply(trained).x
    more = raw_graphs(
        node_labels=Categories(np.repeat(LABELS.codes, 2, 1), LABELS.names * 2),
        node_attributes=np.concatenate([ATTRIBUTES[:, 1:], ATTRIBUTES], 1),
        names=ColumnNames(node_labels=("other", "kind"), node_attributes=("b", "a", "extra")),
    )
    assert np.array_equal(chosen.apply(more).x, expected)
    unnamed = raw_graphs(node_labels=LABELS, node_attributes=ATTRIBUTES)
    assert np.array_equal(chosen.apply(unnamed).x, expected)
    assert FeatureMap.choose(trained, "degree").names == ColumnNames()
    wrong = raw_graphs(
        node_labels=LABELS,
        node_attributes=ATTRIBUTES,
        names=ColumnNames(node_labels=("kind",), node_attributes=("a", "a")),
    )
    with pytest.raises(DataError, match="expected 1 number in the node attribute 'a', got 2"):
        chosen.apply(wrong)


@pytest.mark.parametrize(
    "names",
    [
        3,
        {"node_labels": ["a"]},
        {"node_labels": [], "node_attributes": [], "edge_labels": [], "edge_attributes": []},
        {"node_labels": [1], "node_attributes": [], "edge_labels": [], "edge_attributes": []},
    ],
)
def test_damaged_names_are_an_error(names: Any) -> None:
    values = FeatureMap.choose(raw_graphs(node_labels=LABELS)).to_json()
    with pytest.raises((ValueError, TypeError)):
        FeatureMap.from_json({**values, "names": names})


def test_units_and_degrees_are_found_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    attributes = rng.normal(size=(30, 3)) * [1, 1e-9, 1] + [0, 0, 1e6]
    raw = RawGraphs.from_edges(
        "parts", [3] * 10, np.arange(0, 30, 3), np.arange(1, 30, 3), node_attributes=attributes
    )
    whole = FeatureMap.choose(raw, "attributes,degree")
    monkeypatch.setattr("diffpool.data.features.BLOCK", 7)
    monkeypatch.setattr("diffpool.data.features.PART", 3)
    parts = FeatureMap.choose(raw, "attributes,degree")
    assert whole.most_degree == parts.most_degree == 1
    assert whole.node_units[0] == parts.node_units[0] == (0.0, 1.0)
    expected = [attributes[:, 1].mean(), attributes[:, 1].std()]
    np.testing.assert_allclose([whole.node_units[1], parts.node_units[1]], [expected] * 2)
    np.testing.assert_allclose(parts.node_units[2], whole.node_units[2])
