"""`diffpool explain`, as a user sees it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from diffpool.attribution import explain
from diffpool.cli.commands import app
from diffpool.cli.explain import _warn_about_sums
from diffpool.data import embedded
from diffpool.errors import ModelError, SettingError
from diffpool.experiments import settings_for, train_once


def run(*words: str) -> Any:
    wide = {"COLUMNS": "200"}
    return CliRunner().invoke(app, ["explain", *words, "--device", "cpu"], env=wide)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("model")
    train_once(settings_for("diffpool", "embedded", epochs=1, hidden=8), embedded(40), out)
    return str(out)


@pytest.fixture(autouse=True)
def _small_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffpool.cli.explain.embedded", lambda seed: embedded(12, seed=seed))


def test_a_table_with_a_row_for_each_graph(model: str) -> None:
    result = run(model, "embedded", "--method", "leave-out")
    assert result.exit_code == 0, result.output
    for words in (
        "clusters of pooling",
        "probability",
        "the first 10 of 12 graphs",
    ):
        assert words in result.output
    assert " %)" in result.output


def test_files_and_json_have_the_scores_of_the_chosen_graphs(model: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out, picture = tmp_path / "e.jsonl", tmp_path / "e.png"
    words = ["--graphs", "3,0", "--class", "apart", "--out", str(out), "--picture", str(picture)]
    result = run(model, "embedded", *words, "--json", "--quiet")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)["graphs"]
    assert [(own["graph"], own["class"]) for own in facts] == [(3, "apart"), (0, "apart")]
    assert facts == [json.loads(line) for line in out.read_text().splitlines()]
    assert picture.read_bytes().startswith(b"\x89PNG")
    every = run(model, "embedded", "--method", "keep", "--graphs", "all", "--json", "--quiet")
    assert len(json.loads(every.stdout)["graphs"]) == 12


def test_scores_that_do_not_add_up_are_reported(model: str, monkeypatch: Any) -> None:
    shown: list[str] = []
    monkeypatch.setattr("diffpool.cli.explain.warn", lambda message, to: shown.append(message))
    (own,) = explain(model, embedded(12).as_raw()[:1])
    for gap in (1e9, float("nan")):
        shown.clear()
        broken = replace(own, levels=(replace(own.levels[0], gap=gap), *own.levels[1:]))
        _warn_about_sums([broken])
        (message,) = shown
        assert message.startswith("the scores of 1 graph (graph 0) do not add up to the difference")
        assert ("by up to" in message) == (gap == 1e9)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "keeps"], "expected method to be gradients, leave-out or keep, got 'keeps'. Did you mean keep"),
        (["--class", "Apart"], "expected a class of the model (apart, together), got 'Apart'. Did you mean apart"),
        (["--graphs", "12"], "expected --graphs to be numbers from 0 to 11, got 12: there are 12 graphs"),
        (["--graphs", "x"], "numbers and ranges such as 0-8 or 3,17,20-25, got 'x'"),
        (["--spread", "x"], "expected spread to be soft or first"),
        (["--out", "scores.txt"], "expected --out to end in .jsonl or .csv"),
        (["--picture", "scores.txt"], "expected the name of a figure to end in"),
    ],
)  # fmt: skip
def test_mistakes_are_explained(model: str, words: list[str], message: str) -> None:
    wrong = run(model, "embedded", *words).exception
    assert isinstance(wrong, SettingError)
    assert message in str(wrong)


def test_a_model_without_clusters_has_gradients_only(tmp_path: Path) -> None:
    flat = settings_for("graphsage", "embedded", epochs=1, hidden=8)
    train_once(flat, embedded(40), tmp_path / "flat")
    wrong = run(str(tmp_path / "flat"), "embedded", "--method", "leave-out").exception
    assert isinstance(wrong, ModelError)
    result = run(str(tmp_path / "flat"), "embedded", "--graphs", "0")
    assert result.exit_code == 0, result.output
    assert "pooling" not in result.output


def test_graphs_that_cannot_be_drawn_are_an_error_before_the_computation(
    model: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("diffpool.viz.subjects.MAX_NODES", 5)
    out = tmp_path / "e.jsonl"
    result = run(model, "embedded", "--out", str(out), "--picture", str(tmp_path / "e.png"))
    assert result.exit_code != 0
    assert not out.exists()
