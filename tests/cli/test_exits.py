"""Warnings and errors are one line; bugs show a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from command_line import complaint

import diffpool.cli.data
from diffpool.cli.commands import main
from diffpool.errors import SettingError


def test_a_warning_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def read(*options: object) -> None:
        warnings.warn("the file \x1b[2J is\ndamaged: reading it again", stacklevel=1)
        raise SettingError("stop here")

    monkeypatch.setattr(diffpool.cli.data, "read_input", read)
    monkeypatch.setattr("sys.argv", ["diffpool", "data", "X"])
    before = warnings.showwarning
    with pytest.raises(SystemExit):
        main()
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "diffpool: warning: the file \\x1b[2J is damaged: reading it again",
        "diffpool: stop here",
    ]
    assert warnings.showwarning is before


def test_warnings_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    graphs = tmp_path / "graphs.jsonl"
    names = [{"edges": [], "node_labels": [f"{g} {n}" for n in range(4)]} for g in range(20)]
    graphs.write_text("".join(json.dumps(graph) + "\n" for graph in names))
    monkeypatch.setattr("sys.argv", ["diffpool", "data", str(graphs)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("diffpool: warning: graphs: node label 1 has 80 distinct strings")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device", "/x/[/b]\x1b"), "/x/[/b]\\x1b: No space left on"),
        (MemoryError(), "not enough memory"),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried"), "not enough memory"),
        (RuntimeError("std::bad_alloc"), "not enough memory"),
    ],
)
def test_what_the_machine_lacks_is_one_line(
    error: Exception, message: str, capsys: Any, monkeypatch: Any
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(diffpool.cli.data, "read_input", fail)
    assert message in complaint(capsys, monkeypatch, "data", "x.jsonl")


def test_a_bug_still_shows_its_traceback(monkeypatch: Any) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(diffpool.cli.data, "read_input", fail)
    monkeypatch.setattr(sys, "argv", ["diffpool", "data", "x.jsonl"])
    with pytest.raises(ZeroDivisionError):
        main()


@pytest.mark.parametrize("words", [["--version"], ["data", "g.jsonl", "--json"]])
def test_a_closed_pipe_ends_the_command_without_a_message(words: list[str], tmp_path: Path) -> None:
    """As after `| head`: exit code 141, like other programs in a shell."""
    (tmp_path / "g.jsonl").write_text('{"nodes": 1, "edges": []}\n')
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "diffpool", *words]
    ended = subprocess.run(
        command, stdout=writing, stderr=subprocess.PIPE, cwd=tmp_path, check=False
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, b"")
