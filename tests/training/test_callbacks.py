"""Callbacks see every epoch and can stop the training, wherever a model is trained."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from sklearn.base import clone

from diffpool import Architecture, DiffPoolClassifier, TunedClassifier, build, embedded, train
from diffpool.data import GraphDataset, single_split
from diffpool.experiments import settings_for, train_once
from diffpool.training import Callback, Epoch, StopTraining, Training

RINGS = [nx.cycle_graph(n) for n in range(5, 15)] + [nx.star_graph(n) for n in range(5, 15)]
Y = ["ring"] * 10 + ["star"] * 10


@pytest.fixture(scope="module")
def dataset() -> GraphDataset:
    return embedded(40)


def stop_after(epoch: int) -> Callback:
    def callback(row: Epoch) -> bool:
        if row.epoch == epoch:
            raise StopTraining
        return True  # ignored

    return callback


def rows_of(dataset: GraphDataset, *callbacks: Callback) -> list[Epoch]:
    torch.manual_seed(0)
    model = build(Architecture(hidden=4), dataset.num_features, 2, dataset.largest)
    config = Training(epochs=5, learning_rate=0.25)
    return list(train(model, dataset, single_split(dataset.y, seed=0), config, callbacks))


def test_train_calls_every_callback_before_it_yields_the_row(dataset: GraphDataset) -> None:
    seen: list[Epoch] = []
    rows = rows_of(dataset, seen.append)
    assert seen == rows
    assert [row.epoch for row in rows] == [1, 2, 3, 4, 5]
    assert {row.learning_rate for row in rows} == {0.25}


def test_a_callback_stops_train_after_its_epoch_and_the_others_are_called(
    dataset: GraphDataset,
) -> None:
    seen: list[Epoch] = []
    rows = rows_of(dataset, stop_after(3), seen.append)
    assert seen == rows
    assert [row.epoch for row in rows] == [1, 2, 3]


def test_other_exceptions_of_a_callback_are_raised(dataset: GraphDataset) -> None:
    def broken(row: Epoch) -> None:
        raise ValueError("no connection")

    with pytest.raises(ValueError, match="no connection"):
        rows_of(dataset, broken)


def test_a_stopped_training_keeps_the_best_epoch_and_the_report_says_why(
    dataset: GraphDataset, tmp_path: Path
) -> None:
    method = settings_for("diffpool", "embedded", epochs=9, hidden=4)
    outcome = train_once(method, dataset, tmp_path, [stop_after(2)])
    assert len(outcome.epochs) == 2
    assert (outcome.stopped_early, outcome.stopped_by_callback) == (True, True)
    shorter = train_once(settings_for("diffpool", "embedded", epochs=2, hidden=4), dataset)
    assert not shorter.stopped_by_callback
    for name, tensor in shorter.model.state_dict().items():
        assert torch.equal(tensor, outcome.model.state_dict()[name])
    assert json.loads((tmp_path / "report.json").read_text())["stopped_by_callback"]
    assert "Stopped after epoch 2 by a callback." in (tmp_path / "report.md").read_text()


def test_a_resumed_training_stops_where_it_would_have_stopped(
    dataset: GraphDataset, tmp_path: Path
) -> None:
    """A rule that counts epochs has seen those before the interruption."""

    def third_epoch() -> Callback:
        seen: list[int] = []

        def callback(row: Epoch) -> None:
            seen.append(row.epoch)
            if len(seen) == 3:
                raise StopTraining

        return callback

    def interrupt(row: Epoch) -> None:
        if row.epoch == 2:
            raise KeyboardInterrupt

    method = settings_for("diffpool", "embedded", epochs=9, hidden=4)
    assert train_once(method, dataset, tmp_path, [third_epoch(), interrupt]).interrupted
    outcome = train_once(method, dataset, tmp_path, [third_epoch()], resume=True)
    assert [row.epoch for row in outcome.epochs] == [1, 2, 3]


def test_the_callbacks_of_an_ensemble_get_the_mean_of_its_members(dataset: GraphDataset) -> None:
    seen: list[Epoch] = []
    method = settings_for("diffpool", "embedded", epochs=2, hidden=4, ensemble=2)
    outcome = train_once(method, dataset, callbacks=[seen.append])
    assert tuple(seen) == outcome.epochs
    assert len(seen) == 2
    assert seen[0].learning_rate == pytest.approx(method.training.learning_rate)


def test_an_estimator_calls_its_callbacks_in_every_fit() -> None:
    seen: list[Epoch] = []
    model = DiffPoolClassifier(epochs=5, hidden=4, callbacks=[seen.append, stop_after(2)])
    for copy in (model, clone(model)):
        seen.clear()
        copy.fit(RINGS, Y)
        assert [row.epoch for row in copy.history_] == [1, 2]
        if copy is model:
            assert tuple(seen) == model.history_
    assert np.shape(model.predict(RINGS)) == (20,)


def test_a_search_takes_no_callbacks() -> None:
    with pytest.raises(TypeError, match="TunedClassifier\\(\\) takes no callbacks"):
        TunedClassifier(callbacks=[print])
    assert "callbacks" not in TunedClassifier().get_params()
