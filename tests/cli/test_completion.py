"""Completion of names in a shell."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from diffpool.cli.commands import app
from diffpool.cli.completion import (
    SUFFIXES,
    complete_dataset,
    complete_features,
    complete_grid,
    complete_settings,
)
from diffpool.data.sources import FILE_SUFFIXES


def test_data_sets_are_completed_by_name_folder_and_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "MYSET.zip").touch()
    for name in ("graphs.jsonl", "graphs.txt", ".hidden.csv"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DIFFPOOL_DATA", str(tmp_path / "data"))
    assert complete_dataset("ENZ") == ["ENZYMES"]
    assert complete_dataset("MYS") == ["MYSET"]
    assert complete_dataset("emb") == ["embedded"]
    assert complete_dataset("gr") == ["graphs.jsonl"]
    assert complete_dataset("da") == ["data/"]
    assert complete_dataset("data/") == ["data/MYSET.zip"]
    assert complete_dataset("no-such-folder/") == []


def test_every_kind_of_file_is_completed() -> None:
    assert set(SUFFIXES) == set(FILE_SUFFIXES)


def test_features_are_completed_one_by_one() -> None:
    assert complete_features("au") == ["auto"]
    assert complete_features("labels,deg") == ["labels,degree"]


def test_settings_are_completed_with_their_choices() -> None:
    assert complete_settings("hid") == ["hidden="]
    assert complete_settings("assignment=g") == ["assignment=gumbel"]
    assert complete_settings("order=l2,r") == ["order=l2,relu"]
    assert complete_settings("epo") == ["epochs="]
    assert complete_grid("epo") == []
    assert complete_grid("readout=me") == ["readout=mean"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("diffpool tr", ["train"]),
        ("diffpool train --method set", ["set2set"]),
        ("diffpool evaluate ENZ", ["ENZYMES"]),
        ("diffpool evaluate ENZYMES --protocol inn", ["inner-cv"]),
        ("diffpool evaluate ENZYMES --method wl-", ["wl-oa"]),
        ("diffpool train --conv edge-s", ["edge-sage"]),
        ("diffpool train --set conv=edge-s", ["conv=edge-sage"]),
        ("diffpool train --clip", ["--clip"]),  # an advanced option
    ],
)
def test_the_shell_gets_the_names(line: str, found: list[str]) -> None:
    variables = {
        "_DIFFPOOL_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }
    result = CliRunner().invoke(app, [], env=variables, prog_name="diffpool")
    assert result.output.split() == found
