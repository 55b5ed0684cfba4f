"""`diffpool evaluate`, as a user sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import SMALL, complaint
from typer.testing import CliRunner

from diffpool.cli.commands import app, main
from diffpool.experiments import read_records
from diffpool.training import Cohort


@pytest.mark.usefixtures("small_embedded")
def test_advanced_settings_are_evaluated_and_recorded(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    words = ["--hidden", "4", "--head", "3", "--every-level", "true", "--out", str(out), *SMALL]
    result = CliRunner().invoke(app, ["evaluate", "embedded", *words])
    assert result.exit_code == 0, result.output
    settings = read_records(out)[0].settings["architecture"]
    assert (settings["head"], settings["every_level"]) == ([3], True)


@pytest.mark.usefixtures("small_embedded")
def test_ctrl_c_during_an_evaluation_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(self: Cohort) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Cohort, "train_epoch", stop)
    words = ["evaluate", "embedded", "--out", str(tmp_path / "r.jsonl"), *SMALL]
    monkeypatch.setattr("sys.argv", ["diffpool", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 130
    assert "run the same command again to continue" in capsys.readouterr().err


@pytest.mark.parametrize("label", ["id", "batch"])
def test_a_kernel_refuses_a_column_that_cannot_be_the_class(
    label: str, molecules: Path, capsys: Any, monkeypatch: Any
) -> None:
    line = complaint(capsys, monkeypatch, "evaluate", molecules, "--method", "wl", "--label", label)
    assert line.startswith(f"diffpool: m: {'60 graphs have 60' if label == 'id' else 'all 60'}")


@pytest.mark.parametrize("option", ["repeats", "cohort"])
def test_an_absurd_count_is_one_line(
    option: str, capsys: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    words = ("evaluate", "embedded", "--out", tmp_path / "r.jsonl", f"--{option}", 10**12)
    line = complaint(capsys, monkeypatch, *words)
    assert f"expected {option} from 1 to 10000, got 1000000000000" in line


@pytest.mark.parametrize("folds", ["[" * 100_000, "[1e400]", "9" * 5000])
def test_folds_that_json_cannot_hold_are_one_line(
    folds: str, capsys: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    (tmp_path / "folds.json").write_text(folds)
    words = ("evaluate", "embedded", "--out", tmp_path / "r.jsonl")
    line = complaint(capsys, monkeypatch, *words, "--folds", tmp_path / "folds.json")
    assert "folds.json: " in line
