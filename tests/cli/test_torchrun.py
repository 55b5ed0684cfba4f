"""`torchrun … -m diffpool`: environment and messages; training/test_distributed.py runs it with two processes."""

from __future__ import annotations

import signal
import sys

import pytest
import torch
from command_line import complaint

from diffpool.cli import torchrun
from diffpool.cli.commands import main
from diffpool.cli.options import Settings
from diffpool.cli.setting_checks import check_settings
from diffpool.cli.torchrun import Launch, joined
from diffpool.errors import SettingError
from diffpool.experiments.methods import METHODS

COMPLETE = {
    "WORLD_SIZE": "2",
    "RANK": "0",
    "LOCAL_RANK": "0",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "1",
}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of the first of two processes."""
    for name, value in COMPLETE.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("size", ["1", "", None])
def test_a_single_process_is_no_launch(size):
    assert Launch.read({} if size is None else {"WORLD_SIZE": size}) is None


def test_a_launch_is_read_from_the_environment():
    environment = {**COMPLETE, "WORLD_SIZE": "16", "RANK": "9", "LOCAL_RANK": "1"}
    assert Launch.read(environment) == Launch(rank=9, size=16, local_rank=1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"RANK": ""}, "WORLD_SIZE is 2, but RANK is not set: start with `torchrun"),
        ({"RANK": "", "MASTER_PORT": ""}, "but RANK and MASTER_PORT are not set"),
        ({"WORLD_SIZE": "two"}, "variable WORLD_SIZE to be an integer, got 'two': start with"),
        ({"RANK": "-1"}, "variable RANK to be an integer, got '-1': start with"),
        ({"RANK": "2"}, r"RANK to be below WORLD_SIZE \(2\), got 2: start with"),
    ],
)
def test_a_wrong_environment_is_explained(changed, message):
    with pytest.raises(SettingError, match=message):
        Launch.read({**COMPLETE, **changed})


def test_statistics_of_shards_need_torchrun_or_a_run_to_resume(monkeypatch):
    given = Settings(batch_statistics="shard")
    monkeypatch.delenv("RANK", raising=False)
    check_settings(METHODS["diffpool"], given, resume=True)
    with pytest.raises(SettingError, match="expected no --batch-statistics without torchrun"):
        check_settings(METHODS["diffpool"], given)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    check_settings(METHODS["diffpool"], given)


@pytest.mark.usefixtures("started")
@pytest.mark.parametrize(
    ("command", "instead"),
    [
        ("evaluate", "run it without torchrun, with --devices or --cluster; see docs/scale.md"),
        ("tune", "run it without torchrun, with --devices or --cluster; see docs/scale.md"),
        ("predict", "run it without torchrun; see docs/scale.md"),
    ],
)
def test_other_commands_say_what_to_use_instead(command, instead, capsys, monkeypatch):
    line = complaint(capsys, monkeypatch, command, "ENZYMES")
    expected = f"torchrun started 2 processes, but diffpool {command} works in one: {instead}"
    assert line.startswith(f"diffpool: {expected}")


@pytest.mark.usefixtures("started")
def test_only_the_first_process_prints_an_error_that_all_have(capsys, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr(sys, "argv", ["diffpool", "tune"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert capsys.readouterr().err == ""


def test_an_error_that_one_process_has_is_printed_once(monkeypatch):
    store = torch.distributed.HashStore()
    monkeypatch.setattr(torchrun, "_complaints", [store])
    monkeypatch.setenv("RANK", "1")
    assert torchrun.may_complain()
    assert not torchrun.may_complain()


def test_every_process_has_its_own_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert torchrun._own_device("cuda", Launch(5, 8, 1)) == "cuda:1"
    assert torchrun._own_device("cpu", Launch(5, 8, 7)) == "cpu"
    with pytest.raises(
        SettingError, match="GPU for each process of this machine, got 2: use --nproc-per-node 2"
    ):
        torchrun._own_device("cuda", Launch(5, 8, 2))
    with pytest.raises(
        SettingError, match="torchrun gives every process its own GPU, got 'cuda:1'"
    ):
        torchrun._own_device("cuda:1", Launch(0, 8, 0))


@pytest.mark.usefixtures("started")
def test_processes_that_cannot_connect_say_where(monkeypatch):
    def refused(url: str) -> None:
        raise RuntimeError("connection refused\nmore")

    monkeypatch.setattr(torch.distributed, "rendezvous", refused)
    with (
        pytest.raises(
            SettingError,
            match=r"2 processes could not connect at 127.0.0.1:1 \(connection refused\)",
        ),
        joined("cpu"),
    ):
        pass


def test_the_second_interruption_does_not_end_saving():
    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, torchrun._interrupt_once)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
