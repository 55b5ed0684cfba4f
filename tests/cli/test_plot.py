"""`diffpool plot`: files, options and mistakes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("matplotlib")

from diffpool.cli.commands import app
from diffpool.cli.plot import _numbers
from diffpool.data import embedded
from diffpool.errors import SettingError
from diffpool.experiments import settings_for, train_once


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("plot") / "model"
    method = settings_for("diffpool", "embedded", epochs=2, hidden=6)
    train_once(method, embedded(num_graphs=30), out)
    return out


def run(*words: object) -> str:
    result = CliRunner().invoke(app, ["plot", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_clusters_and_curves_are_drawn_from_a_model_directory(model: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.svg"
    run("clusters", model, "embedded", "--graphs", "0-1,5", "--out", sheet)
    text = sheet.read_text()
    assert [f"<!-- graph {number}: class" in text for number in (0, 1, 2, 5)] == [
        *(True, True, False, True)
    ]
    curves = tmp_path / "curves.png"
    printed = run("curves", model, model, "--out", curves, "--json")
    assert json.loads(printed) == {"out": str(curves)}
    assert curves.exists()


def test_the_graphs_of_a_sheet_are_numbers_and_ranges() -> None:
    assert _numbers(None, None) == [0]
    assert _numbers(17, None) == [17]
    assert _numbers(None, "0-3, 8,5-5") == [0, 1, 2, 3, 8, 5]
    for text in ("", "3-1", "a", "1-", "-2", "1,,2", "1.5"):
        with pytest.raises(SettingError, match="numbers and ranges such as"):
            _numbers(None, text)
    with pytest.raises(SettingError, match="expected --graph or --graphs, got both"):
        _numbers(0, "1")
    with pytest.raises(SettingError, match="at most 64 graphs"):
        _numbers(None, "0-999999999")


def test_without_matplotlib_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("diffpool.viz")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("diffpool.viz", raising=False)
    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SettingError, match=r"\(matplotlib.* is missing\): run `pip install"):
        run("curves", tmp_path)
