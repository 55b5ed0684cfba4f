"""One training: an interruption keeps the best model so far, and `resume` ends as if there had been none."""

from __future__ import annotations

import errno
import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from diffpool import load_model
from diffpool.data import GraphDataset, embedded
from diffpool.errors import SettingError, TrainingError
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
    return train_once(method, dataset, out, [stop_in(epoch, KeyboardInterrupt())])


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
    callbacks = [lambda row: seen.append(row.epoch)]
    outcome = train_once(METHOD, dataset, tmp_path, callbacks, resume=True)
    assert seen == [1, 2, 3, 4]  # a log has all epochs
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
    def stop(self: object, rows: list[Epoch], state: object) -> None:
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
        train_once(METHOD, dataset, tmp_path, [stop_in(2, RuntimeError("power cut"))])
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
    assert files(tmp_path) == before


@pytest.mark.parametrize("content", ["", '{"epoch": 1}\n', "not JSON\n", None])
def test_an_edited_metrics_file_is_written_again(
    dataset: GraphDataset, complete: Path, tmp_path: Path, content: str | None
) -> None:
    interrupted(dataset, tmp_path)
    metrics = tmp_path / "metrics.jsonl"
    best_removed = metrics.read_text().replace("true", "false")
    metrics.write_text(best_removed if content is None else content)
    outcome = train_once(METHOD, dataset, tmp_path, resume=True)
    assert outcome.best_epoch == min(outcome.epochs, key=lambda row: row.validation_loss)
    assert_the_same_result(tmp_path, complete)


def test_a_damaged_checkpoint_is_one_clear_error(dataset: GraphDataset, tmp_path: Path) -> None:
    interrupted(dataset, tmp_path)
    checkpoint = tmp_path / "checkpoint.safetensors"
    content = checkpoint.read_bytes()
    for damaged in (b"", content[:-1] + bytes([content[-1] ^ 1])):
        checkpoint.write_bytes(damaged)
        with (
            warnings.catch_warnings(action="error"),
            pytest.raises(SettingError, match=r"damaged.*: use --overwrite instead of --resume"),
        ):
            train_once(METHOD, dataset, tmp_path, resume=True)
    train_once(METHOD, dataset, tmp_path, overwrite=True)


def test_without_an_interrupted_training_there_is_nothing_to_resume(
    dataset: GraphDataset, complete: Path, tmp_path: Path
) -> None:
    for out in (tmp_path, complete):
        with pytest.raises(SettingError, match=r"there is no interrupted training run in "):
            train_once(METHOD, dataset, out, resume=True)
    with pytest.raises(SettingError, match="training is finished, use --overwrite"):
        train_once(METHOD, dataset, complete, resume=True)


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
        train_once(METHOD, dataset, None, [stop_in(2, KeyboardInterrupt())])

    def stop(self: Cohort) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Cohort, "train_epoch", stop)
    with pytest.raises(KeyboardInterrupt):
        train_once(METHOD, dataset, tmp_path)
    assert files(tmp_path) == set()


@pytest.mark.parametrize("end", [KeyboardInterrupt(), TrainingError("the loss became nan")])
def test_overwriting_changes_nothing_before_the_end_of_the_first_epoch(
    dataset: GraphDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: BaseException
) -> None:
    interrupted(dataset, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    def stop(self: Cohort) -> None:
        raise end

    monkeypatch.setattr(Cohort, "train_epoch", stop)
    with pytest.raises(type(end)):
        train_once(METHOD, dataset, tmp_path, overwrite=True)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


# --- a full disk


def full(*_: object, **__: object) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_ends_no_training(
    dataset: GraphDataset, complete: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_run, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("diffpool.checksums.atomic_write", full)
    monkeypatch.setattr(single_run, "atomic_write", full)
    with pytest.warns(UserWarning, match="cannot write") as caught:
        outcome = train_once(METHOD, dataset, tmp_path)
    assert len(outcome.epochs) == 4
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 2, messages  # one for each file, not one for each epoch
    for name, message in zip(("metrics.jsonl", "checkpoint.safetensors"), messages, strict=True):
        assert f"cannot write {tmp_path / name} (No space left on device)" in message
    assert load_model(tmp_path).card == load_model(complete).card


def test_metrics_are_complete_again_when_there_is_space_again(
    dataset: GraphDataset, complete: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = single_run.atomic_write
    monkeypatch.setattr(single_run, "atomic_write", full)

    def free_space(row: Epoch) -> None:
        if row.epoch == 2:
            monkeypatch.setattr(single_run, "atomic_write", write)

    with pytest.warns(UserWarning, match=r"metrics\.jsonl"):
        train_once(METHOD, dataset, tmp_path, [free_space])
    assert_the_same_result(tmp_path, complete)


def test_ctrl_c_on_a_full_disk_saves_the_model_first(
    dataset: GraphDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diffpool.checksums.atomic_write", full)
    monkeypatch.setattr(single_run, "atomic_write", full)
    with pytest.warns(UserWarning, match="cannot write"):
        outcome = interrupted(dataset, tmp_path)
    assert outcome.interrupted
    loaded = load_model(tmp_path).model.state_dict()
    for name, tensor in outcome.model.state_dict().items():
        assert torch.equal(tensor, loaded[name])


def test_a_report_that_cannot_be_written_leaves_no_old_one(
    dataset: GraphDataset, complete: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_once(METHOD, dataset, tmp_path)
    monkeypatch.setattr("diffpool.files.atomic_write", full)  # under write_json
    with pytest.warns(UserWarning, match=r"no report in .* \(No space left on device\)"):
        train_once(METHOD, dataset, tmp_path, overwrite=True)
    assert files(tmp_path) == files(complete) - {"report.json", "report.md"}


# --- outputs that are not numbers


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("part", ["test", "validation"])
def test_a_model_without_a_finite_output_for_a_test_graph_is_refused(
    dataset: GraphDataset, members: int, part: str
) -> None:
    method = settings_for("diffpool", "embedded", epochs=1, hidden=8, ensemble=members)
    outcome = train_once(method, dataset)
    graph = int(getattr(outcome.folds[0], part)[1])
    x = dataset.x.clone()
    x[dataset.graphs.layout.graph_of_row == graph] = torch.nan
    broken = replace(dataset, x=x)
    with pytest.raises(TrainingError, match=rf"output of the model for graph {graph} of embedded"):
        replace(outcome, dataset=broken).metrics(part)
    if part == "test":
        with pytest.raises(TrainingError, match=rf"output of the model for graph {graph} of embed"):
            train_once(method, broken)


def test_a_refused_model_is_kept_without_a_report(dataset: GraphDataset, tmp_path: Path) -> None:
    outcome = train_once(METHOD, dataset, tmp_path)
    x = dataset.x.clone()
    x[dataset.graphs.layout.graph_of_row == int(outcome.fold.test[0])] = torch.nan
    message = rf"is not a finite number.*\. The model is in {tmp_path}, without a report"
    with pytest.raises(TrainingError, match=message):
        train_once(METHOD, replace(dataset, x=x), tmp_path, overwrite=True)
    kinds = {name.split("-")[0] for name in files(tmp_path)}
    assert kinds == {"config.json", "model", "metrics.jsonl"}
    load_model(tmp_path)


def test_an_outcome_has_the_targets_as_they_were_given(dataset: GraphDataset) -> None:
    y = torch.linspace(100, 300, 40, dtype=torch.float64)[:, None] + 1e-9
    outcome = train_once(METHOD, replace(dataset, y=y, class_names=()))
    assert torch.equal(outcome.dataset.y, y)
    train = y[torch.as_tensor(outcome.fold.train)]
    assert outcome.card.target_mean == pytest.approx(train.mean(0).tolist(), rel=1e-14)
    assert outcome.test.loss == pytest.approx(
        (outcome.metrics("test")["rmse"] / outcome.card.target_sd[0]) ** 2, rel=1e-12
    )


def test_the_loss_of_an_ensemble_is_finite_where_all_probabilities_round_to_zero(
    dataset: GraphDataset,
) -> None:
    method = settings_for("diffpool", "embedded", epochs=1, hidden=8, ensemble=2)
    outcome = train_once(method, dataset)
    with torch.no_grad():
        outcome.model.head[-1].weight.fill_(0)
        outcome.model.head[-1].bias.copy_(torch.tensor([[0.0, 1e4]] * 2))
    scores = single_run._test(outcome.model, outcome.card, dataset, outcome.folds)
    zeros = float((dataset.y[outcome.fold.test] == 0).double().mean())
    assert scores.loss == pytest.approx(1e4 * zeros)
