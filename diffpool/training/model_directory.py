"""A trained model as a directory: `model.safetensors` and `config.json`. Nothing in it is executed on loading."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from diffpool.errors import ModelError, SettingError
from diffpool.nn import Architecture, GraphClassifier, build
from diffpool.training.config import Training

FORMAT = 1


@dataclass(frozen=True)
class ModelCard:
    """What must be known to build the model again, and where it comes from."""

    architecture: Architecture
    training: Training
    num_features: int
    largest: int  # nodes of the largest graph, which fixes the largest number of clusters
    class_names: tuple[str, ...]
    dataset: str
    features: str
    method: str


def save_model(directory: str | Path, model: GraphClassifier, card: ModelCard) -> None:
    """Write the two files; each appears whole or not at all."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    state = {name: t.detach().cpu().contiguous() for name, t in model.state_dict().items()}
    weights = directory / "model.safetensors.part"
    save_file(state, weights)
    weights.replace(directory / "model.safetensors")
    config = directory / "config.json.part"
    config.write_text(json.dumps({"format": FORMAT, **asdict(card)}, indent=2) + "\n")
    config.replace(directory / "config.json")


def load_model(
    directory: str | Path, device: torch.device | str = "cpu"
) -> tuple[GraphClassifier, ModelCard]:
    """The model in evaluation mode, and its card."""
    directory = Path(directory)
    card = _read_card(directory)
    path = directory / "model.safetensors"
    if not path.is_file():
        raise ModelError(f"{directory}: expected a file model.safetensors in it, got none")
    try:
        state = load_file(path)
    except (SafetensorError, OSError) as error:
        raise ModelError(
            f"{path}: expected the parameters of a model, got a damaged file ({error})"
        ) from error
    try:
        model = build(card.architecture, card.num_features, len(card.class_names), card.largest)
        dtypes = {t.dtype for t in state.values()}
        model.to(dtypes.pop() if len(dtypes) == 1 else torch.float32).load_state_dict(state)
    except (RuntimeError, TypeError) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise ModelError(
            f"{directory}: expected parameters that fit config.json, got others ({reason})"
        ) from error
    return model.to(device).eval(), card


def _read_card(directory: Path) -> ModelCard:
    path = directory / "config.json"
    if not path.is_file():
        raise ModelError(
            f"{directory}: expected a model directory with a file config.json, got none"
        )
    try:
        content = json.loads(path.read_text())
        if content["format"] != FORMAT:
            raise ModelError(
                f"{path}: expected format {FORMAT}, got {content['format']}: it was written by another version"
            )
        card = ModelCard(
            **{
                **{f.name: content[f.name] for f in fields(ModelCard)},
                "architecture": _dataclass(Architecture, content["architecture"]),
                "training": _dataclass(Training, content["training"]),
                "class_names": tuple(str(name) for name in content["class_names"]),
            }
        )
    except (ValueError, KeyError, TypeError, AttributeError, SettingError) as error:
        raise ModelError(
            f"{path}: expected the settings of a model, got a damaged file ({type(error).__name__}: {error})"
        ) from error
    numbers = (card.num_features, card.largest)
    if any(type(n) is not int or n < 0 for n in numbers) or not card.class_names:
        raise ModelError(f"{path}: expected counts of features, nodes and classes, got {numbers}")
    return card


def _dataclass(kind: type[Any], values: dict[str, Any]) -> Any:
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
