"""The data sets that commands are given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import SMALL, complaint
from typer.testing import CliRunner

from diffpool.cli.commands import app


def test_graph_files_are_trained_on_and_predicted_with_chosen_attributes(tmp_path: Path) -> None:
    nx = pytest.importorskip("networkx")
    for name, make in (("ring", nx.cycle_graph), ("star", nx.star_graph)):
        (tmp_path / "set" / name).mkdir(parents=True)
        for n in range(5, 17):
            graph = make(n)
            nx.set_node_attributes(graph, {v: f"{name} {n} {v}" for v in graph}, "key")
            nx.set_node_attributes(graph, {v: v / n for v in graph}, "height")
            nx.write_gml(graph, tmp_path / "set" / name / f"{n}.gml")
    data, out = str(tmp_path / "set"), str(tmp_path / "m")
    result = CliRunner().invoke(app, ["train", data, "--out", out, *SMALL])
    assert "attribute 'key' to be a label that nodes share" in str(result.exception)
    chosen = ["--node-attributes", "height"]
    result = CliRunner().invoke(app, ["train", data, "--out", out, *chosen, *SMALL])
    assert result.exit_code == 0, result.output
    predictions = tmp_path / "p.csv"
    graph = str(tmp_path / "set" / "ring" / "7.gml")
    words = ["predict", out, graph, "--out", str(predictions), *chosen]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert len(predictions.read_text().splitlines()) == 2
    facts = json.loads(CliRunner().invoke(app, ["data", data, "--json", *chosen]).stdout)
    assert facts["class_counts"] == {"ring": 12, "star": 12}
    pytest.importorskip("matplotlib")
    words = ["plot", "clusters", out, data, "--out", str(tmp_path / "c.png")]
    drawn = CliRunner().invoke(app, words)  # reads what the model was trained on, not the keys
    assert drawn.exit_code == 0, drawn.exception


@pytest.mark.parametrize("command", ["train", "evaluate"])
@pytest.mark.parametrize(
    ("options", "message"),
    {
        "none": (
            [],
            "name the column of the class with --label, or of a number to predict with --target. "
            "The file has id, smiles, active, logp, batch",
        ),
        "id": (
            ["--label", "id"],
            "m: 60 graphs have 60 different classes: for numbers to predict use --target, for classes name another "
            "column with --label",
        ),
        "number": (["--label", "logp"], "m: 60 graphs have 60 different classes: "),
        "constant": (["--label", "batch"], "m: all 60 graphs have the class 'x': "),
        "both": (
            ["--label", "active", "--target", "logp"],
            "expected --label or --target, got both",
        ),
    }.values(),
    ids=["none", "id", "number", "constant", "both"],
)
def test_a_column_that_cannot_be_the_class_is_one_line(
    command: str, options: list[str], message: str, molecules: Path, capsys: Any, monkeypatch: Any
) -> None:
    line = complaint(capsys, monkeypatch, command, molecules, *options, *SMALL)
    assert message in line
    assert len(line) < 400
