"""The experiment on section 4.4 runs in a tiny form, and its record has what the page needs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import clusters
from benchmarks.cliques import cliques


def test_the_parts_of_generated_graphs_are_cliques_and_sparse() -> None:
    dataset = cliques(12, seed=1)
    assert dataset.communities is not None
    graphs = clusters.Graphs(dataset)
    for number in range(12):
        graph = graphs.get(number, hops=2)
        assert graph.planted is not None
        for part in range(4):
            nodes = np.flatnonzero(graph.planted == part)
            inside = graph.links[nodes][:, nodes].sum() / 2
            possible = len(nodes) * (len(nodes) - 1) / 2
            if part % 2 == 0:
                assert inside == possible
            else:
                assert inside == len(nodes) - (dataset.class_names[dataset.y[number]] != "cycle")
        assert np.isfinite(graph.distances).all()  # connected


WORDS = "clusters --datasets cliques --graphs 40 --epochs 1 --seeds 1 --device cpu --threads 1"


def run(words: list[str], records: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The row of the record that a tiny run has written."""
    monkeypatch.setattr(sys, "argv", [*WORDS.split(), *words, "--records", str(records)])
    clusters.main()
    lines = (records / "clusters.jsonl").read_text().splitlines()
    found: dict[str, Any] = json.loads(lines[-1])["rows"]["cliques"]
    return found


def test_a_tiny_run_writes_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = ["--variants", "10 %,25 %; two poolings", "--objectives", "link 1,link 0"]
    row = run(chosen, tmp_path, monkeypatch)
    assert (row["graphs"], row["analyzed"], row["models"]) == (40, 4, 2)
    assert row["structure"]["unique_features"] == 1
    one, two = (row["variants"][name] for name in ("10 %", "25 %; two poolings"))
    assert one["epoch_s"] > 0
    assert one["objectives"].keys() == {"untrained", "link 1", "link 0"}
    assert len(two["objectives"]["link 0"]["poolings"]) == 2
    assert len(one["objectives"]["link 1"]["test"]) == 1
    assert 0 <= one["objectives"]["link 1"]["poolings"][0]["planted_nmi"][0] <= 1


def test_variants_in_processes_give_the_same_record_without_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = ["--variants", "5", "--objectives", "link 1"]
    alone = run(chosen, tmp_path, monkeypatch)
    together = run([*chosen, "--jobs", "2"], tmp_path, monkeypatch)
    for result in alone["variants"].values():
        result["epoch_s"] = None
    assert together == alone
