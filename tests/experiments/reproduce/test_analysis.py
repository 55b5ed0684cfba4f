"""The tables of section 4.4 follow from the records: figures, marks for each data set, and a verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from diffpool.errors import DataError
from diffpool.experiments.reproduce import analysis
from diffpool.experiments.reproduce.analysis import (
    analysis_tables,
    claims_table,
    objectives_table,
    read_data,
    sizes_table,
    summary,
)
from diffpool.experiments.reproduce.claims import CLAIMS, Claim
from diffpool.experiments.reproduce.rules import against

ORIGIN = {
    "commit": "abc",
    "date": "2026-01-02",
    "versions": {"torch": "2"},
    "hardware": {"cpu": "abacus", "threads": 2, "gpu": None},
}
LINK = Claim("better", "ARI, link weight 1 / 0", against("louvain_ari", "link 1", "link 0"))


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
def write(tmp_path: Path) -> Any:
    def write(**rows: dict[str, Any]) -> None:
        with (tmp_path / "clusters.jsonl").open("a") as file:
            for name, own in rows.items():
                file.write(json.dumps({**ORIGIN, "rows": {name: own}}) + "\n")

    return write


@pytest.fixture
def claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The line of one claim."""

    def line(claim: Claim) -> list[str]:
        monkeypatch.setitem(analysis.CLAIMS, "hierarchy", (claim,))
        (found,) = claims_table("hierarchy", read_data(tmp_path / "clusters.jsonl")).lines
        return found

    return line


def test_a_claim_that_holds_in_every_seed_on_every_data_set(write: Any, claim: Any) -> None:
    write(A=row([0.5, 0.6], [0.1, 0.2]), B=row([0.5, 0.5], [0.4, 0.4]))
    assert claim(LINK) == [
        "“better”",
        "ARI, link weight 1 / 0",
        *("0.55 / 0.15 ✓", "0.50 / 0.40 ✓", "yes"),
    ]


def test_claims_that_fail_or_depend_on_the_data_set_or_the_seed(write: Any, claim: Any) -> None:
    write(A=row([0.1, 0.1], [0.5, 0.5]))
    assert claim(LINK)[2:] == ["0.10 / 0.50 ✗", "no"]
    write(B=row([0.5, 0.5], [0.1, 0.1]))
    assert claim(LINK)[-1] == "on 1 of 2"
    write(B=row([0.1, 0.5], [0.2, 0.2]))  # the last record of a data set counts
    assert claim(LINK)[2:] == ["0.10 / 0.50 ✗", "0.30 / 0.20 ~", "in some seeds"]


def test_what_was_not_measured_is_a_dash(write: Any, claim: Any) -> None:
    write(A=row([], []))
    assert claim(LINK)[2:] == ["– / –", "not measured"]
    assert claim(Claim("by design", "–"))[-1] == "–"


def test_every_claim_can_be_shown_if_little_was_measured(write: Any, tmp_path: Path) -> None:
    write(A=row([0.5, 0.6], [0.1, 0.2]))
    tables = analysis_tables(tmp_path)
    assert [len(table.lines) for table in tables[:4]] == [len(group) for group in CLAIMS.values()]
    found = summary(read_data(tmp_path / "clusters.jsonl"))
    assert found.startswith("Statements that were measured: 1. Hold on every data set")
    facts = [fact for table in tables for fact in table.facts if fact.get("claim")]
    assert {fact["holds"] for fact in facts if fact["figure"] == "0.55 / 0.15"} == {2}


def test_sizes_and_objectives_show_accuracy_time_and_failures(write: Any, tmp_path: Path) -> None:
    write(A=row([0.5, 0.6], [0.1, 0.2]))
    data = read_data(tmp_path / "clusters.jsonl")
    usual, large = sizes_table(data).lines
    assert usual[4:] == ["75.0 ± 7.1", "75.0 ± 7.1", "500", "1,234"]
    assert large[2] == "not enough memory"
    first, second = objectives_table(data).lines
    assert (first[1], first[6], second[6]) == ("link 1", "0.55", "0.15")
    assert "abacus, 2 threads; torch 2; commit abc" in objectives_table(data).notes[-1]


def test_data_sets_can_be_chosen(write: Any, tmp_path: Path) -> None:
    write(A=row([0.5, 0.6], [0.1, 0.2]), B=row([0.5, 0.5], [0.4, 0.4]))
    assert analysis_tables(tmp_path, ["B"])[0].header == ["the paper", "measured", "B", "holds"]
    (table,) = analysis_tables(tmp_path, ["C"])
    assert table.notes[0].startswith("Missing: no measurements.")


@pytest.mark.parametrize("line", ["{", "3", "{}", '{"rows": {"A": 1}}', '{"rows": {"A": {}}}'])
def test_a_damaged_record_is_an_error_with_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "clusters.jsonl").write_text(line + "\n")
    with pytest.raises(DataError, match=r"line 1: expected a record of benchmarks\.clusters, got"):
        analysis_tables(tmp_path)
