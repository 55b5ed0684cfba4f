"""A trained model as a directory: `config.json` and the parameter file that it names.

Loading executes no code from the directory and trusts none of its content: an inconsistent model is rejected.

The name of the parameter file contains the first digits of its SHA-256, and config.json contains all of them.
`config.json` is written last, so the directory holds the old model until it holds the new one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import nn

from diffpool.architecture import MAX_SIZE, Architecture, cluster_counts
from diffpool.builder import build
from diffpool.checksums import BLANK, is_intact, sealed
from diffpool.data import FeatureMap
from diffpool.data.categories import Label
from diffpool.errors import ModelError, SettingError
from diffpool.files import atomic_write, file_lock
from diffpool.nn import GraphClassifier
from diffpool.training.parameters import from_bytes, load_parameters, to_bytes
from diffpool.training.settings import Training

FORMAT = 5
CONFIG, LOCK = "config.json", ".lock"
WEIGHTS = re.compile(r"model-[0-9a-f]{16}\.safetensors")
MAX_NODES = 2**31 - 1
MAX_MEMBERS = 10_000

# One or more models of one architecture side by side; or several of these, as the members of a mixed ensemble.
Model = GraphClassifier | nn.ModuleList


@dataclass(frozen=True)
class Part:
    """Models of one architecture, side by side."""

    architecture: Architecture
    training: Training  # of the first model
    weights: tuple[float, ...] = (1.0,)  # of each model in the mean of an ensemble


@dataclass(frozen=True)
class ModelCard:
    """Everything needed to rebuild a model or an ensemble and prepare its inputs, and where it comes from."""

    parts: tuple[Part, ...]  # of the ensemble; a single model is one part with one weight
    num_features: int
    largest: int  # nodes of the largest graph; determines the maximum number of clusters
    class_names: tuple[Label, ...]  # in their original type; empty for regression
    dataset: str
    method: str
    feature_map: FeatureMap | None  # None: the features were not computed by this package
    directed: bool = False  # trained on the edges as given: missing reverse edges were not added
    target_mean: tuple[float, ...] = ()  # regression: mean and sd of the training targets
    target_sd: tuple[float, ...] = ()

    @property
    def architecture(self) -> Architecture:
        """The architecture of the first model."""
        return self.parts[0].architecture

    @property
    def training(self) -> Training:
        """The training settings of the first model."""
        return self.parts[0].training

    @property
    def members(self) -> int:
        """The number of models: 1 unless this is an ensemble."""
        return sum(len(part.weights) for part in self.parts)

    @property
    def regression(self) -> bool:
        return not self.class_names

    @property
    def num_outputs(self) -> int:
        return len(self.target_mean) if self.regression else len(self.class_names)

    @property
    def num_edge_features(self) -> int:
        return 0 if self.feature_map is None else self.feature_map.num_edge_features

    def build(self) -> Model:
        """A new model, or a new ensemble, with random parameters."""
        models = [
            build(
                part.architecture,
                self.num_features,
                self.num_outputs,
                self.largest,
                len(part.weights),
                edge_features=self.num_edge_features,
            )
            for part in self.parts
        ]
        return models[0] if len(models) == 1 else nn.ModuleList(models)


Save = Callable[[Model, ModelCard], None]  # writes a model to a reserved directory


def save_model(
    directory: str | Path, model: Model, card: ModelCard, overwrite: bool = True
) -> None:
    """Write a model directory.

    If the process is killed, the directory holds either the previous model or the new one. With
    `overwrite=False`, a directory that already holds a model raises an error.
    """
    with reserve_directory(directory, overwrite) as save:
        save(model, card)


@contextlib.contextmanager
def reserve_directory(directory: str | Path, overwrite: bool = False) -> Iterator[Save]:
    """Create and lock a directory for one model; yield the function that saves the model there.

    Raises an error if another process has locked it, or if it holds a model and `overwrite` is not set.
    """
    directory = Path(directory)
    with contextlib.ExitStack() as stack:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            stack.enter_context(file_lock(directory / LOCK, wait=False))
        except BlockingIOError as error:
            raise SettingError(
                f"another process is writing a model to {directory}: choose another directory, or wait until it has "
                "finished"
            ) from error
        except OSError as error:
            raise SettingError(
                f"expected a writable directory for the model, got {directory} ({error.strerror})"
            ) from error
        if not overwrite and (directory / CONFIG).exists():
            raise SettingError(
                f"{directory} already holds a model: choose another directory, or replace it with --overwrite "
                "(overwrite=True in Python)"
            )
        yield lambda model, card: _write(directory, model, card)


def _write(directory: Path, model: Model, card: ModelCard) -> None:
    """Write the parameters under a new name, then config.json, which names them; then remove the old parameters."""
    content = to_bytes(model)
    digest = hashlib.sha256(content).hexdigest()
    weights, config = directory / _weights_name(digest), directory / CONFIG
    values = {**asdict(card), "feature_map": card.feature_map and card.feature_map.to_json()}
    values = {"checksum": BLANK, "format": FORMAT, "weights_sha256": digest, **values}
    text = json.dumps(values, indent=2) + "\n"
    try:
        old = [file for file in _weights_files(directory) if file.name != weights.name]
        with atomic_write(weights) as temporary:
            temporary.write_bytes(content)
        with atomic_write(config) as temporary:
            temporary.write_bytes(sealed(text.encode()))
    except OSError as error:
        raise ModelError(
            f"cannot write the model to {directory} ({error.strerror or error})"
        ) from error
    for file in old:
        with contextlib.suppress(OSError):  # the new model is complete even if this fails
            file.unlink()


def _weights_files(directory: Path) -> Iterator[Path]:
    """The parameter files, and temporary files left by killed processes."""
    for file in directory.iterdir():
        temporary = file.suffix == ".part" and file.name.startswith((".model-", f".{CONFIG}."))
        if WEIGHTS.fullmatch(file.name) or temporary:
            yield file


def _weights_name(digest: str) -> str:
    return f"model-{digest[:16]}.safetensors"


def read_model(
    directory: str | Path, device: torch.device | str = "cpu"
) -> tuple[Model, ModelCard]:
    """The model or the ensemble in evaluation mode, and its card."""
    directory = Path(directory)
    card, weights = _read_files(directory)
    try:
        tensors = from_bytes(weights)
        layers = sum(_num_layers(part.architecture) for part in card.parts)
        if layers > len(tensors):
            raise ModelError(
                f"the parameters do not match config.json (expected {layers} layers, got {len(tensors)} tensors)"
            )
        with torch.device("meta"):  # shapes only, so that absurd ones need no memory
            model = card.build()
        load_parameters(model, tensors)
    except ModelError as error:
        raise ModelError(f"{directory}: {error}") from error
    except (RuntimeError, TypeError, ValueError, OverflowError, SettingError) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise ModelError(
            f"{directory}: the settings in config.json do not define a valid model ({reason})"
        ) from error
    return model.to(device).eval(), card


def _num_layers(a: Architecture) -> int:
    """The smallest number of layers with parameters: checked before building, because every layer takes memory."""
    layers = [a.layers_before] + [a.layers_after] * a.poolings  # of each level
    pooling = [a.assignment_layers or n for n in layers[:-1]] if a.pooler == "diffpool" else []
    if a.conv == "s2v" or a.readout == "fields":  # their layers share parameters, or have none
        layers = []
    return sum(layers) + sum(pooling) + len(a.head)


def _read_files(directory: Path) -> tuple[ModelCard, bytes]:
    """The settings, and the content of the parameter file."""
    config = _read_config(directory)
    while True:
        card, digest = _read_card(directory / CONFIG, config)
        path = directory / _weights_name(digest)
        try:
            weights = path.read_bytes() if path.is_file() else None
        except OSError as error:
            raise ModelError(f"{path}: cannot read the file ({error.strerror})") from error
        if weights is not None:
            break
        before, config = config, _read_config(directory)
        if config == before:  # otherwise another process has just replaced the model
            raise ModelError(
                f"{directory}: the file {path.name} is missing: the model is incomplete"
            )
    if hashlib.sha256(weights).hexdigest() != digest:
        raise ModelError(
            f"{path}: the parameter file is damaged (its checksum does not match config.json)"
        )
    return card, weights


def _read_config(directory: Path) -> bytes:
    path = directory / CONFIG
    if not path.is_file():
        raise ModelError(f"{directory} is not a model directory: the file config.json is missing")
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: cannot read the file ({error.strerror})") from error


def _read_card(path: Path, config: bytes) -> tuple[ModelCard, str]:
    """The content of config.json: the card, and the SHA-256 of the parameter file."""
    try:
        content = json.loads(config)
        if content["format"] != FORMAT:
            raise ModelError(
                f"{path}: expected format {FORMAT}, got {content['format']}: another version of diffpool wrote it"
            )
        if not is_intact(config):
            raise ModelError(
                f"{path}: the file is damaged or was edited (its checksum does not match)"
            )
        digest = content["weights_sha256"]
        if type(digest) is not str or not re.fullmatch("[0-9a-f]{64}", digest):
            raise ValueError(f"weights_sha256 is {digest!r}")
        return _card(content), digest
    except (
        *(ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, OSError),
        SettingError,
    ) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise ModelError(f"{path}: the settings file is damaged ({reason})") from error


def _card(content: dict[str, Any]) -> ModelCard:
    """The card with these values; raises ValueError, TypeError, KeyError or SettingError if they are not consistent."""
    card = ModelCard(
        **{
            **{f.name: content[f.name] for f in fields(ModelCard)},
            "parts": _parts(content["parts"]),
            "class_names": _class_names(content["class_names"]),
            "feature_map": _feature_map(content["feature_map"]),
            "target_mean": _numbers(content["target_mean"]),
            "target_sd": _numbers(content["target_sd"]),
        }
    )
    for name in ("dataset", "method"):
        if type(getattr(card, name)) is not str:
            raise ValueError(f"expected {name} to be text, got {getattr(card, name)!r}")
    counts = (card.num_features, card.largest, card.num_outputs)
    if any(type(n) is not int or not 0 <= n <= MAX_NODES for n in counts) or card.num_outputs == 0:
        raise ValueError(f"expected numbers of features, nodes and classes, got {counts}")
    for part in card.parts:
        clusters = cluster_counts(part.architecture, card.largest)
        if any(count.ratio is None and count.max_count > MAX_SIZE for count in clusters):
            raise ValueError(
                f"expected at most {MAX_SIZE} clusters, got more for {card.largest} nodes"
            )
    if card.class_names and (card.target_mean or card.target_sd):
        raise ValueError("expected classes or targets, got both")
    if len(card.target_mean) != len(card.target_sd) or any(sd <= 0 for sd in card.target_sd):
        raise ValueError("expected the mean and the standard deviation of every target")
    if type(card.directed) is not bool:
        raise ValueError(f"expected directed to be true or false, got {card.directed!r}")
    if card.feature_map is not None and card.feature_map.num_features != card.num_features:
        raise ValueError(
            f"expected {card.num_features} features, got a feature map with {card.feature_map.num_features}"
        )
    return card


def _parts(values: Any) -> tuple[Part, ...]:
    parts = tuple(
        Part(
            _dataclass(Architecture, part["architecture"]),
            _dataclass(Training, part["training"]),
            _numbers(part["weights"]),
        )
        for part in values
    )
    if type(values) is not list or not parts or not all(part.weights for part in parts):
        raise ValueError("expected parts with a weight for each model")
    weights = [weight for part in parts for weight in part.weights]
    if len(weights) > MAX_MEMBERS or min(weights) <= 0:
        raise ValueError(f"expected up to {MAX_MEMBERS} models with weights above 0")
    return parts


def _class_names(values: Any) -> tuple[Label, ...]:
    if type(values) is not list or any(type(v) not in (str, int, bool, float) for v in values):
        raise ValueError(f"expected class_names to be a list of strings or numbers, got {values!r}")
    if len(set(map(type, values))) > 1:
        raise ValueError(f"expected class_names of one type, got {values!r}")
    if len(set(values)) < len(values):
        raise ValueError("expected unique class_names")
    return tuple(values)


def _numbers(values: Any) -> tuple[float, ...]:
    numbers = tuple(float(v) for v in values)
    if type(values) is not list or not all(map(math.isfinite, numbers)):
        raise ValueError(f"expected a list of finite numbers, got {values!r}")
    return numbers


def _feature_map(values: Any) -> FeatureMap | None:
    return None if values is None else FeatureMap.from_json(values)


def _dataclass(kind: type[Any], values: dict[str, Any]) -> Any:
    """A dataclass with exactly these values, which it checks."""
    if missing := [field.name for field in fields(kind) if field.name not in values]:
        raise ValueError(f"{missing[0]} is missing")
    return kind(**values)
