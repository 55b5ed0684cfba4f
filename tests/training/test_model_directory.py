"""A model directory: two plain files from which the model is rebuilt, or an error that says what is wrong."""

from __future__ import annotations

import json
import pickletools
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from samples import sample

from diffpool.architecture import PAPER, RELEASED, Architecture, flat
from diffpool.builder import build
from diffpool.data import FeatureMap, embedded
from diffpool.errors import ModelError
from diffpool.experiments import settings_for, train_once
from diffpool.nn import GraphClassifier
from diffpool.training import ModelCard, Training, save_model
from diffpool.training.model_directory import LATER, read_model

SMALL = replace(PAPER, hidden=4)
ARCHITECTURES = {
    "paper": SMALL,
    "two poolings": replace(SMALL, poolings=2, clusters=(4, 2), head=(5, 6)),
    "flat": flat(SMALL),
    "gin": replace(SMALL, conv="gin"),
    "released": replace(RELEASED, hidden=4),
}


def card(architecture: Architecture = SMALL, largest: int = 21) -> ModelCard:
    return ModelCard(
        architecture=architecture,
        training=Training(epochs=7, link_weight=0.5),
        num_features=3,
        largest=largest,
        class_names=("apart", "together"),
        dataset="embedded",
        method="diffpool",
        feature_map=FeatureMap(("raw-attributes",), node_attributes=3),
    )


def model_of(card: ModelCard) -> GraphClassifier:
    """A model that has seen a training batch, so that its running statistics are not the initial ones."""
    model = build(card.architecture, card.num_features, len(card.class_names), card.largest)
    batch = sample((13, 1, 21, 0, 8), density=0.3)
    model.train()(batch.sparse.to(dtype=torch.float32), batch.x.float())
    return model


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    save_model(tmp_path / "model", model_of(card()), card())
    return tmp_path / "model"


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_loaded_model_computes_the_same_logits_to_the_bit(name: str, tmp_path: Path) -> None:
    before = card(ARCHITECTURES[name])
    model = model_of(before)
    save_model(tmp_path, model, before)
    loaded, after = read_model(tmp_path)
    assert after == before
    assert not loaded.training
    batch = sample((13, 1, 21, 0, 8), seed=1, density=0.3)
    graphs, x = batch.sparse.to(dtype=torch.float32), batch.x.float()
    assert torch.equal(loaded(graphs, x).logits, model.eval()(graphs, x).logits)
    assert all(
        torch.equal(value, loaded.state_dict()[key]) for key, value in model.state_dict().items()
    )


def test_a_model_saved_again_replaces_the_old_one(directory: Path) -> None:
    other = model_of(card())
    save_model(directory, other, card())
    loaded, _ = read_model(str(directory))
    assert all(
        torch.equal(value, loaded.state_dict()[key]) for key, value in other.state_dict().items()
    )


def test_the_directory_has_the_two_documented_files_and_no_pickle(directory: Path) -> None:
    assert sorted(path.name for path in directory.iterdir()) == ["config.json", "model.safetensors"]
    config = json.loads((directory / "config.json").read_text())
    assert config["format"] == 3
    assert config["directed"] is False
    assert config["architecture"]["hidden"] == 4
    weights = (directory / "model.safetensors").read_bytes()
    length = int.from_bytes(weights[:8], "little")
    header = json.loads(weights[8 : 8 + length])  # a safetensors file: a length, JSON, numbers
    assert header.keys() - {"__metadata__"} == model_of(card()).state_dict().keys()
    with pytest.raises(ValueError, match="opcode"):
        list(pickletools.genops(weights))


def test_a_model_from_before_a_setting_existed_has_its_default(directory: Path) -> None:
    path = directory / "config.json"
    content = json.loads(path.read_text())
    for name in LATER:
        kind = "training" if hasattr(Training, name) else "architecture"
        del content[kind][name]
    path.write_text(json.dumps(content))
    assert read_model(directory)[1] == card()


# --- damage ------------------------------------------------------------------------------------------------------


def rewrite(**changes: object) -> Callable[[Path], None]:
    """Change entries of config.json; a dict changes entries of an entry, None removes one."""

    def update(content: dict, changes: dict) -> None:
        for key, value in changes.items():
            if value is None:
                del content[key]
            elif isinstance(value, dict):
                update(content[key], value)
            else:
                content[key] = value

    def change(directory: Path) -> None:
        path = directory / "config.json"
        content = json.loads(path.read_text())
        update(content, changes)
        path.write_text(json.dumps(content))

    return change


def write(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda directory: (directory / name).write_bytes(content)


def truncate(share: float) -> Callable[[Path], None]:
    def change(directory: Path) -> None:
        path = directory / "model.safetensors"
        content = path.read_bytes()
        path.write_bytes(content[: int(share * len(content))])

    return change


def other_shapes(directory: Path) -> None:
    path = directory / "model.safetensors"
    state = load_file(path)
    save_file({key: value[..., :1].contiguous() for key, value in state.items()}, path)


def fewer_tensors(directory: Path) -> None:
    path = directory / "model.safetensors"
    state = load_file(path)
    state.pop(sorted(state)[0])
    save_file(state, path)


def swap_config(directory: Path) -> None:
    save_model(
        directory / "other", model_of(card(ARCHITECTURES["gin"])), card(ARCHITECTURES["gin"])
    )
    shutil.move(directory / "other" / "config.json", directory / "config.json")


DAMAGE = {
    "no directory": (shutil.rmtree, "is not a model directory: the file config.json is missing"),
    "no config": (lambda d: (d / "config.json").unlink(), "the file config.json is missing"),
    "no weights": (
        lambda d: (d / "model.safetensors").unlink(),
        "the file model.safetensors is missing",
    ),
    "half of the weights": (
        truncate(0.5),
        "model.safetensors: the file with the parameters is damaged",
    ),
    "all but the end of the weights": (truncate(0.99), "the file with the parameters is damaged"),
    "empty weights": (truncate(0), "model.safetensors: the file with the parameters is damaged"),
    "other bytes as weights": (write("model.safetensors", b"\x80\x04 no"), "is damaged"),
    "weights of other shapes": (
        other_shapes,
        "the parameters do not match config.json.*size mism",
    ),
    "weights with one missing": (
        fewer_tensors,
        "the parameters do not match config.json.*Missing",
    ),
    "the config of another model": (swap_config, "the parameters do not match config.json"),
    "another width": (rewrite(architecture={"hidden": 5}), "parameters do not match config.json"),
    "another largest graph": (rewrite(largest=210), "parameters do not match config.json"),
    "a newer format": (rewrite(format=4), "expected format 3, got 4: another version of diffpool"),
    "no format": (rewrite(format=None), "config.json: the file with the settings is damaged"),
    "an entry missing": (rewrite(largest=None), "the settings is damaged.*largest"),
    "a setting missing": (rewrite(training={"dropout": None}), "is damaged.*dropout"),
    "edges of another kind": (rewrite(directed="no"), "expected directed to be true or false"),
    "an unknown setting": (rewrite(architecture={"depth": 3}), "the settings is damaged.*depth"),
    "a setting that does not fit": (rewrite(architecture={"conv": "gat"}), "is damaged.*conv"),
    "a setting of another type": (rewrite(architecture={"hidden": "4"}), "the settings is damaged"),
    "half a unit": (rewrite(architecture={"hidden": 4.5}), "config.json"),
    "a head of words": (rewrite(architecture={"head": ["many"]}), "config.json"),
    "training that does not fit": (
        rewrite(training={"epochs": 0}),
        "the settings is damaged.*epochs",
    ),
    "dropout of everything": (rewrite(training={"dropout": 1}), "the settings is damaged.*dropout"),
    "classes of two types": (rewrite(class_names=["a", 1]), "damaged.*class_names"),
    "a list as a class": (rewrite(class_names=[["a"], ["b"]]), "damaged.*class_names"),
    "the same class twice": (rewrite(class_names=["a", "a"]), "damaged.*class_names"),
    "classes that are no list": (rewrite(class_names="ab"), "damaged.*class_names"),
    "no classes": (rewrite(class_names=[]), "expected numbers of features, nodes and classes"),
    "a negative count": (
        rewrite(num_features=-1),
        "expected numbers of features, nodes and classes",
    ),
    "no JSON": (
        write("config.json", b"{'format': 1}"),
        "config.json: the file with the settings is damaged",
    ),
    "half of the JSON": (
        write("config.json", b'{"format": 1, "arch'),
        "the file with the settings is damaged",
    ),
    "a list": (write("config.json", b"[1]"), "config.json: the file with the settings is damaged"),
    "bytes that are no text": (
        write("config.json", b"\xff\xfe\x00"),
        "the file with the settings is damaged",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_directory_is_an_error_that_says_what_is_wrong(
    directory: Path, damage: str
) -> None:
    harm, message = DAMAGE[damage]
    harm(directory)
    with pytest.raises(ModelError, match=message) as error:
        read_model(directory)
    assert str(directory) in str(error.value)
    assert "\n" not in str(error.value)


def test_dropout_is_a_setting_and_not_a_parameter(tmp_path: Path) -> None:
    """The files of models trained with and without it differ in the settings only."""
    dataset = embedded(20, rungs=2)
    for rate in (0.0, 0.5):
        method = settings_for("diffpool", "embedded", epochs=1, hidden=4, dropout=rate)
        train_once(method, dataset, tmp_path / str(rate))
    plain, dropped = (load_file(tmp_path / str(r) / "model.safetensors") for r in (0.0, 0.5))
    assert plain.keys() == dropped.keys()
    _, found = read_model(tmp_path / "0.5")
    assert found.training.dropout == 0.5


def test_a_model_in_double_precision_keeps_its_precision(tmp_path: Path) -> None:
    model = model_of(card()).double()
    save_model(tmp_path, model, card())
    loaded, _ = read_model(tmp_path)
    assert all(
        torch.equal(value, loaded.state_dict()[key]) for key, value in model.state_dict().items()
    )
