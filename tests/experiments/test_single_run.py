"""One training: an interruption keeps the best model so far, and `resume` ends as if there had been none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from diffpool import load_model
from diffpool.data import GraphDataset, embedded
from diffpool.errors import SettingError
from diffpool.experiments import Method, Outcome, single_run, train_once
from diffpool.experiments.methods import settings_for
from diffpool.training import Cohort, Epoch

METHOD = settings_for("diffpool", "embedded", epochs=4, hidden=8)


@pytest.fixture(scope="module")
def dataset() -> GraphDataset:
    return embedded(40, seed=0)


@pytest.fixture(scope="module")
def complete(dataset: GraphDataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a training without interruption."""
    out = tmp_path_factory.mktemp("complete")
    assert not train_once(METHOD, dataset, out).interrupted
    return out


def stop_in(epoch: int, error: BaseException) -> Callable[[Epoch], None]:
    def watch(row: Epoch) -> None:
        if row.epoch == epoch:
            raise error

    return watch


def interrupted(
    dataset: GraphDataset, out: Path, epoch: int = 2, method: Method = METHOD
) -> Outcome:
    return train_once(method, dataset, out, stop_in(epoch, KeyboardInterrupt()))


def files(out: Path) -> set[str]:
    return {path.name for path in out.iterdir()}


def assert_the_same_result(out: Path, complete: Path) -> None:
    """The same parameters to the bit, the same metrics, and no checkpoint."""
    first, second = (torch.nn.Module.state_dict(load_model(p).model) for p in (out, complete))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    rows = [
        [
            {**json.loads(line), "seconds": 0}
            for line in (p / "metrics.jsonl").read_text().splitlines()
        ]
        for p in (out, complete)
    ]
    assert rows[0] == rows[1]
    assert files(out) == files(complete)


def test_ctrl_c_saves_the_best_model_so_far(dataset: GraphDataset, tmp_path: Path) -> None:
    outcome = interrupted(dataset, tmp_path, epoch=3)
    assert outcome.interrupted
    assert len(outcome.epochs) == 3
    assert {name for name in files(tmp_path) if not name.startswith("model-")} == {
        "config.json",
        "metrics.jsonl",
        "report.json",
        "report.md",
        "checkpoint.safetensors",
    }
    loaded = load_model(tmp_path).model.state_dict()
    for name, tensor in outcome.model.state_dict().items():
        assert torch.equal(tensor, loaded[name])
    best = min(outcome.epochs, key=lambda row: row.validation_loss)
    assert outcome.best_epoch == best


def test_a_resumed_training_ends_like_one_without_interruption(
    dataset: GraphDataset, complete: Path, tmp_path: Path
) -> None:
    interrupted(dataset, tmp_path)
    seen: list[int] = []
    outcome = train_once(METHOD, dataset, tmp_path, lambda row: seen.append(row.epoch), resume=True)
    assert seen == [3, 4]
    assert [row.epoch for row in outcome.epochs] == [1, 2, 3, 4]
    assert not outcome.interrupted
    assert_the_same_result(tmp_path, complete)


def test_an_interruption_in_the_middle_of_an_epoch_loses_only_this_epoch(
    dataset: GraphDataset, complete: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, calls = Cohort.step, 0

    def interrupted_step(self: Cohort, *args: object) -> None:
        nonlocal calls
        calls += 1
        step(self, *args)  # type: ignore[arg-type]
        if calls == 5:  # an epoch has two steps
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Cohort, "step", interrupted_step)
        outcome = train_once(METHOD, dataset, tmp_path)
    assert outcome.interrupted
    assert len(outcome.epochs) == 2
    train_once(METHOD, dataset, tmp_path, resume=True)
    assert_the_same_result(tmp_path, complete)


def test_an_interruption_while_the_metrics_are_written_loses_no_epoch(
    dataset: GraphDataset, complete: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: object, row: Epoch, state: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(single_run._Progress, "add", stop)
        assert len(train_once(METHOD, dataset, tmp_path).epochs) == 1
    train_once(METHOD, dataset, tmp_path, resume=True)
    assert_the_same_result(tmp_path, complete)


def test_a_crash_loses_only_what_came_after_the_last_checkpoint(
    dataset: GraphDataset, complete: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_run, "CHECKPOINT_SECONDS", 0.0)
    with pytest.raises(RuntimeError, match="power cut"):
        train_once(METHOD, dataset, tmp_path, stop_in(2, RuntimeError("power cut")))
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 3, "train_lo')  # a line that was not finished
    train_once(METHOD, dataset, tmp_path, resume=True)
    assert_the_same_result(tmp_path, complete)


def test_more_epochs_may_follow(dataset: GraphDataset, complete: Path, tmp_path: Path) -> None:
    shorter = settings_for("diffpool", "embedded", epochs=3, hidden=8)
    interrupted(dataset, tmp_path, method=shorter)
    train_once(METHOD, dataset, tmp_path, resume=True)
    assert_the_same_result(tmp_path, complete)


def test_other_settings_or_data_are_not_resumed(dataset: GraphDataset, tmp_path: Path) -> None:
    interrupted(dataset, tmp_path)
    before = files(tmp_path)
    other = settings_for("diffpool", "embedded", epochs=4, hidden=9)
    for method, graphs in ((other, dataset), (METHOD, embedded(40, seed=1))):
        with pytest.raises(SettingError, match=r"only epochs and patience may change"):
            train_once(method, graphs, tmp_path, resume=True)
    (tmp_path / "metrics.jsonl").write_text("")
    with pytest.raises(SettingError, match=r"expected epochs 1 to 2 in .*metrics.jsonl"):
        train_once(METHOD, dataset, tmp_path, resume=True)
    assert files(tmp_path) == before


def test_without_an_interrupted_training_there_is_nothing_to_resume(
    dataset: GraphDataset, complete: Path, tmp_path: Path
) -> None:
    for out in (tmp_path, complete):
        with pytest.raises(SettingError, match=r"there is no interrupted training in "):
            train_once(METHOD, dataset, out, resume=True)


def test_a_new_training_discards_the_interrupted_one(
    dataset: GraphDataset, complete: Path, tmp_path: Path
) -> None:
    interrupted(dataset, tmp_path)
    train_once(METHOD, dataset, tmp_path, overwrite=True)
    assert_the_same_result(tmp_path, complete)


def test_without_a_directory_or_a_complete_epoch_ctrl_c_is_not_caught(
    dataset: GraphDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyboardInterrupt):
        train_once(METHOD, dataset, None, stop_in(2, KeyboardInterrupt()))

    def stop(self: Cohort) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Cohort, "train_epoch", stop)
    with pytest.raises(KeyboardInterrupt):
        train_once(METHOD, dataset, tmp_path)
    assert files(tmp_path) == {"metrics.jsonl"}
