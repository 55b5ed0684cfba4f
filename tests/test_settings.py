"""Architectures and methods are data; a value that does not fit is an error that says which would."""

from __future__ import annotations

import pytest

from diffpool.architecture import Architecture
from diffpool.builder import build
from diffpool.errors import SettingError
from diffpool.experiments import METHODS, settings_for


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"conv": "gat"},
            "expected a convolution of sage, edge-sage, gcn, gin, sum, dgcnn, none, edge-conditioned, s2v, got 'gat'",
        ),
        ({"hidden": 0}, "expected hidden from 1 to 1048576, got 0"),
        ({"layers_before": 0}, "expected layers_before from 1 to 1000, got 0"),
        ({"layers_after": 0}, "expected layers_after from 1 to 1000, got 0"),
        ({"poolings": -1}, "expected poolings from 0 to 100, got -1"),
        ({"ratio": 0.0}, "expected a ratio above 0 and at most 1, got 0.0"),
        ({"ratio": 1.5}, "expected a ratio above 0 and at most 1, got 1.5"),
        (
            {"readout": "median"},
            "expected a readout of sum, mean, max, set2set, sort, fields, got 'median'",
        ),
        (
            {"order": ("l2", "layer")},
            r"expected steps of l2, relu, tanh, batch, node-index, got \['layer'",
        ),
        ({"last_order": ("sigmoid",)}, "expected steps of"),
        ({"pooler": "topk"}, "expected a pooler of diffpool, graclus, random, uniform, pyramid"),
        ({"assignment": "hard"}, "expected an assignment of soft, straight-through, gumbel"),
        ({"conv": "edge-conditioned"}, "expected the pooler pyramid, .* got 'diffpool'"),
        ({"readout": "sort"}, "expected no poolings with the readout sort, got 1"),
        ({"set2set_steps": -1}, "expected set2set_steps from 0 to 1048576, got -1"),
        (
            {"readout": "set2set", "every_level": True},
            "expected a readout of sum, mean or max at every",
        ),
        ({"assignment_order": ("softmax",)}, "expected steps of"),
        ({"clusters": "level"}, "expected clusters graph, dataset or numbers, got 'level'"),
        ({"clusters": (4, 2)}, r"one number of clusters, .* each of 1 poolings, got \(4, 2\)"),
        ({"clusters": (0,)}, r"one number of clusters, at least 1, .* got \(0,\)"),
    ],
)
def test_an_architecture_that_cannot_be_built_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Architecture(**changes)


def test_numbers_of_clusters_are_taken_from_a_list_as_from_a_tuple_or_refused() -> None:
    try:
        architecture = Architecture(clusters=[7])  # type: ignore[arg-type]
    except SettingError:
        return
    assert [c.max_count for c in build(architecture, 3, 2, largest=100).clusters] == [7]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("dataset", ["embedded", "ENZYMES"])
def test_every_method_builds_on_every_data_set(name: str, dataset: str) -> None:
    method = settings_for(name, dataset)
    model = build(method.architecture, num_features=4, num_classes=3, largest=40)
    assert len(model.poolers) == method.architecture.poolings


def test_changes_come_after_the_settings_of_the_data_set() -> None:
    plain, own = settings_for("diffpool", "ENZYMES"), settings_for("diffpool", "embedded")
    assert plain == METHODS["diffpool"]
    assert own != plain
    changed = settings_for("diffpool", "embedded", epochs=3, hidden=17)
    assert (changed.training.epochs, changed.architecture.hidden) == (3, 17)
    assert changed.training.learning_rate == own.training.learning_rate


def test_unknown_methods_and_settings_are_refused() -> None:
    with pytest.raises(SettingError, match=r"expected a method of diffpool, .*, got 'magic'"):
        settings_for("magic", "embedded")
    with pytest.raises(SettingError, match=r"architecture or of training, got \['depth'\]"):
        settings_for("diffpool", "embedded", depth=3)
    with pytest.raises(SettingError, match="expected epochs of at least 1, got 0"):
        settings_for("diffpool", "embedded", epochs=0)
