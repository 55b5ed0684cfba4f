"""`diffpool train --watch`, as a user and a script see it."""

from __future__ import annotations

import json
import re
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import SMALL, complaint
from model_files import weights_file
from typer.testing import CliRunner

from diffpool.cli.commands import app
from diffpool.cli.display import PlainConsole
from diffpool.cli.watch import stay
from diffpool.explorer.live import Live


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["train", *words])


@pytest.mark.usefixtures("small_embedded")
def test_a_script_gets_the_same_model_and_does_not_wait(tmp_path: Path) -> None:
    for name, words in (("a", []), ("b", ["--watch", "--json", "--quiet"])):
        result = run("--out", str(tmp_path / name), *SMALL, *words)
        assert result.exit_code == 0, result.output
    json.loads(result.stdout)
    address = r"watch the training at http://127\.0\.0\.1:\d+/[\w-]{32}/\n"
    assert re.fullmatch(address, result.stderr)
    first, second = (weights_file(tmp_path / name).read_bytes() for name in "ab")
    assert first == second


@pytest.mark.parametrize(
    ("output", "input_", "waits"), [(True, True, 1), (True, False, 0), (False, True, 0)]
)
def test_the_page_stays_until_ctrl_c_in_a_terminal_only(
    output: bool,
    input_: bool,
    waits: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    calls = []

    def interrupt(seconds: float) -> None:
        calls.append(seconds)
        raise KeyboardInterrupt

    monkeypatch.setattr("diffpool.explorer.live.time.sleep", interrupt)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: input_))
    shown = PlainConsole()
    shown._force_terminal = output
    live = Live(print)
    stay(live, shown)
    live._server.close()
    assert len(calls) == waits
    assert ("the page stays until Ctrl-C" in capsys.readouterr().out) == bool(waits)


def test_mistakes_are_explained(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    out = ["--out", tmp_path / "m"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = ["train", "--watch", "--watch-port", port, *out]
        line = complaint(capsys, monkeypatch, *words)
        assert f"port {port} is in use by another program: choose another one" in line
    line = complaint(capsys, monkeypatch, "train", "--watch-port", 8000, *out)
    assert "expected --watch with --watch-port 8000: add --watch" in line
    line = complaint(capsys, monkeypatch, "train", "--watch", "--watch-port", 70000, *out)
    assert "expected --watch-port from 0 to 65535, got 70000" in line
    assert not (tmp_path / "m").exists()
