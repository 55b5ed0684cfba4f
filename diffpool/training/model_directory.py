"""A trained model as a directory: `model.safetensors` and `config.json`. Loading executes nothing in it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from diffpool.architecture import Architecture
from diffpool.builder import build
from diffpool.data import FeatureMap
from diffpool.errors import ModelError, SettingError
from diffpool.files import atomic_write
from diffpool.nn import GraphClassifier
from diffpool.training.settings import Training

FORMAT = 3


@dataclass(frozen=True)
class ModelCard:
    """What is needed to rebuild a model and to prepare its inputs, and where the model comes from."""

    architecture: Architecture
    training: Training
    num_features: int
    largest: int  # nodes of the largest graph; determines the maximum number of clusters
    class_names: tuple[str, ...]  # empty for regression
    dataset: str
    method: str
    feature_map: FeatureMap | None  # None: the features were not computed by this package
    directed: bool = False  # trained on edges as given, without their missing reverse edges
    target_mean: tuple[float, ...] = ()  # regression: mean and sd of the training targets
    target_sd: tuple[float, ...] = ()

    @property
    def regression(self) -> bool:
        return not self.class_names

    @property
    def num_outputs(self) -> int:
        return len(self.target_mean) if self.regression else len(self.class_names)

    @property
    def num_edge_features(self) -> int:
        return 0 if self.feature_map is None else self.feature_map.num_edge_features

    def build(self) -> GraphClassifier:
        """A new model with random parameters."""
        return build(
            self.architecture,
            self.num_features,
            self.num_outputs,
            self.largest,
            edge_features=self.num_edge_features,
        )


def save_model(directory: str | Path, model: GraphClassifier, card: ModelCard) -> None:
    """Write the two files; each of them is replaced atomically."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    state = {name: t.detach().cpu().contiguous() for name, t in model.state_dict().items()}
    with atomic_write(directory / "model.safetensors") as weights:
        save_file(state, weights)
    values = {**asdict(card), "feature_map": card.feature_map and card.feature_map.to_json()}
    with atomic_write(directory / "config.json") as config:
        config.write_text(json.dumps({"format": FORMAT, **values}, indent=2) + "\n")


def read_model(
    directory: str | Path, device: torch.device | str = "cpu"
) -> tuple[GraphClassifier, ModelCard]:
    """The model in evaluation mode, and its card."""
    directory = Path(directory)
    card = _read_card(directory)
    path = directory / "model.safetensors"
    if not path.is_file():
        raise ModelError(f"{directory}: the file model.safetensors is missing")
    try:
        state = load_file(path)
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path}: the file with the parameters is damaged ({error})") from error
    try:
        with torch.device("meta"):  # shapes only, so that absurd ones need no memory
            model = card.build()
        model.load_state_dict(state, assign=True)
    except (RuntimeError, TypeError, OverflowError, SettingError) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise ModelError(
            f"{directory}: the parameters do not match config.json ({reason})"
        ) from error
    return model.to(device).eval(), card


def _read_card(directory: Path) -> ModelCard:
    path = directory / "config.json"
    if not path.is_file():
        raise ModelError(f"{directory} is not a model directory: the file config.json is missing")
    try:
        content = json.loads(path.read_text())
        if content["format"] != FORMAT:
            raise ModelError(
                f"{path}: expected format {FORMAT}, got {content['format']}: another version of diffpool wrote it"
            )
        card = ModelCard(
            **{
                **{f.name: content[f.name] for f in fields(ModelCard)},
                "architecture": _dataclass(Architecture, content["architecture"]),
                "training": _dataclass(Training, content["training"]),
                "class_names": tuple(str(name) for name in content["class_names"]),
                "feature_map": _feature_map(content["feature_map"]),
                "target_mean": tuple(float(v) for v in content["target_mean"]),
                "target_sd": tuple(float(v) for v in content["target_sd"]),
            }
        )
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OSError,
        OverflowError,
        RecursionError,
        SettingError,
    ) as error:
        raise ModelError(
            f"{path}: the file with the settings is damaged ({type(error).__name__}: {error})"
        ) from error
    counts = (card.num_features, card.largest, card.num_outputs)
    if any(type(n) is not int or n < 0 for n in counts) or card.num_outputs == 0:
        raise ModelError(
            f"{path}: expected numbers of features, nodes and classes, got {counts}: the file is damaged"
        )
    if type(card.directed) is not bool:
        raise ModelError(
            f"{path}: expected directed to be true or false, got {card.directed!r}: the file is damaged"
        )
    if card.feature_map is not None and card.feature_map.num_features != card.num_features:
        raise ModelError(
            f"{path}: expected {card.num_features} features, got a feature map with "
            f"{card.feature_map.num_features}: the file is damaged"
        )
    return card


def _feature_map(values: Any) -> FeatureMap | None:
    return None if values is None else FeatureMap.from_json(values)


def _dataclass(kind: type[Any], values: dict[str, Any]) -> Any:
    """A dataclass with these values, whose types are checked against the defaults."""
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    for field in fields(kind):
        value, default = given[field.name], field.default
        allowed: tuple[type, ...] = {
            bool: (bool,),
            int: (int,),
            float: (float, int),
            tuple: (tuple,),
        }.get(type(default), (str, tuple, float, int, type(None)))
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            raise ValueError(f"{field.name} is {value!r}")
    return kind(**given)
