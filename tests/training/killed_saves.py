"""Two models, and a script for test_kill.py: kill a process that saves them in turn, and look what it left.

    python killed_saves.py DIRECTORY KILLS

Prints how often the first and the second model were found. A mixture, or a directory without a model, is an error.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch

from diffpool.architecture import PAPER
from diffpool.nn import GraphClassifier
from diffpool.training import ModelCard, Training, save_model
from diffpool.training.model_directory import Part, read_model

# Two models with the same shapes: the parameters of one fit the settings of the other.
_CARD = ModelCard(
    parts=(Part(replace(PAPER, hidden=4), Training()),),
    num_features=3,
    largest=20,
    class_names=("first", "second"),
    dataset="old",
    method="diffpool",
    feature_map=None,
)
CARDS = (_CARD, replace(_CARD, class_names=("second", "first"), dataset="new"))
MODELS = tuple(card.build() for card in CARDS)
for _model, _value in zip(MODELS, (0.25, 0.5), strict=True):
    for _tensor in _model.state_dict().values():
        _tensor.fill_(_value)


def same(read: tuple[GraphClassifier, ModelCard], number: int) -> bool:
    """Whether this is the model with this number, its parameters and its settings."""
    model, card = read
    state = MODELS[number].state_dict()
    return card == CARDS[number] and all(
        torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items()
    )


def save_in_turn(directory: Path, number: int) -> None:
    while True:
        save_model(directory, MODELS[number], CARDS[number])
        number = 1 - number


def main(directory: Path, kills: int) -> None:
    torch.set_num_threads(1)
    rng = random.Random(0)
    counts, held = [0, 0], 0
    save_model(directory, MODELS[0], CARDS[0])
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            try:
                save_in_turn(directory, 1 - held)
            finally:
                os._exit(1)
        time.sleep(rng.uniform(0.005, 0.05))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status)
        read = read_model(directory)
        assert same(read, 0) or same(read, 1)
        held = int(same(read, 1))
        counts[held] += 1
    save_model(directory, MODELS[0], CARDS[0])
    assert len(list(directory.iterdir())) == 2
    print(*counts)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
