"""Helpers for tests of the command line."""

from __future__ import annotations

import signal
import sys
from typing import Any

import pytest

from diffpool.cli.commands import main

SMALL = ["--epochs", "2", "--device", "cpu"]


def complaint(capsys: pytest.CaptureFixture[str], monkeypatch: Any, *words: object) -> str:
    """The one line that the command prints before it exits with code 2."""
    monkeypatch.setattr(sys, "argv", ["diffpool", *map(str, words)])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    (line,) = [x for x in capsys.readouterr().err.splitlines() if x.startswith("diffpool: ")]
    return line


def listen_to_interrupts() -> None:
    """For `preexec_fn`: a process ignores SIGINT if the tests run in the background of a script."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
