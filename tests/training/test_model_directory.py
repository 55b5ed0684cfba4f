"""A model directory: two plain files from which the model is rebuilt, or an error that says what is wrong.

The model is replaced at one moment, and every change to the files is noticed.
"""

from __future__ import annotations

import hashlib
import json
import math
import pickletools
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from model_files import (
    read_config,
    weights_file,
    write_config,
    write_weights,
)
from safetensors.torch import load_file, save
from samples import sample
from torch import Tensor

from diffpool.architecture import PAPER, RELEASED, Architecture, flat
from diffpool.builder import build
from diffpool.data import FeatureMap, embedded
from diffpool.errors import ModelError, SettingError
from diffpool.experiments import settings_for, train_once
from diffpool.nn import GraphClassifier
from diffpool.training import ModelCard, Training, model_directory, reserve_directory, save_model
from diffpool.training.model_directory import Part, read_model

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
        parts=(Part(architecture, Training(epochs=7, link_weight=0.5)),),
        num_features=3,
        largest=largest,
        class_names=("apart", "together"),
        dataset="embedded",
        method="diffpool",
        feature_map=FeatureMap(("raw-attributes",), node_attributes=3),
    )


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


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
    assert len(list(directory.iterdir())) == 2  # the old parameters are gone


def test_a_model_is_not_replaced_without_permission(directory: Path) -> None:
    before = contents(directory)
    with pytest.raises(SettingError, match=r"already holds a model: .*--overwrite"):
        save_model(directory, model_of(card()), card(), overwrite=False)
    assert contents(directory) == before
    save_model(directory.parent / "new", model_of(card()), card(), overwrite=False)
    read_model(directory.parent / "new")


def test_files_of_other_programs_are_kept(directory: Path) -> None:
    others = ("metrics.jsonl", "model-final.safetensors", "model.safetensors", "notes.part")
    for name in others:
        (directory / name).write_text(name)
    save_model(directory, model_of(card()), card())
    assert all((directory / name).read_text() == name for name in others)


def test_a_full_disk_leaves_the_old_model(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(directory)
    write_bytes = Path.write_bytes

    def fail(path: Path, content: bytes) -> None:
        if path.name.startswith(".config"):
            raise OSError(28, "No space left on device")
        write_bytes(path, content)

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(
        ModelError, match=r"cannot write the model to .* \(No space left on device\)"
    ):
        save_model(directory, model_of(card()), card())
    assert before.items() <= contents(directory).items()
    assert read_model(directory)[1] == card()


def test_a_model_with_nan_is_not_saved(directory: Path) -> None:
    before = contents(directory)
    model = model_of(card())
    model.inputs.mean[0, 1] = torch.nan
    with pytest.raises(ModelError, match=r"expected finite numbers in inputs.mean, got NaN"):
        save_model(directory, model, card())
    assert contents(directory) == before


def test_two_processes_do_not_write_to_one_directory(directory: Path) -> None:
    with (
        reserve_directory(directory, overwrite=True) as save,
        pytest.raises(SettingError, match="another process is writing a model to"),
    ):
        save_model(directory, model_of(card()), card())
    (directory / ".lock").touch()  # of a process that was killed: no one holds the lock
    with reserve_directory(directory, overwrite=True) as save:
        save(model_of(card()), card())
    assert not (directory / ".lock").exists()


def test_a_reader_finds_a_model_while_it_is_replaced(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between reading config.json and the parameters, another process replaces both."""
    original, times = model_directory._read_card, []

    def read_slowly(path: Path, config: bytes) -> object:
        if not times:
            save_model(directory, model_of(card(SMALL, 30)), card(SMALL, 30))
        times.append(path)
        return original(path, config)

    monkeypatch.setattr(model_directory, "_read_card", read_slowly)
    _, found = read_model(directory)
    assert found.largest == 30
    assert len(times) == 2


def test_the_directory_has_the_two_documented_files_and_no_pickle(directory: Path) -> None:
    config = read_config(directory)
    digest = hashlib.sha256(weights_file(directory).read_bytes()).hexdigest()
    assert {path.name for path in directory.iterdir()} == {
        "config.json",
        f"model-{digest[:16]}.safetensors",
    }
    assert config["format"] == 5
    assert config["weights_sha256"] == digest
    assert config["directed"] is False
    assert config["parts"][0]["architecture"]["hidden"] == 4
    weights = weights_file(directory).read_bytes()
    length = int.from_bytes(weights[:8], "little")
    header = json.loads(weights[8 : 8 + length])  # a safetensors file: a length, JSON, numbers
    assert header.keys() - {"__metadata__"} == model_of(card()).state_dict().keys()
    with pytest.raises(ValueError, match="opcode"):
        list(pickletools.genops(weights))


# --- damage ------------------------------------------------------------------------------------------------------


def rewrite(**changes: object) -> Callable[[Path], None]:
    """Change entries of config.json, and its checksum; a dict changes entries of an entry, None removes one.

    `architecture`, `training` and `weights` are those of the first part.
    """

    def update(content: dict, changes: dict) -> None:
        for key, value in changes.items():
            if value is None:
                del content[key]
            elif isinstance(value, dict):
                update(content[key], value)
            else:
                content[key] = value

    def change(directory: Path) -> None:
        content = read_config(directory)
        inner = {k: v for k, v in changes.items() if k in content["parts"][0]}
        update(content["parts"][0], inner)
        update(content, {k: v for k, v in changes.items() if k not in inner})
        write_config(directory, content)

    return change


def write(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda directory: (directory / name).write_bytes(content)


def truncate(share: float) -> Callable[[Path], None]:
    def change(directory: Path) -> None:
        path = weights_file(directory)
        content = path.read_bytes()
        path.write_bytes(content[: int(share * len(content))])

    return change


def retensor(change: Callable[[dict[str, Tensor]], object]) -> Callable[[Path], None]:
    """Change the dict of tensors, and the checksums."""

    def harm(directory: Path) -> None:
        state = load_file(weights_file(directory))
        change(state)
        write_weights(directory, save(state))

    return harm


def other_shapes(state: dict[str, Tensor]) -> None:
    state.update({key: value[..., :1].contiguous() for key, value in state.items()})


def ending(state: dict[str, Tensor], end: str) -> str:
    """The first name with this ending."""
    return min(name for name in state if name.endswith(end))


def converted(end: str, dtype: torch.dtype) -> Callable[[Path], None]:
    """Store one tensor with another type."""

    def change(state: dict[str, Tensor]) -> None:
        name = ending(state, end)
        state[name] = state[name].to(dtype)

    return retensor(change)


def with_value(end: str, value: float) -> Callable[[Path], None]:
    """Replace one number in one tensor."""

    def change(state: dict[str, Tensor]) -> None:
        state[ending(state, end)].view(-1)[-1] = value

    return retensor(change)


def everything_as(dtype: torch.dtype) -> Callable[[Path], None]:
    return retensor(
        lambda state: state.update({key: value.to(dtype) for key, value in state.items()})
    )


def one_bit(name: str) -> Callable[[Path], None]:
    def harm(directory: Path) -> None:
        path = next(directory.glob(name))
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)

    return harm


def swap_config(directory: Path) -> None:
    save_model(
        directory / "other", model_of(card(ARCHITECTURES["gin"])), card(ARCHITECTURES["gin"])
    )
    shutil.move(directory / "other" / "config.json", directory / "config.json")


DAMAGE = {
    "no directory": (shutil.rmtree, "is not a model directory: the file config.json is missing"),
    "no config": (lambda d: (d / "config.json").unlink(), "the file config.json is missing"),
    "no weights": (
        lambda d: weights_file(d).unlink(),
        r"the file model-\w+.safetensors is missing: the model is incomplete",
    ),
    "half of the weights": (
        truncate(0.5),
        r"model-\w+.safetensors: the parameter file is damaged \(its checksum",
    ),
    "all but the end of the weights": (truncate(0.99), "the parameter file is damaged"),
    "empty weights": (truncate(0), "the parameter file is damaged"),
    "other bytes as weights": (
        lambda d: write_weights(d, b"\x80\x04 no"),
        "the parameter file is damaged",
    ),
    "one bit of the weights": (one_bit("model*"), "parameter file is damaged .its checksum"),
    "one bit of the config": (one_bit("config.json"), "config.json.*is damaged"),
    "an edited config": (
        lambda d: (d / "config.json").write_text(
            (d / "config.json").read_text().replace("apart", "alone")
        ),
        "config.json: the file is damaged or was edited",
    ),
    "weights of other shapes": (
        retensor(other_shapes),
        "the parameters do not match config.json .expected .* of shape",
    ),
    "weights with one missing": (
        retensor(lambda state: state.pop(min(state))),
        "the parameters do not match config.json .* is missing",
    ),
    "weights with one more": (
        retensor(lambda state: state.update(more=torch.ones(1))),
        "the parameters do not match config.json .unexpected 'more'",
    ),
    # The C kernels read float32 of the right size: anything else would be read out of bounds.
    "integers as variances": (converted("running_var", torch.int8), "got int8 for .*running_var"),
    "half variances": (converted("running_var", torch.float16), "got float16 for .*running_var"),
    "double variances": (converted("running_var", torch.float64), "got float64 for .*running_var"),
    "double means": (converted("running_mean", torch.float64), "got float64 for .*running_mean"),
    "double features": (converted("inputs.mean", torch.float64), "got float64 for inputs.mean"),
    "complex weights": (converted("weight", torch.complex64), "expected .*, got complex64"),
    "a model in half precision": (everything_as(torch.float16), "float32 or float64, got float16"),
    "a model of integers": (everything_as(torch.int32), "float32 or float64, got int32"),
    "NaN in the weights": (with_value("weight", torch.nan), "finite numbers in .*weight, got NaN"),
    "infinity in the bias": (with_value("bias", torch.inf), "finite numbers in .*bias"),
    "NaN in the statistics": (with_value("running_mean", torch.nan), "numbers in .*running_mean"),
    "infinite variance": (with_value("running_var", torch.inf), "finite numbers in .*running_var"),
    "a negative variance": (with_value("running_var", -1), "nonnegative variances in .*running_"),
    "NaN features": (with_value("inputs.inverse_sd", torch.nan), "numbers in inputs.inverse_sd"),
    "the config of another model": (swap_config, "the model is incomplete"),
    "another width": (rewrite(architecture={"hidden": 5}), "parameters do not match config.json"),
    "another largest graph": (rewrite(largest=210), "parameters do not match config.json"),
    "a newer format": (rewrite(format=6), "expected format 5, got 6: another version of diffpool"),
    "no parts": (rewrite(parts=[]), "is damaged.*parts"),
    "no members": (rewrite(weights=[]), "is damaged.*weight"),
    "a member too many": (rewrite(weights=[1.0, 1.0]), "parameters do not match config.json"),
    "a weight of 0": (rewrite(weights=[0.0]), "is damaged.*weights above 0"),
    "members without end": (rewrite(weights=[1.0] * 20_000), "is damaged.*models"),
    "no format": (rewrite(format=None), "config.json: the settings file is damaged"),
    "an entry missing": (rewrite(largest=None), "the settings file is damaged.*largest"),
    "a setting missing": (rewrite(training={"dropout": None}), "is damaged.*dropout"),
    "edges of another kind": (rewrite(directed="no"), "expected directed to be true or false"),
    "an unknown setting": (
        rewrite(architecture={"depth": 3}),
        "the settings file is damaged.*depth",
    ),
    "a setting that does not fit": (rewrite(architecture={"conv": "gat"}), "is damaged.*conv"),
    "a setting of another type": (
        rewrite(architecture={"hidden": "4"}),
        "the settings file is damaged",
    ),
    "half a unit": (rewrite(architecture={"hidden": 4.5}), "config.json"),
    "a head of words": (rewrite(architecture={"head": ["many"]}), "config.json"),
    "training that does not fit": (
        rewrite(training={"epochs": 0}),
        "the settings file is damaged.*epochs",
    ),
    "dropout of everything": (
        rewrite(training={"dropout": 1}),
        "the settings file is damaged.*dropout",
    ),
    "absurdly many layers": (
        rewrite(architecture={"assignment_layers": 100_000}),
        "expected assignment_layers from 1 to 100, got 100000",
    ),
    "an absurd width": (rewrite(architecture={"hidden": 10**9}), "expected hidden from 1 to"),
    "more layers than tensors": (
        rewrite(architecture={"poolings": 10, "layers_after": 100, "assignment_layers": 100}),
        "expected 2002 layers, got .* tensors",
    ),
    "an absurd head": (rewrite(architecture={"head": [10**12]}), "expected head"),
    "a head without end": (rewrite(architecture={"head": [1] * 10**5}), "head to have at most 100"),
    "steps without end": (
        rewrite(architecture={"order": ["l2"] * 10**5}),
        "order to have at most 10",
    ),
    "absurd clusters": (rewrite(architecture={"clusters": [10**12]}), "expected clusters"),
    "an absurd graph": (rewrite(largest=10**15), "expected numbers of features, nodes and"),
    "clusters of an absurd graph": (
        rewrite(largest=10**9, architecture={"clusters": "dataset", "pooler": "uniform"}),
        "expected at most 1048576 clusters",
    ),
    "a number beyond floats": (rewrite(training={"learning_rate": 10**400}), "learning_rate"),
    "an integer beyond floats": (rewrite(training={"epochs": 10**400}), "epochs"),
    "a nested abyss": (write("config.json", b"[" * 10**5), "the settings file is damaged"),
    "weights without a name": (rewrite(weights_sha256=7), "weights_sha256 is 7"),
    "weights elsewhere": (rewrite(weights_sha256="../" * 21 + "x"), "weights_sha256 is"),
    "classes as a word": (
        rewrite(class_names="ab"),
        "class_names to be a list of strings or numbers",
    ),
    "classes of numbers": (
        rewrite(class_names=[[], {}]),
        "class_names to be a list of strings or numbers",
    ),
    "a class twice": (rewrite(class_names=["a", "a"]), "expected unique class_names"),
    "no name": (rewrite(dataset=["x"]), "expected dataset to be text"),
    "classes and targets": (rewrite(target_mean=[1.0], target_sd=[1.0]), "targets, got both"),
    "targets without spread": (
        rewrite(class_names=[], target_mean=[1.0, 2.0], target_sd=[1.0, 0.0]),
        "the mean and the standard deviation of every target",
    ),
    "targets half": (
        rewrite(class_names=[], target_mean=[1.0, 2.0], target_sd=[1.0]),
        "the mean and the standard deviation of every target",
    ),
    "infinite targets": (
        rewrite(class_names=[], target_mean=[math.inf], target_sd=[1.0]),
        "a list of finite numbers",
    ),
    "features twice": (
        rewrite(feature_map={"nodes": ["constant", "constant", "log-degree"]}, num_features=2),
        "has a duplicate string",
    ),
    "labels as a word": (
        rewrite(feature_map={"nodes": ["labels"], "node_labels": ["abc"]}),
        "'abc' is not a list of strings",
    ),
    "other features": (rewrite(feature_map={"node_attributes": 4}), "got a feature map with 4"),
    "classes of two types": (rewrite(class_names=["a", 1]), "class_names of one type"),
    "a list as a class": (
        rewrite(class_names=[["a"], ["b"]]),
        "class_names to be a list of strings",
    ),
    "no classes": (rewrite(class_names=[]), "expected numbers of features, nodes and classes"),
    "a negative count": (
        rewrite(num_features=-1),
        "expected numbers of features, nodes and classes",
    ),
    "no JSON": (
        write("config.json", b"{'format': 1}"),
        "config.json: the settings file is damaged",
    ),
    "half of the JSON": (
        write("config.json", b'{"format": 1, "arch'),
        "the settings file is damaged",
    ),
    "a list": (write("config.json", b"[1]"), "config.json: the settings file is damaged"),
    "bytes that are no text": (
        write("config.json", b"\xff\xfe\x00"),
        "the settings file is damaged",
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
    plain, dropped = (load_file(weights_file(tmp_path / str(r))) for r in (0.0, 0.5))
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
