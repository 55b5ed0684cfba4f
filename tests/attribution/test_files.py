"""Explanations as JSON lines and CSV."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from diffpool.attribution import explain, write_explanations
from diffpool.errors import SettingError
from tests.attribution.explained import model, raw_graphs


def test_json_lines_hold_the_explanations(tmp_path: Path) -> None:
    found = explain(model(), raw_graphs((4, 3)), method="leave-out")
    assert write_explanations(iter(found), tmp_path / "e.jsonl") == found
    lines = (tmp_path / "e.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [own.to_json() for own in found]


def test_csv_has_a_row_for_every_node_cluster_and_edge(tmp_path: Path) -> None:
    (own,) = explain(model(), raw_graphs((4,)), target="b")
    write_explanations([own], tmp_path / "e.csv")
    with (tmp_path / "e.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(len(level.nodes) + len(level.edge_scores) for level in own.levels)
    assert {row["target"] for row in rows} == {"b"}
    nodes = [row for row in rows if row["what"] == "node"]
    np.testing.assert_allclose(
        [float(row["score"]) for row in nodes], own.levels[0].nodes, rtol=1e-4
    )
    edges = [row for row in rows if row["what"] == "edge" and row["level"] == "0"]
    assert [[int(row["node"]), int(row["other"])] for row in edges] == own.levels[
        0
    ].edges.T.tolist()


def test_a_class_cannot_become_a_formula_in_csv(tmp_path: Path) -> None:
    found = explain(model(), raw_graphs((4,)))
    write_explanations([replace(own, target_name="=1+1") for own in found], tmp_path / "e.csv")
    with (tmp_path / "e.csv").open(newline="") as file:
        assert {row["target"] for row in csv.DictReader(file)} == {"'=1+1"}


def test_wrong_files_are_explained(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"--out to end in .jsonl or .csv, got .*e.txt: write"):
        write_explanations([], tmp_path / "e.txt")
    with pytest.raises(SettingError, match="create the folder first"):
        write_explanations([], tmp_path / "no" / "e.csv")
