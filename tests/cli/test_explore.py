"""`diffpool explore`, as a user sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from diffpool.cli.commands import app
from diffpool.data import embedded
from diffpool.errors import SettingError
from diffpool.experiments import settings_for, train_once


def run(*words: object) -> Any:
    return CliRunner().invoke(app, ["explore", *map(str, words), "--device", "cpu"])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("model")
    train_once(settings_for("diffpool", "embedded", epochs=1, hidden=8), embedded(40), out)
    return out


@pytest.fixture(autouse=True)
def _small_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffpool.cli.explore.embedded", lambda seed: embedded(20, seed=seed))


def test_a_page_and_what_is_on_it(model: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = run(model, "embedded", "--out", page, "--max-graphs", 5)
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "20 graphs, of which 5 are on the page, at even distances (--max-graphs 5)" in text
    assert "page.html:5graphs,0." in "".join(text.split())  # a long path wraps anywhere
    assert "Open it in a browser." in text
    assert page.read_text().startswith("<!doctype html>")


def test_large_graphs_are_reported(model: Path, tmp_path: Path) -> None:
    result = run(model, "embedded", "--out", tmp_path / "p.html", "--max-nodes", 10, "-q")
    assert "20 graphs listed but not drawn: without nodes, or with more than 10" in " ".join(
        result.output.split()
    )


def test_json_has_the_facts(model: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = run(model, "embedded", "--out", page, "--json", "--quiet")
    facts = json.loads(result.output)
    assert facts == {
        "out": str(page),
        "graphs": 20,
        "total": 20,
        "too_large": 0,
        "bytes": page.stat().st_size,
    }


def test_mistakes_are_explained_before_any_work(model: Path, tmp_path: Path) -> None:
    page = tmp_path / "p.html"
    for words, message in (
        (("--out", tmp_path), f"expected --out to be a file, got the folder {tmp_path}"),
        (("--out", tmp_path / "no" / "p.html"), "in a folder that exists"),
        (("--out", tmp_path / "p.txt"), r"expected --out to end in \.html"),
        (("--out", page, "--max-graphs", 0), "expected --max-graphs to be at least 1, got 0"),
        (("--out", page, "--max-nodes", 0), "expected --max-nodes to be at least 1, got 0"),
        (("--out", page, "--embedding", "umap"), "expected embedding to be pca or tsne"),
        (("--out", page, "--max-megabytes", 0.0001), "expected a page of at most 0.0001 MB"),
    ):
        error = run(model, "embedded", *words).exception
        with pytest.raises(SettingError, match=message):
            raise error
    assert not page.exists()
