"""`diffpool analyze`, as a user sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from diffpool.cli.commands import app
from diffpool.data import embedded
from diffpool.errors import ModelError, SettingError
from diffpool.experiments import settings_for, train_once


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["analyze", *words, "--device", "cpu"])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("model")
    train_once(settings_for("diffpool", "embedded", epochs=1, hidden=8), embedded(40), out)
    return str(out)


@pytest.fixture(autouse=True)
def _small_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffpool.cli.analyze.embedded", lambda seed: embedded(30, seed=seed))


def test_a_report_with_planted_communities(model: str) -> None:
    result = run(model, "embedded", "--quiet")
    assert result.exit_code == 0, result.output
    assert "diffpool, trained on embedded: means over 30 graphs" in result.output
    for words in ("pooling 1", "planted communities", "NMI", "Louvain", "10 allowed"):
        assert words in result.output


def test_json_and_a_file_have_the_same_numbers(model: str, tmp_path: Path) -> None:
    result = run(model, "embedded", "--json", "--quiet", "--out", str(tmp_path / "a.json"))
    assert result.exit_code == 0, result.output
    facts = json.loads(result.output)
    assert facts == json.loads((tmp_path / "a.json").read_text())
    assert facts["graphs"] == 30
    assert facts["poolings"][0]["clusters"] == {"mean": 10.0, "sd": 0.0, "graphs": 30}


def test_graphs_from_a_file_and_only_the_first(model: str, tmp_path: Path) -> None:
    line = {"nodes": 3, "edges": [[0, 1], [1, 2]], "node_attributes": [[0.1] * 6] * 3}
    file = tmp_path / "graphs.jsonl"
    file.write_text("\n".join([json.dumps(line)] * 7) + "\n")
    everything = json.loads(run(model, str(file), "--json", "--quiet").output)
    some = json.loads(run(model, str(file), "--json", "--quiet", "--max-graphs", "2").output)
    assert (everything["graphs"], some["graphs"]) == (7, 2)


def test_mistakes_are_explained(model: str, tmp_path: Path) -> None:
    wrong = run(model, "embedded", "--max-graphs", "0").exception
    assert isinstance(wrong, SettingError)
    assert str(wrong) == "expected --max-graphs to be at least 1, got 0"
    wrong = run(model, "embedded", "--out", str(tmp_path / "no" / "a.json")).exception
    assert isinstance(wrong, SettingError)
    assert "folder that exists" in str(wrong)
    flat = settings_for("graphsage", "embedded", epochs=1, hidden=8)
    train_once(flat, embedded(40), tmp_path / "flat")
    assert isinstance(run(str(tmp_path / "flat"), "embedded").exception, ModelError)
