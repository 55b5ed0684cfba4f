"""`diffpool reproduce`, as a user sees it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from diffpool.cli.commands import app
from diffpool.errors import SettingError

PAGE = Path(__file__).parent.parent.parent / "docs" / "reproduce.md"


def reproduce(*words: str) -> Any:
    return CliRunner().invoke(app, ["reproduce", *words])


COMMANDS = [
    line.split("#")[0].split()[2:]
    for block in re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for line in block.splitlines()
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_commands_of_the_page_are_valid(words: list[str]) -> None:
    """Without the computation."""
    words = ["--list" if word == "--run" else word for word in words]
    result = reproduce(*words)
    assert result.exit_code == 0, result.output
    assert result.output


def test_the_tables_of_the_source_tree_are_printed_without_data() -> None:
    result = reproduce("table1", "--protocol", "inner-cv", "--datasets", "ENZYMES")
    assert result.exit_code == 0
    assert re.search(r"WL-OA +60\.4 ± 4\.7 ×3 \(60\.13\)", result.output)


def test_a_missing_cell_is_listed_with_the_command_that_computes_it(tmp_path: Path) -> None:
    words = ["--records", str(tmp_path), "--datasets", "ENZYMES", "--methods", "gin,wl"]
    lines = reproduce("table1", "--list", "--protocol", "paper", *words).output.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(
        "diffpool evaluate ENZYMES --method gin --protocol paper --seed 0 --epochs 300 "
    )
    assert lines[0].endswith("# priority 3, 10 models")


def test_the_statements_of_section_44_are_printed() -> None:
    output = reproduce("analysis", "--datasets", "ENZYMES").output
    assert "“some clusters might not be used by the assignment matrix”" in output


def test_figures_are_written_to_a_folder(tmp_path: Path) -> None:
    words = ["--datasets", "PROTEINS", "--records", str(tmp_path), "--out", str(tmp_path / "f")]
    result = reproduce("figures", *words)
    assert result.exit_code == 0
    assert "f/speed.png" in result.output
    assert "not drawn: table1-paper: no records" in result.output


def test_json_output_is_json() -> None:
    tables = json.loads(reproduce("table2", "--format", "json", "--methods", "s2v").output)
    assert [table["name"] for table in tables] == ["table2", "table2"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tabel1"], r"expected the table to be one of .*got 'tabel1'. Did you mean table1"),
        (["table1", "--protocol", "tenfold"], "expected --protocol to be one of inner-cv, paper"),
        (["--format", "xml"], "expected --format to be one of text, md, csv, json, html"),
        (["--datasets", "ENZYME"], "expected --datasets among .*Did you mean ENZYMES"),
        (["--jobs", "0"], "expected --jobs from 1 to 64, got 0"),
        (["--max-time", "0"], "--max-time to be a time above 0.*alone is in minutes.*got '0'"),
        (["--set", "ensemble=3"], "--set does not accept ensemble"),
        (["time", "--set", "epochs=3"], "expected no --set with time, got epochs: it replaces"),
        (["stability", "--set", "patience=3"], "--set does not accept patience for stability"),
        (["figures", "--run"], "expected no --run or --list with figures"),
        (["--records", "none"], "got none, which does not exist: choose another folder"),
        (["--set", "epocs=3"], "expected --set NAME=VALUE.*Did you mean epochs"),
    ],
)
def test_a_mistake_is_explained(words: list[str], message: str) -> None:
    result = reproduce(*words)
    assert isinstance(result.exception, SettingError)
    assert re.search(message, str(result.exception))
