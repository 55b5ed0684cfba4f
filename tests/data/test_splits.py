"""Folds: which graphs a model is trained, stopped and tested on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffpool.data import Fold, hold_out, read_folds, stratified_folds
from diffpool.errors import DataError

Y = np.random.default_rng(0).choice(3, 123, p=[0.6, 0.3, 0.1])


def covers(parts: list[np.ndarray], count: int) -> bool:
    return np.array_equal(np.sort(np.concatenate(parts)), np.arange(count))


def test_folds_are_disjoint_and_cover_the_graphs() -> None:
    folds = stratified_folds(Y, seed=1)
    assert len(folds) == 10
    assert covers([fold.test for fold in folds], len(Y))
    for fold in folds:
        assert covers([fold.train, fold.validation, fold.test], len(Y))
        assert len(fold.validation) == round((len(Y) - len(fold.test)) / 10)


@pytest.mark.parametrize("count", [2, 5, 10])
def test_every_test_part_has_the_class_proportions_up_to_one_graph(count: int) -> None:
    for fold in stratified_folds(Y, seed=2, count=count):
        for part, share in ((fold.test, 1 / count), (fold.validation, 0.1 * (1 - 1 / count))):
            expected = np.bincount(Y) * share
            assert (abs(np.bincount(Y[part], minlength=3) - expected) < 1.5).all()
    sizes = [len(fold.test) for fold in stratified_folds(Y, seed=2, count=count)]
    assert max(sizes) - min(sizes) <= 1


def test_folds_are_reproducible_and_depend_on_the_seed() -> None:
    a, b, c = (stratified_folds(Y, seed) for seed in (3, 3, 4))
    for part in ("train", "validation", "test"):
        assert all(
            np.array_equal(getattr(x, part), getattr(y, part)) for x, y in zip(a, b, strict=True)
        )
        assert not all(
            np.array_equal(getattr(x, part), getattr(y, part)) for x, y in zip(a, c, strict=True)
        )


def test_a_hold_out_divides_the_given_graphs() -> None:
    graphs = np.arange(0, 123, 2)
    train, validation = hold_out(graphs, Y, seed=0)
    assert np.array_equal(np.sort(np.concatenate([train, validation])), graphs)
    assert len(validation) == 6
    assert len(hold_out(np.arange(3), Y, seed=0)[1]) == 1


def test_too_few_graphs_for_folds_are_an_error() -> None:
    with pytest.raises(DataError, match="expected at least 10 graphs for 10 folds, got 9"):
        stratified_folds(np.zeros(9, int), seed=0)
    with pytest.raises(DataError, match="1 graphs are too few to hold some out of training"):
        hold_out(np.array([4]), Y, seed=0)


# --- published folds -----------------------------------------------------------------------------------------------


def published(folds: list[Fold]) -> list[dict[str, Any]]:
    return [
        {
            "test": f.test.tolist(),
            "model_selection": [{"train": f.train.tolist(), "validation": f.validation.tolist()}],
        }
        for f in folds
    ]


@pytest.fixture
def content() -> list[dict[str, Any]]:
    return published(stratified_folds(Y, seed=0))


def test_a_file_of_folds_is_read_unchanged(content: list, tmp_path: Path) -> None:
    path = tmp_path / "splits.json"
    path.write_text(json.dumps(content))
    for fold, expected in zip(read_folds(path, len(Y)), stratified_folds(Y, seed=0), strict=True):
        assert np.array_equal(fold.train, expected.train)
        assert np.array_equal(fold.validation, expected.validation)
        assert np.array_equal(fold.test, expected.test)


def _drop_a_fold(content: list) -> None:
    content.pop()


def _drop_a_part(content: list) -> None:
    del content[3]["model_selection"][0]["validation"]


def _no_selection(content: list) -> None:
    content[3]["model_selection"] = []


def _large_number(content: list) -> None:
    content[2]["test"][0] = 123


def _negative_number(content: list) -> None:
    content[2]["test"][0] = -1


def _words(content: list) -> None:
    content[2]["test"][0] = "7"


def _a_leak(content: list) -> None:
    content[1]["model_selection"][0]["train"].append(content[1]["test"][0])


def _missing_graph(content: list) -> None:
    content[1]["model_selection"][0]["train"].pop()


def _same_test_twice(content: list) -> None:
    content[1] = content[0]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_drop_a_fold, "expected a list of 10 outer folds, got 9"),
        (_drop_a_part, "fold 3: expected `test` and `model_selection` .*'validation'"),
        (_no_selection, "fold 3: expected `test` and `model_selection`"),
        (
            _large_number,
            "fold 2, test: expected numbers from 0 to 122, .*got 123. Is this the file",
        ),
        (_negative_number, "fold 2, test: expected numbers from 0 to 122, .*got -1"),
        (_words, "fold 2, test: expected a list of graph numbers"),
        (_a_leak, "fold 1: expected each of 123 graphs once, got graph [0-9]+ 2 times"),
        (_missing_graph, "fold 1: expected each of 123 graphs once, got graph [0-9]+ 0 times"),
        (_same_test_twice, "test parts of all folds: expected each of 123 graphs once"),
    ],
)
def test_a_wrong_file_of_folds_is_an_error_that_names_it(
    damage: Any, message: str, content: list, tmp_path: Path
) -> None:
    path = tmp_path / "splits.json"
    damage(content)
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=f"splits.json.*{message}"):
        read_folds(path, len(Y))


def test_the_folds_of_another_data_set_are_an_error(content: list, tmp_path: Path) -> None:
    path = tmp_path / "splits.json"
    path.write_text(json.dumps(content))
    for count in (100, 150):
        with pytest.raises(DataError, match=r"splits.json.*Is this the file of another data set\?"):
            read_folds(path, count)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is damaged"),
        ('[{"test": [1', "the file is damaged"),
        ("{}", "expected a list of 10 outer folds, got dict"),
        ("7", "expected a list of 10 outer folds, got int"),
        ("\x00", "the file is damaged"),
    ],
)
def test_a_damaged_file_of_folds_is_an_error(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "splits.json"
    path.write_text(text)
    with pytest.raises(DataError, match=rf"splits\.json: {message}"):
        read_folds(path, 10)


def test_a_missing_file_of_folds_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no.json: the folds file could not be read"):
        read_folds(tmp_path / "no.json", 10)
