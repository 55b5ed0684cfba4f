"""The tables of docs/analysis.md follow from the records: figures, marks for each data set, and a verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import cluster_tables, record
from benchmarks.cluster_tables import Claim, _against, claims, objectives, sizes, summary

ORIGIN = {
    "commit": "abc",
    "date": "2026-01-02",
    "versions": {"torch": "2"},
    "hardware": {"cpu": "abacus", "threads": 2, "gpu": None},
}
LINK = Claim("better", "ARI, link weight 1 / 0", _against("louvain_ari", "link 1", "link 0"))


def row(one: list[float], zero: list[float]) -> dict[str, Any]:
    """Two objectives with these adjusted Rand indices."""
    models = {
        name: {"test": [70.0, 80.0], "train": [90.0, 90.0], "poolings": [{"louvain_ari": values}]}
        for name, values in (("link 1", one), ("link 0", zero))
    }
    about = {"graphs": 600, "seeds": 2, "epochs": 9, "models": 4, "analyzed": 60, "structure": {}}
    variants = {"25 %": {"parameters": 1234, "epoch_s": 0.5, "objectives": models}}
    return {**about, "variants": {**variants, "50 %": {"failed": "not enough memory"}}}


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(record, "RECORDS", tmp_path)

    def write(**rows: dict[str, Any]) -> None:
        with (tmp_path / "clusters.jsonl").open("a") as file:
            for name, own in rows.items():
                file.write(json.dumps({**ORIGIN, "rows": {name: own}}) + "\n")

    return write


def cells(table: str | None) -> list[list[str]]:
    assert table is not None
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_a_claim_that_holds_in_every_seed_on_every_data_set(write: Any) -> None:
    write(A=row([0.5, 0.6], [0.1, 0.2]), B=row([0.5, 0.5], [0.4, 0.4]))
    (line,) = cells(claims([LINK]))
    assert line == [
        "“better”",
        "ARI, link weight 1 / 0",
        *("0.55 / 0.15 ✓", "0.50 / 0.40 ✓", "**yes**"),
    ]


def test_claims_that_fail_or_depend_on_the_data_set_or_the_seed(write: Any) -> None:
    write(A=row([0.1, 0.1], [0.5, 0.5]))
    assert cells(claims([LINK]))[0][2:] == ["0.10 / 0.50 ✗", "**no**"]
    write(B=row([0.5, 0.5], [0.1, 0.1]))
    assert cells(claims([LINK]))[0][-1] == "on 1 of 2"
    write(B=row([0.1, 0.5], [0.2, 0.2]))  # the last record of a data set counts
    assert cells(claims([LINK]))[0][2:] == ["0.10 / 0.50 ✗", "0.30 / 0.20 ~", "in some seeds"]


def test_what_was_not_measured_is_a_dash(write: Any) -> None:
    write(A=row([], []))
    assert cells(claims([LINK]))[0][2:] == ["– / –", "not measured"]
    assert cells(claims([Claim("by design", "–")]))[0][-1] == "–"


def test_every_claim_can_be_shown_if_little_was_measured(write: Any) -> None:
    write(A=row([0.5, 0.6], [0.1, 0.2]))
    for group in ("HIERARCHY", "DENSITY", "SIMILARITY", "NUMBERS"):
        group_claims = getattr(cluster_tables, group)
        assert len(cells(claims(group_claims))) == len(group_claims)
    found = summary()
    assert found is not None
    assert found.startswith("\nStatements that were measured: 1. Hold on every data set")


def test_sizes_and_objectives_show_accuracy_time_and_failures(write: Any) -> None:
    write(A=row([0.5, 0.6], [0.1, 0.2]))
    usual, large = cells(sizes())
    assert usual[4:] == ["75.0 ± 7.1", "75.0 ± 7.1", "500", "1,234"]
    assert large[2] == "not enough memory"
    first, second = cells(objectives())
    assert (first[1], first[6], second[6]) == ("link 1", "0.55", "0.15")


def test_without_records_there_are_no_tables(write: Any) -> None:
    assert claims([LINK]) is sizes() is objectives() is summary() is None
