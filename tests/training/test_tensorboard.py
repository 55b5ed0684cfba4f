"""TensorBoard reads back what was trained."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from diffpool import embedded
from diffpool.data import GraphDataset
from diffpool.errors import SettingError
from diffpool.experiments import settings_for, train_once
from diffpool.training import Epoch, TensorBoard
from diffpool.training.tensorboard import TAGS, remove_events

pytest.importorskip("tensorboard")
METHOD = settings_for("diffpool", "embedded", epochs=3, hidden=4)


@pytest.fixture(scope="module")
def dataset() -> GraphDataset:
    return embedded(40)


def row(epoch: int, loss: float = 1.0, accuracy: float | None = 0.5) -> Epoch:
    return Epoch(epoch, loss, loss, accuracy, loss, accuracy, True, 0.25, 2.0)


def scalars(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """The steps and values of every tag, as TensorBoard shows them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(directory)).Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def test_every_number_of_every_epoch_is_a_scalar(dataset: GraphDataset, tmp_path: Path) -> None:
    with TensorBoard(tmp_path) as log:
        outcome = train_once(METHOD, dataset, callbacks=[log])
    found = scalars(tmp_path)
    assert set(found) == set(TAGS.values())
    for name, tag in TAGS.items():
        expected = [getattr(own, name) for own in outcome.epochs]
        assert [step for step, _ in found[tag]] == [1, 2, 3]
        assert [value for _, value in found[tag]] == pytest.approx(expected)


def test_an_epoch_can_be_read_as_soon_as_it_is_finished(tmp_path: Path) -> None:
    with TensorBoard(tmp_path) as log:
        for epoch in (1, 2):
            log(row(epoch))
            assert [step for step, _ in scalars(tmp_path)["loss/train"]] == [*range(1, epoch + 1)]


def test_regression_has_no_accuracy(tmp_path: Path) -> None:
    with TensorBoard(tmp_path) as log:
        log(row(1, accuracy=None))
    assert not any(tag.startswith("accuracy") for tag in scalars(tmp_path))


def test_a_new_training_replaces_the_events_after_its_first_epoch(tmp_path: Path) -> None:
    mine = tmp_path / "events.out.tfevents.1.mine"
    mine.touch()
    with TensorBoard(tmp_path) as log:
        log(row(1, loss=7.0))
        log(row(2, loss=7.0))
    with TensorBoard(tmp_path) as log:
        assert len(scalars(tmp_path)["loss/train"]) == 2
        log(row(1, loss=5.0))
        assert scalars(tmp_path)["loss/train"] == [(1, 5.0)]
    remove_events(tmp_path)
    assert [*tmp_path.iterdir()] == [mine]


def test_the_events_of_a_resumed_training_are_complete(
    dataset: GraphDataset, tmp_path: Path
) -> None:
    def interrupt(own: Epoch) -> None:
        if own.epoch == 2:
            raise KeyboardInterrupt

    with TensorBoard(tmp_path / "log") as log:
        train_once(METHOD, dataset, tmp_path / "m", [log, interrupt])
    with TensorBoard(tmp_path / "log") as log:
        outcome = train_once(METHOD, dataset, tmp_path / "m", [log], resume=True)
    found = scalars(tmp_path / "log")["loss/validation"]
    assert [step for step, _ in found] == [1, 2, 3]
    expected = [own.validation_loss for own in outcome.epochs]
    assert [value for _, value in found] == pytest.approx(expected)


def test_a_folder_that_cannot_be_written_ends_the_log_and_not_the_training(
    dataset: GraphDataset, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    log = TensorBoard(tmp_path / "file")
    with pytest.warns(UserWarning, match="cannot write to .*file .*training continues") as seen:
        outcome = train_once(METHOD, dataset, callbacks=[log])
    assert len(outcome.epochs) == 3
    assert len([w for w in seen if "cannot write" in str(w.message)]) == 1


def test_a_missing_package_is_an_error_that_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(SettingError, match=r"pip install 'diffpool\[tensorboard\]'"):
        TensorBoard(tmp_path)
