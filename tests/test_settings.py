"""Settings are declared once; an invalid value raises an error that says what is expected."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffpool.architecture import Architecture
from diffpool.builder import build
from diffpool.cli.settings_page import settings_page
from diffpool.errors import SettingError
from diffpool.experiments import METHODS, make_grid, parse_grid, parse_settings, settings_for
from diffpool.experiments.methods import METHOD_SETTINGS, default_text
from diffpool.settings import check_settings, list_settings, setting
from diffpool.training import Training

# --- a dataclass of settings -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Example:
    count: int = setting(3, help="A count.", low=1, high=9)
    rate: float = setting(0.5, help="A rate.", above=0, below=1)
    weight: float = setting(1.0, help="A weight.", low=0)
    free: float = setting(0.0, help="Any number.")
    flag: bool = setting(False, help="A flag.")
    kind: str = setting("a", help="A kind.", choices=("a", "b"))
    limit: int | None = setting(None, help="A limit.", low=0, none="no limit", option="--max")
    steps: tuple[str, ...] = setting(("x",), help="Steps.", choices=("x", "y"))
    sizes: str | tuple[int, ...] = setting("auto", help="Sizes.", choices=("auto",), low=1)
    note: str = ""  # not a setting

    def __post_init__(self) -> None:
        check_settings(self)


EXAMPLE = {s.name: s for s in list_settings(Example)}


def test_the_settings_of_a_dataclass_are_its_fields_with_their_types_and_defaults() -> None:
    assert list(EXAMPLE) == [f.name for f in fields(Example)][:-1]
    assert EXAMPLE["count"].kinds == (int,)
    assert EXAMPLE["limit"].kinds == (int,)
    assert EXAMPLE["limit"].optional
    assert EXAMPLE["sizes"].kinds == (str, tuple[int, ...])
    assert [EXAMPLE[name].option for name in ("count", "limit")] == ["--count", "--max"]
    assert [s.default for s in EXAMPLE.values()][:3] == [3, 0.5, 1.0]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("count", 0, "expected count from 1 to 9, got 0"),
        ("count", 2.5, "expected count to be an integer, got 2.5"),
        ("count", True, "expected count to be an integer, got True"),
        ("count", None, "expected count to be an integer, got None"),
        ("rate", 1.0, "expected rate above 0 and below 1, got 1.0"),
        ("rate", "much", "expected rate to be a number, got 'much'"),
        ("weight", -1, "expected weight of at least 0, got -1"),
        ("weight", float("nan"), "expected weight of at least 0, got nan"),
        ("weight", float("inf"), "expected weight of at least 0, got inf"),
        ("free", float("inf"), "expected free to be finite, got inf"),
        ("free", 10**400, f"expected free to be finite, got {10**400}"),
        ("flag", 1, "expected flag to be true or false, got 1"),
        ("kind", "c", "expected kind to be one of a, b, got 'c'"),
        ("limit", -1, "expected limit of at least 0, got -1"),
        ("steps", ("x", "z"), "expected steps to be a list of x, y, got ('x', 'z')"),
        ("steps", ["x"] * 101, "expected steps to have at most 100 items, got 101"),
        ("steps", "x", "expected steps to be a list of x, y, got 'x'"),
        (
            "sizes",
            (3, 0),
            "expected sizes to be auto, or a list of integers of at least 1, got (3, 0)",
        ),
    ],
)
def test_an_invalid_value_is_rejected(name: str, value: Any, message: str) -> None:
    with pytest.raises(SettingError) as error:
        Example(**{name: value})
    assert str(error.value) == message


def test_lists_and_numpy_numbers_are_stored_as_tuples_and_python_numbers() -> None:
    example = Example(
        count=np.int64(4),  # type: ignore[arg-type]
        rate=np.float32(0.25),  # type: ignore[arg-type]
        sizes=[np.int32(3), 2],  # type: ignore[arg-type]
    )
    assert (example.count, example.rate, example.sizes) == (4, 0.25, (3, 2))
    assert type(example.count) is int
    assert type(example.rate) is float
    assert type(example.sizes[0]) is int


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("count", " 4 ", 4),
        ("rate", "0.25", 0.25),
        ("rate", "1e-3", 1e-3),
        ("weight", "0", 0),
        ("flag", "true", True),
        ("flag", "false", False),
        ("kind", "b", "b"),
        ("steps", "x,y", ("x", "y")),
        ("steps", "", ()),
        ("sizes", "auto", "auto"),
        ("sizes", "20, 5", (20, 5)),
        ("sizes", "7", (7,)),
    ],
)
def test_text_is_parsed_by_the_type_of_the_field(name: str, text: str, value: Any) -> None:
    parsed = EXAMPLE[name].parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("count", "many", "expected count to be an integer, got 'many'"),
        ("count", "1e3", "expected count to be an integer, got '1e3'"),
        ("count", "10", "expected count from 1 to 9, got 10"),
        ("rate", "", "expected rate to be a number, got ''"),
        ("flag", "yes", "expected flag to be true or false, got 'yes'"),
        ("kind", "c", "expected kind to be one of a, b, got 'c'"),
        ("steps", "x,z", "expected steps to be a list of x, y, got ('x', 'z')"),
        ("sizes", "5,many", "expected sizes to be auto, or a list of integers"),
    ],
)
def test_invalid_text_is_rejected(name: str, text: str, message: str) -> None:
    with pytest.raises(SettingError) as error:
        EXAMPLE[name].parse(text)
    assert str(error.value).startswith(message)


# --- architectures and training ----------------------------------------------------------------------------------


def test_every_field_is_a_setting_with_a_help_text() -> None:
    for kind in (Training, Architecture):
        assert [s.name for s in list_settings(kind)] == [f.name for f in fields(kind)]
    for known in METHOD_SETTINGS.values():
        assert known.help[0].isupper()
        assert known.help.endswith(".")
        assert known.default is not None or known.none
        assert known.check(known.default) == known.default


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"conv": "gat"},
            "expected conv to be one of sage, edge-sage, gcn, gin, sum, dgcnn, none, edge-conditioned, s2v, got 'gat'",
        ),
        ({"hidden": 0}, "expected hidden from 1 to 16384, got 0"),
        ({"layers_before": 0}, "expected layers_before from 1 to 100, got 0"),
        ({"layers_after": 0}, "expected layers_after from 1 to 100, got 0"),
        ({"poolings": -1}, "expected poolings from 0 to 10, got -1"),
        ({"ratio": 0.0}, "expected ratio above 0 and at most 1, got 0.0"),
        ({"ratio": 1.5}, "expected ratio above 0 and at most 1, got 1.5"),
        (
            {"readout": "median"},
            "expected readout to be one of sum, mean, max, set2set, sort, fields, got 'median'",
        ),
        (
            {"order": ("l2", "layer")},
            r"expected order to be a list of l2, relu, tanh, batch, node-index, got \('l2', 'layer'\)",
        ),
        ({"last_order": ("sigmoid",)}, "expected last_order to be a list of"),
        (
            {"pooler": "topk"},
            "expected pooler to be one of diffpool, graclus, random, uniform, pyramid",
        ),
        (
            {"assignment": "hard"},
            "expected assignment to be one of soft, straight-through, gumbel",
        ),
        ({"conv": "edge-conditioned"}, "expected pooler to be pyramid, .* got 'diffpool'"),
        ({"readout": "sort"}, "expected poolings to be 0 because readout is sort, got 1"),
        ({"set2set_steps": -1}, "expected set2set_steps from 0 to 1000, got -1"),
        (
            {"readout": "set2set", "every_level": True},
            "expected readout to be sum, mean or max because every_level is true, got 'set2set'",
        ),
        ({"assignment_order": ("softmax",)}, "expected assignment_order to be a list of"),
        ({"assignment_conv": "s2v"}, "expected assignment_conv to be one of"),
        ({"head": (0,)}, r"expected head to be a list of integers from 1 to 16384, got \(0,\)"),
        ({"clusters": "level"}, "expected clusters to be one of graph, dataset, or a list of"),
        ({"clusters": (4, 2)}, r"one number of clusters for each of 1 poolings, got \(4, 2\)"),
        ({"clusters": (0,)}, r"a list of integers from 1 to 1048576, got \(0,\)"),
    ],
)
def test_an_invalid_architecture_is_rejected(changes: dict, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Architecture(**changes)


def test_numbers_of_clusters_may_be_a_list() -> None:
    architecture = Architecture(clusters=[7])  # type: ignore[arg-type]
    assert architecture == Architecture(clusters=(7,))
    assert [c.max_count for c in build(architecture, 3, 2, largest=100).clusters] == [7]


# --- methods -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("dataset", ["embedded", "ENZYMES"])
def test_every_method_builds_on_every_data_set(name: str, dataset: str) -> None:
    method = settings_for(name, dataset)
    model = build(method.architecture, num_features=4, num_classes=3, largest=40)
    assert len(model.poolers) == method.architecture.poolings


def test_changes_override_the_settings_of_the_data_set() -> None:
    plain, own = settings_for("diffpool", "ENZYMES"), settings_for("diffpool", "embedded")
    assert plain == METHODS["diffpool"]
    assert own != plain
    changed = settings_for("diffpool", "embedded", epochs=3, hidden=17)
    assert (changed.training.epochs, changed.architecture.hidden) == (3, 17)
    assert changed.training.learning_rate == own.training.learning_rate


def test_unknown_methods_and_settings_are_rejected() -> None:
    with pytest.raises(
        SettingError, match=r"expected the method to be one of diffpool, .*, got 'magic'"
    ):
        settings_for("magic", "embedded")
    for name in ("depth", "edges"):  # `edges` is a property, not a setting
        with pytest.raises(SettingError, match=rf"settings to be among .*, got \['{name}'\]"):
            settings_for("diffpool", "embedded", **{name: 3})
    with pytest.raises(SettingError, match="expected epochs from 1 to 1000000, got 0"):
        settings_for("diffpool", "embedded", epochs=0)


def test_defaults_name_the_methods_and_data_sets_that_differ() -> None:
    texts = {
        "patience": "50",
        "epochs": "200; 40 for embedded",
        "dropout": "0; 0.5 for sortpool and patchy-san; 0.2 for ecc",
        "ratio": "0.1 for one pooling, otherwise 0.25",
        "head": "empty; 50 for diffpool-released; 64 for ecc",
        "poolings": "1; some methods differ",
    }
    assert {name: default_text(METHOD_SETTINGS[name]) for name in texts} == texts
    assert "2 for s2v-diffpool-2 and ecc" in default_text(METHOD_SETTINGS["poolings"], 99)


# --- --set and --grid --------------------------------------------------------------------------------------------


def test_settings_are_parsed_by_name_or_option() -> None:
    words = ["assignment=gumbel", "head=64,32", "concat=true", "learning-rate=0.01", "labeling=wl"]
    assert parse_settings(words) == {
        "assignment": "gumbel",
        "head": (64, 32),
        "concat": True,
        "learning_rate": 0.01,
        "labeling": "wl",
    }
    assert parse_settings(["clusters=7"]) == {"clusters": (7,)}


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("concat", "expected --set NAME=VALUE, where NAME is one of epochs, .*, got 'concat'"),
        ("magic=1", "expected --set NAME=VALUE, where NAME is one of epochs, .*, got 'magic=1'"),
        ("concat=maybe", "expected concat to be true or false, got 'maybe'"),
        ("hidden=wide", "expected hidden to be an integer, got 'wide'"),
        ("head=64,wide", "expected head to be a list of integers from 1 to 16384, got '64,wide'"),
    ],
)
def test_a_wrong_setting_is_an_error(word: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        parse_settings([word])


def test_the_values_of_a_grid_have_the_type_of_their_setting() -> None:
    grid = parse_grid(["concat=true,false", "clusters=graph,20", "ratio=0.1,1"])
    assert grid == (
        ("concat", (True, False)),
        ("clusters", ("graph", (20,))),
        ("ratio", (0.1, 1)),
    )
    with pytest.raises(SettingError, match="expected hidden to be an integer, got 'wide'"):
        parse_grid(["hidden=32,wide"])
    with pytest.raises(SettingError, match="expected hidden to be an integer, got '64'"):
        make_grid({"hidden": [32, "64"]})
    with pytest.raises(SettingError, match="expected at least one value for hidden in the grid"):
        make_grid({"hidden": []})


# --- the page ----------------------------------------------------------------------------------------------------


def test_the_page_of_settings_is_up_to_date() -> None:
    page = Path(__file__).parent.parent / "docs" / "settings.md"
    assert page.read_text() == settings_page(), "run `python -m diffpool.cli.settings_page`"
