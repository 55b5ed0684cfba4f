"""`diffpool data convert`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import SMALL, complaint
from typer.testing import CliRunner

from diffpool.cli.commands import app


@pytest.fixture
def graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the current directory."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {"id": f"g{n}", "nodes": 3 + n % 4, "edges": [[0, 1], [1, 2]], "label": n % 2}
        for n in range(40)
    ]
    file = tmp_path / "g.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_a_converted_data_set_is_described_like_the_file(graphs: Path) -> None:
    result = CliRunner().invoke(app, ["data", "convert", "g.jsonl", "--out", "set"])
    assert result.exit_code == 0, result.output
    assert "40 graphs written to set" in result.stdout
    described = [CliRunner().invoke(app, ["data", d, "--json"]).stdout for d in ("g.jsonl", "set")]
    assert described[0] == described[1]
    words = ["data", "convert", "set", "--out", "copy", "--json"]
    facts = json.loads(CliRunner().invoke(app, words).stdout)
    assert facts == {"graphs": 40, "skipped": 0, "out": "copy"}


def test_mistakes_have_one_line(
    graphs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    def said(*words: str) -> str:
        return complaint(capsys, monkeypatch, "data", *words)

    assert "diffpool data convert SOURCE --out DIR" in said("convert")
    assert "diffpool data convert SOURCE --out DIR" in said("convert", "g.jsonl")
    assert "are for converting data sets only" in said("g.jsonl", "--out", "set")
    assert "are for converting data sets only" in said("g.jsonl", "h.jsonl")
    assert "no such file" in said("convert", "missing.jsonl", "--out", "set")
    assert "is the input" in said("convert", "g.jsonl", "--out", "g.jsonl")
    (graphs.parent / "full").mkdir()
    (graphs.parent / "full" / "x").touch()
    assert "full exists already" in said("convert", "g.jsonl", "--out", "full", "--overwrite")
    graphs.write_text('{"nodes": 1, "edges": []}\n{')
    assert "g.jsonl, line 2: expected a JSON object" in said("convert", "g.jsonl", "--out", "set")
    assert sorted(p.name for p in graphs.parent.iterdir()) == ["full", "g.jsonl"]


def test_damage_is_found_when_a_data_set_is_described(
    graphs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    CliRunner().invoke(app, ["data", "convert", "g.jsonl", "--out", "set"])
    file = graphs.parent / "set" / "source.bin"
    file.write_bytes(file.read_bytes()[:-1] + b"\1")
    message = complaint(capsys, monkeypatch, "data", "set")
    assert "source.bin has changed since it was written" in message


def test_molecules_that_cannot_be_read_are_reported(molecules: Path) -> None:
    with molecules.open("a") as file:
        file.write("bad,XYZ,0,1.0,x\n")
    words = ["data", "convert", "m.csv", "--label", "active", "--out", "set", "--skip-invalid"]
    with pytest.warns(UserWarning, match="left out 1 molecule that RDKit cannot read: line 62"):
        result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    facts = json.loads(CliRunner().invoke(app, ["data", "set", "--json"]).stdout)
    assert facts["graphs"] == 60


def test_a_model_trained_from_disk_predicts_the_same_from_disk_and_from_the_file(
    graphs: Path,
) -> None:
    commands = [
        ["data", "convert", "g.jsonl", "--out", "set"],
        ["train", "set", "--out", "model", "--hidden", "8", *SMALL],
        ["predict", "model", "g.jsonl", "--out", "a.csv", "--device", "cpu"],
        ["predict", "model", "set", "--out", "b.csv", "--device", "cpu"],
    ]
    for words in commands:
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
    text = Path("a.csv").read_text()
    assert text == Path("b.csv").read_text()
    assert text.startswith("graph,id,label,prediction,p_0,p_1\n0,g0,0,")
    assert len(text.splitlines()) == 41
