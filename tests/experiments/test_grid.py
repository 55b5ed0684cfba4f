from __future__ import annotations

import pytest

from diffpool.errors import SettingError
from diffpool.experiments.grid import parse_grid, points


def test_a_grid_consists_of_all_combinations() -> None:
    grid = parse_grid(["learning-rate=0.1,1e-3", "hidden=8", "conv=gcn,gin"])
    assert len(points(grid)) == 4
    assert points(grid)[1] == {"learning_rate": 0.1, "hidden": 8, "conv": "gin"}
    assert points(()) == [{}]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["learning_rate"], "expected --grid NAME=VALUE"),
        (["magic=1,2"], "expected each setting in the grid to be one of .*, got 'magic'"),
        (["seed=1,2"], "expected each setting in the grid to be one of .*, got 'seed'"),
    ],
)
def test_a_wrong_grid_is_an_error(words: list[str], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        parse_grid(words)
